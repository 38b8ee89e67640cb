"""Loads and stores of elements that don't lie side by side: one by one, and not as one instruction.

Processors with AVX2 have instructions for them, gathers and scatters, which LLVM takes for quick ones. On Intel's from
Skylake to Ice Lake they have been slow since 2023, when microcode was changed for safety: a loop over every other
element takes 3 times as long with them, which virtual machines don't tell of. Others gain little by them over what LLVM
writes instead: single loads, or of elements a few places apart whole vectors, shuffled.
"""

from __future__ import annotations

from typing import Any

__all__ = ["NO_GATHERS", "avoid_gathers"]

# For LLVM: a matter of taste, so that it changes neither what a function may be inlined into nor where it runs.
NO_GATHERS = "+prefer-no-gather,+prefer-no-scatter"


def avoid_gathers(function: Any, features: str) -> None:
    """Tell LLVM so of a function that it compiles for a processor with these features."""
    if "+avx2" in features.split(","):
        # llvmlite knows none of LLVM's attributes that have values, and ``add`` refuses what it doesn't know.
        set.add(function.attributes, f'"target-features"="{features},{NO_GATHERS}"')
