"""Softmax, log-softmax and logsumexp along the middle axis of contiguous (outer, n, inner) arrays.

``rows`` for inner = 1, ``columns`` otherwise. Exponents are taken relative to the largest element;
a row of -inf gives NaN, as the formula does. One logarithm a row is the C library's: the word is for
loops, and would double the time it takes to compile.
"""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.extrema import better, row_largest
from jitgrad.kernels.words import log
from jitgrad.kernels.words.rows import _exp_falling

__all__ = [
    "log_softmax_columns", "log_softmax_columns_gradient", "log_softmax_rows", "log_softmax_rows_gradient",
    "logsumexp_columns", "logsumexp_rows", "softmax_columns", "softmax_columns_gradient", "softmax_rows",
    "softmax_rows_gradient",
]  # fmt: skip


@loop(reassoc=True, split=("x", "out"))
def softmax_rows(x, out):
    for r in range(x.shape[0]):
        row, target = x[r], out[r]
        top, total = row_largest(row), T(0)
        for i in range(row.size):
            # At most 0, so exp cannot overflow, and the largest element gives 1: the total is at least 1.
            e = _exp_falling(row[i] - top)
            target[i] = e
            total += e
        # One division a row; the elements are multiplied.
        factor = T(1) / total
        for i in range(row.size):
            target[i] *= factor


@loop(reassoc=True, split=("x", "out"))
def log_softmax_rows(x, out):
    for r in range(x.shape[0]):
        row, target = x[r], out[r]
        top, total = row_largest(row), T(0)
        for i in range(row.size):
            # Kept, for the sum top + log(total) would round away what sets large elements apart, and where sums may be
            # reordered x - top - log(total) in one expression is computed so.
            target[i] = row[i] - top
            total += _exp_falling(target[i])
        shift = T(math.log(total))
        for i in range(row.size):
            target[i] -= shift


@loop(reassoc=True, split=("x", "out"))
def logsumexp_rows(x, out):
    for r in range(x.shape[0]):
        row, total = x[r], T(0)
        if row.size == 0:
            out[r] = -np.inf
            continue
        top = row_largest(row)
        for i in range(row.size):
            total += _exp_falling(row[i] - top)
        # inf - inf above made NaN of rows that hold an infinity: then the largest is the result.
        out[r] = top if abs(top) == np.inf else top + T(math.log(total))


@loop(reassoc=True, split=("g", "y", "out"))
def softmax_rows_gradient(g, y, out):
    """y * (g - sum(g * y))."""
    for r in range(y.shape[0]):
        slope, row, target, total = g[r], y[r], out[r], T(0)
        for i in range(row.size):
            total += slope[i] * row[i]
        for i in range(row.size):
            target[i] = row[i] * (slope[i] - total)


@loop(reassoc=True, split=("g", "y", "out"))
def log_softmax_rows_gradient(g, y, out):
    """g - exp(y) * sum(g)."""
    for r in range(y.shape[0]):
        slope, row, target, total = g[r], y[r], out[r], T(0)
        for i in range(row.size):
            total += slope[i]
        for i in range(row.size):
            target[i] = slope[i] - _exp_falling(row[i]) * total


def column_tops(x, top, total):
    """The largest element of each column of (n, inner), and zeros to add up in."""
    for j in range(top.size):
        top[j], total[j] = x[0, j], T(0)
    for i in range(1, x.shape[0]):
        row = x[i]
        for j in range(top.size):
            top[j] = better(row[j], top[j], True)


@loop(split=("x", "out"))
def softmax_columns(x, out):
    n, inner = x.shape[1], x.shape[2]
    top, total = np.empty(inner, T), np.empty(inner, T)
    for o in range(x.shape[0]):
        column_tops(x[o], top, total)
        for i in range(n):
            row, target = x[o, i], out[o, i]
            for j in range(inner):
                e = _exp_falling(row[j] - top[j])
                target[j] = e
                total[j] += e
        for i in range(n):
            target = out[o, i]
            for j in range(inner):
                target[j] /= total[j]


@loop(split=("x", "out"))
def log_softmax_columns(x, out):
    n, inner = x.shape[1], x.shape[2]
    top, total = np.empty(inner, T), np.empty(inner, T)
    for o in range(x.shape[0]):
        column_tops(x[o], top, total)
        for i in range(n):
            row = x[o, i]
            for j in range(inner):
                total[j] += _exp_falling(row[j] - top[j])
        for j in range(inner):
            total[j] = log(total[j])
        for i in range(n):
            row, target = x[o, i], out[o, i]
            for j in range(inner):
                target[j] = (row[j] - top[j]) - total[j]


@loop(split=("x", "out"))
def logsumexp_columns(x, out):
    n, inner = x.shape[1], x.shape[2]
    top, total = np.empty(inner, T), np.empty(inner, T)
    for o in range(x.shape[0]):
        if n == 0:
            out[o] = -np.inf
            continue
        column_tops(x[o], top, total)
        for i in range(n):
            row = x[o, i]
            for j in range(inner):
                total[j] += _exp_falling(row[j] - top[j])
        for j in range(inner):
            out[o, j] = top[j] if abs(top[j]) == np.inf else top[j] + log(total[j])


@loop(split=("g", "y", "out"))
def softmax_columns_gradient(g, y, out):
    """y * (g - sum(g * y))."""
    n, inner = y.shape[1], y.shape[2]
    total = np.empty(inner, T)
    for o in range(y.shape[0]):
        total[:] = T(0)
        for i in range(n):
            slope, row = g[o, i], y[o, i]
            for j in range(inner):
                total[j] += slope[j] * row[j]
        for i in range(n):
            slope, row, target = g[o, i], y[o, i], out[o, i]
            for j in range(inner):
                target[j] = row[j] * (slope[j] - total[j])


@loop(split=("g", "y", "out"))
def log_softmax_columns_gradient(g, y, out):
    """g - exp(y) * sum(g)."""
    n, inner = y.shape[1], y.shape[2]
    total = np.empty(inner, T)
    for o in range(y.shape[0]):
        total[:] = T(0)
        for i in range(n):
            slope = g[o, i]
            for j in range(inner):
                total[j] += slope[j]
        for i in range(n):
            slope, row, target = g[o, i], y[o, i], out[o, i]
            for j in range(inner):
                target[j] = slope[j] - _exp_falling(row[j]) * total[j]
