"""Reductions: sums, products, extrema and their like, over contiguous (outer, n, inner) arrays.

Each exists in two forms: ``rows`` reduces the last axis of (outer, n); ``columns`` the middle axis
of (outer, n, inner), walking memory in order. Sums add blocks in the compute dtype, in as many
lanes as LLVM likes, and the blocks' sums in double precision: the error does not grow with n.
"""

from __future__ import annotations

import numpy as np

from .launch import loop

__all__ = [
    "any_columns", "any_rows", "divide", "extreme_columns", "extreme_rows", "locate_columns", "locate_rows",
    "prod_columns", "prod_others", "prod_rows", "root", "squares_columns", "squares_rows", "sum_columns", "sum_rows",
]  # fmt: skip


# Inner loops run over slices from 0: Numba's check for negative indices, where LLVM cannot rule them
# out, keeps a loop from being vectorised.


@loop(reassoc=True, split=("x", "out"))
def sum_rows(x, out):
    n = x.shape[1]
    for r in range(x.shape[0]):
        total = W(0)
        for begin in range(0, n, 512):
            part, block = x[r, begin : begin + 512], A(0)
            for i in range(part.size):
                block += A(part[i])
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
                fours = end - (end - begin) % 4
                for i in range(begin, fours, 4):
                    a, b = x[o, i, left:], x[o, i + 1, left:]
                    c, d = x[o, i + 2, left:], x[o, i + 3, left:]
                    for j in range(width):
                        block[j] += (A(a[j]) + A(b[j])) + (A(c[j]) + A(d[j]))
                for i in range(fours, end):
                    a = x[o, i, left:]
                    for j in range(width):
                        block[j] += A(a[j])
                for j in range(width):
                    total[j] += block[j]
            result = out[o, left:]
            for j in range(width):
                result[j] = total[j]


@loop(reassoc=True, split=("x", "center", "out"))
def squares_rows(x, center, out):
    """Sums of |x - center| ** 2."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        total, middle = W(0).real, center[r]
        for begin in range(0, n, 512):
            part, block = x[r, begin : begin + 512], T(0).real
            for i in range(part.size):
                d = part[i] - middle
                block += d.real * d.real + d.imag * d.imag
            total += block
        out[r] = total


@loop(split=("x", "center", "out"))
def squares_columns(x, center, out):
    """Sums of |x - center| ** 2."""
    n, inner = x.shape[1], x.shape[2]
    block = np.empty(512, T).real.copy()
    total = np.empty(512, W).real.copy()
    for o in range(x.shape[0]):
        for left in range(0, inner, 512):
            width, middle = min(512, inner - left), center[o, left:]
            total[:] = 0
            for begin in range(0, n, 32):
                block[:] = 0
                for i in range(begin, min(begin + 32, n)):
                    part = x[o, i, left:]
                    for j in range(width):
                        d = part[j] - middle[j]
                        block[j] += d.real * d.real + d.imag * d.imag
                for j in range(width):
                    total[j] += block[j]
            result = out[o, left:]
            for j in range(width):
                result[j] = total[j]


@loop
def divide(out, count):
    """Divide a flat array in place: sums become means."""
    for i in range(out.size):
        out[i] = out[i] / T(count)


@loop
def root(out):
    """Square roots of a flat array in place: sums of squares become norms."""
    for i in range(out.size):
        out[i] = np.sqrt(out[i])


@loop(reassoc=True, split=("x", "out"))
def prod_rows(x, out):
    for r in range(x.shape[0]):
        product = A(1)
        for i in range(x.shape[1]):
            product *= A(x[r, i])
        out[r] = product


@loop(split=("x", "out"))
def prod_columns(x, out):
    inner = x.shape[2]
    for o in range(x.shape[0]):
        for j in range(inner):
            out[o, j] = 1
        for i in range(x.shape[1]):
            for j in range(inner):
                out[o, j] *= x[o, i, j]


@loop(split=("x", "g", "out"))
def prod_others(x, g, out):
    """For each element g times the product of all others along n: right where some are zero."""
    n, inner = x.shape[1], x.shape[2]
    running = np.empty(inner, T)
    for o in range(x.shape[0]):
        running[:] = T(1)
        for i in range(n):
            for j in range(inner):
                out[o, i, j] = running[j]
                running[j] *= x[o, i, j]
        running[:] = g[o]
        for i in range(n - 1, -1, -1):
            for j in range(inner):
                out[o, i, j] *= running[j]
                running[j] *= x[o, i, j]


def better(v, best, largest):
    """Which of two stands: the larger or smaller, the first NaN for ever."""
    return v if (v != v) | ((best == best) & ((v > best) == largest)) else best


@loop(split=("x", "out"))
def extreme_rows(x, out, largest):
    """The largest or smallest of each row (n >= 1); NaN where there is one.

    64 candidates at a time: LLVM does not vectorise one running maximum that respects NaN.
    """
    n = x.shape[1]
    lanes = np.empty(64, T)
    for r in range(x.shape[0]):
        if n < 64:
            best = x[r, 0]
            for i in range(1, n):
                best = better(x[r, i], best, largest)
            out[r] = best
            continue
        lanes[:] = x[r, :64]
        for begin in range(64, n, 64):
            part = x[r, min(begin, n - 64) :]  # the last block overlaps: that changes no extremum
            for k in range(64):
                lanes[k] = better(part[k], lanes[k], largest)
        width = 32
        while width > 0:
            upper = lanes[width:]
            for k in range(width):
                lanes[k] = better(upper[k], lanes[k], largest)
            width //= 2
        out[r] = lanes[0]


@loop(split=("x", "out"))
def extreme_columns(x, out, largest):
    """The largest or smallest along n >= 1; NaN where there is one."""
    inner = x.shape[2]
    for o in range(x.shape[0]):
        for j in range(inner):
            out[o, j] = x[o, 0, j]
        for i in range(1, x.shape[1]):
            for j in range(inner):
                out[o, j] = better(x[o, i, j], out[o, j], largest)


@loop(split=("x", "value", "index"))
def locate_rows(x, value, index):
    """Where each row first holds ``value``, or a NaN if that is its extremum."""
    last = x.shape[1] - 1
    for r in range(x.shape[0]):
        row, wanted, i = x[r], value[r], 0
        while i < last and not (row[i] == wanted or row[i] != row[i]):
            i += 1
        index[r] = i


@loop(split=("x", "value", "index"))
def locate_columns(x, value, index):
    """Where ``value``, or a NaN, first stands along n."""
    for o in range(x.shape[0]):
        for i in range(x.shape[1] - 1, -1, -1):
            for j in range(x.shape[2]):
                v = x[o, i, j]
                index[o, j] = i if (v == value[o, j]) | (v != v) else index[o, j]


@loop(split=("x", "out"))
def any_rows(x, out, every):
    """Whether any element of a row is not zero; with ``every``: whether none is zero."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        begin, found = 0, False
        while begin < n and not found:
            part = x[r, begin : begin + 256]
            for i in range(part.size):
                found |= (part[i] != 0) != every
            begin += 256
        out[r] = found != every


@loop(split=("x", "out"))
def any_columns(x, out, every):
    """Whether any element along n is not zero; with ``every``: whether none is zero."""
    inner = x.shape[2]
    found = np.empty(inner, np.bool_)
    for o in range(x.shape[0]):
        found[:] = False
        for i in range(x.shape[1]):
            for j in range(inner):
                found[j] |= (x[o, i, j] != 0) != every
        for j in range(inner):
            out[o, j] = found[j] != every
