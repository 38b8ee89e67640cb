"""Running sums and products along the middle axis of contiguous (outer, n, inner) arrays."""

from __future__ import annotations

import numpy as np

from .launch import loop

__all__ = ["cumprod", "cumsum"]


@loop(split=("x", "out"))
def cumsum(x, out, backwards):
    """Running sums, from the end if ``backwards``; float32 is added up in double precision."""
    n, inner = x.shape[1], x.shape[2]
    total = np.empty(inner, W)
    for o in range(x.shape[0]):
        total[:] = W(0)
        for k in range(n):
            i = n - 1 - k if backwards else k
            for j in range(inner):
                total[j] += W(x[o, i, j])
                out[o, i, j] = total[j]


@loop(split=("x", "out"))
def cumprod(x, out):
    """Running products."""
    n, inner = x.shape[1], x.shape[2]
    product = np.empty(inner, W)
    for o in range(x.shape[0]):
        product[:] = W(1)
        for i in range(n):
            for j in range(inner):
                product[j] *= W(x[o, i, j])
                out[o, i, j] = product[j]
