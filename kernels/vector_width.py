"""Loops whose vectors are to fill the widest registers.

LLVM makes vectors of 32 bytes for processors that have registers of 64: the first of these ran at a much lower clock
rate while they used them. Later ones lose little by it, and loops in which polynomials approximate words take 0.58 to
0.95 of the time with vectors of 64 bytes, whole training steps that have such loops 0.92 to 0.97 (Xeons of the
generations Cascade Lake and Ice Lake, loops of 4,096 to a million elements). Those that move memory and do plain
arithmetic take 1.0 to 1.2 of it, so they are left as they are.
"""

from __future__ import annotations

import linecache
from typing import Any

from jitgrad.kernels.codegen.rule_text import WIDE
from jitgrad.kernels.processor import cpu_features

__all__ = ["has_quick_wide_registers", "set_attribute", "widen"]


def has_quick_wide_registers() -> bool:
    """Whether the processor has registers of 64 bytes that are worth more than those of 32.

    A feature tells, as the numbers of models are in no order: Cascade Lake, and all that came later, multiply bytes for
    neural networks. Its predecessor, Skylake, slows down more, and hasn't been measured. How many units for 64 bytes a
    core has can't be asked; a single one does as much as the two for 32 bytes.
    """
    return "avx512vnni" in cpu_features()


def widen(function: Any, file: str) -> None:
    """Let LLVM fill the widest registers in a function, where a line of its file is `WIDE`."""
    if has_quick_wide_registers() and f"{WIDE}\n" in linecache.getlines(file):
        set_attribute(function, "prefer-vector-width", "512")


def set_attribute(function: Any, name: str, value: str) -> None:
    """Give a function in LLVM's text an attribute with a value; llvmlite's own ``add`` takes only those it knows."""
    set.add(function.attributes, f'"{name}"="{value}"')
