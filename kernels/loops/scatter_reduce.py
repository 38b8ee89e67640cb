"""Writes at places that an array names which multiply, or keep the larger or the smaller; places may repeat."""

from __future__ import annotations

from jitgrad.kernels.loops.elements import write_elements
from jitgrad.kernels.loops.indexing import multiply, write_rows

__all__ = ["larger_elements", "larger_rows", "multiply_rows", "smaller_elements", "smaller_rows"]


def larger(old, new):
    # What is NaN stays, since it is not below anything; a new NaN is not equal to itself.
    return new if (new > old) | (new != new) else old


def smaller(old, new):
    return new if (new < old) | (new != new) else old


multiply_rows = write_rows("multiply_rows", multiply)
larger_rows = write_rows("larger_rows", larger)
smaller_rows = write_rows("smaller_rows", smaller)
larger_elements = write_elements("larger_elements", larger)
smaller_elements = write_elements("smaller_elements", smaller)
