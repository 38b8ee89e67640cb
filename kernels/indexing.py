"""Gather and scatter: reading and adding at places that an array names.

Index arrays are int64 and already checked; `first_outside` is the check. Data is seen as
(outer, n, inner): ``n`` is the indexed dimension.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words_registry import T

__all__ = ["add_strided"]


@loop
def add_strided(x, out, shape, strides):
    """Add a flat array into the places of a strided view, in order: places may repeat.

    ``out`` is the view's memory from its first element on.
    """
    last = shape.size - 1
    rows = np.uint64(1)
    for d in range(last):
        rows *= shape[d]
    k = 0
    for row in range(rows):
        rest, at = row, np.uint64(0)
        for d in range(last - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        for i in range(shape[last]):
            out[at + i * strides[last]] += x[k]
            k += 1
