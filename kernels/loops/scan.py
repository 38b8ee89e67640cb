"""Running sums and products along the middle axis of contiguous (outer, n, inner) arrays."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop

__all__ = ["cumprod_columns", "cumprod_rows", "cumsum_columns", "cumsum_rows"]


@loop(split=("x", "out"))
def cumsum_rows(x, out, backwards):
    """Running sums, from the end if ``backwards``; float32 is added up in double precision."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        # W: a running sum has as many roundings as elements, and no blocks to keep them few.
        row, target, total = x[r], out[r], W(0)
        if backwards:
            for k in range(n):
                total += W(row[n - 1 - k])
                target[n - 1 - k] = total
        else:
            for i in range(n):
                total += W(row[i])
                target[i] = total


@loop(split=("x", "out"))
def cumsum_columns(x, out, backwards):
    """Running sums, from the end if ``backwards``; float32 is added up in double precision."""
    n, inner = x.shape[1], x.shape[2]
    total = np.empty(inner, W)
    for o in range(x.shape[0]):
        total[:] = W(0)
        for k in range(n):
            i = n - 1 - k if backwards else k
            row, target = x[o, i], out[o, i]
            for j in range(inner):
                total[j] += W(row[j])
                target[j] = total[j]


@loop(split=("x", "out"))
def cumprod_rows(x, out):
    """Running products."""
    for r in range(x.shape[0]):
        row, target, product = x[r], out[r], W(1)
        for i in range(row.size):
            product *= W(row[i])
            target[i] = product


@loop(split=("x", "out"))
def cumprod_columns(x, out):
    """Running products."""
    n, inner = x.shape[1], x.shape[2]
    product = np.empty(inner, W)
    for o in range(x.shape[0]):
        product[:] = W(1)
        for i in range(n):
            row, target = x[o, i], out[o, i]
            for j in range(inner):
                product[j] *= W(row[j])
                target[j] = product[j]
