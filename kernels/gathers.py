"""Loads and stores of elements that don't lie side by side: one by one, and not as one instruction.

Processors with AVX2 have instructions for them, gathers and scatters, and LLVM reckons that they are quick. On a Xeon
of the Cascade Lake generation a loop over every other element takes 3 times as long with them as without; since 2023
Intel's microcode for Skylake to Ice Lake slows gathers down for safety. Without them LLVM writes single loads or, for
elements a few places apart, loads whole vectors and shuffles these. On processors with quick gathers this has not been
measured.
"""

from __future__ import annotations

from typing import Any

from jitgrad.kernels.vector_width import set_attribute

__all__ = ["NO_GATHERS", "avoid_gathers"]

# Features that only tune: they limit neither which functions a function may be inlined into nor where it runs.
NO_GATHERS = "+prefer-no-gather,+prefer-no-scatter"


def avoid_gathers(function: Any, features: str) -> None:
    """Tell LLVM so of a function that it compiles for a processor with these features."""
    if "+avx2" in features.split(","):
        set_attribute(function, "target-features", f"{features},{NO_GATHERS}")
