"""Reductions: sums, products, extrema and their like, over contiguous (outer, n, inner) arrays.

Each exists in two forms: ``rows`` reduces the last axis of (outer, n); ``columns`` the middle axis
of (outer, n, inner), walking memory in order. Sums add blocks in the compute dtype, in as many
lanes as LLVM likes, and the blocks' sums in double precision: the error does not grow with n.
"""

from __future__ import annotations

import numpy as np

from .launch import loop

__all__ = ["divide", "sum_columns", "sum_rows"]


@loop(reassoc=True, split=("x", "out"))
def sum_rows(x, out):
    n = x.shape[1]
    for r in range(x.shape[0]):
        total = W(0)
        for begin in range(0, n, 512):
            block = A(0)
            for i in range(begin, min(begin + 512, n)):
                block += A(x[r, i])
            total += block
        out[r] = total


@loop(split=("x", "out"))
def sum_columns(x, out):
    n, inner = x.shape[1], x.shape[2]
    block, total = np.empty(512, A), np.empty(512, W)
    for o in range(x.shape[0]):
        for left in range(0, inner, 512):
            width = min(512, inner - left)
            total[:] = W(0)
            for begin in range(0, n, 32):
                end = min(begin + 32, n)
                block[:] = A(0)
                for i in range(begin, end - 3, 4):
                    for j in range(width):
                        first = A(x[o, i, left + j]) + A(x[o, i + 1, left + j])
                        second = A(x[o, i + 2, left + j]) + A(x[o, i + 3, left + j])
                        block[j] += first + second
                for i in range(end - (end - begin) % 4, end):
                    for j in range(width):
                        block[j] += A(x[o, i, left + j])
                for j in range(width):
                    total[j] += block[j]
            for j in range(width):
                out[o, left + j] = total[j]


@loop
def divide(out, count):
    """Divide a flat array in place: sums become means."""
    for i in range(out.size):
        out[i] = out[i] / T(count)
