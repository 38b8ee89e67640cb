"""Sums and products over contiguous (outer, n, inner) arrays.

Each exists in two forms: ``rows`` reduces the last axis of (outer, n); ``columns`` the middle axis
of (outer, n, inner), walking memory in order. Sums add blocks in the compute dtype, in as many
lanes as LLVM likes, and the blocks' sums in double precision: the error does not grow with n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.kernels.launch import Loop, loop
from jitgrad.kernels.words.vocabulary import T, scratch

__all__ = [
    "LONG_ROW", "ROW_SUMS", "divide", "nansum_columns", "nansum_rows", "prod_columns", "prod_others", "prod_rows",
    "spread", "sum_columns", "sum_columns_apart", "sum_long_rows", "sum_rows", "sum_rows_apart",
]  # fmt: skip

STREAMED = 1 << 19  # elements from which two threads are clearly quicker at loops as fast as memory


# Inner loops run over slices from 0: Numba's check for negative indices, where LLVM cannot rule them
# out, keeps a loop from being vectorised.


def itself(v):
    return v


def number_or_zero(v):
    return v if v == v else T(0)


def summing_rows(name: str, term: Callable[..., Any]) -> Loop:
    """Make the kernel of the sums of ``term(v)`` of a row's elements v."""

    def rows(x, out):
        n = x.shape[1]
        for r in range(x.shape[0]):
            total = W(0)
            # The error grows with the block's length, not the row's: pairwise summation of two levels.
            for begin in range(0, n, 1024):
                part, block = x[r, begin : begin + 1024], A(0)
                for i in range(part.size):
                    block += A(term(part[i]))
                total += block
            out[r] = total

    rows.__name__ = name  # a kernel is known, and cached, by its name and text
    return loop(rows, reassoc=True, split=("x", "out"), grain=STREAMED)


sum_rows = summing_rows("sum_rows", itself)
nansum_rows = summing_rows("nansum_rows", number_or_zero)


# Elements of a row from which `sum_long_rows` is quicker: they come from memory, or from a cache that cores share.
LONG_ROW = 1 << 21


@loop(reassoc=True, split=("x", "out"), grain=STREAMED)
def sum_long_rows(x, out):
    """`sum_rows`, four quarters of a row side by side: the processor prefetches four streams quicker than one.

    That takes 0.5 to 0.8 of the time of `sum_rows` on one thread.
    """
    n = x.shape[1]
    size = n // 4096 * 1024
    for r in range(x.shape[0]):
        a, b, c, d = W(0), W(0), W(0), W(0)
        for begin in range(0, size, 1024):
            first, second = x[r, begin : begin + 1024], x[r, size + begin : size + begin + 1024]
            third, fourth = x[r, 2 * size + begin :], x[r, 3 * size + begin :]
            i, j, k, l = A(0), A(0), A(0), A(0)
            for e in range(1024):
                i += A(first[e])
                j += A(second[e])
                k += A(third[e])
                l += A(fourth[e])
            a, b, c, d = a + i, b + j, c + k, d + l
        total = (a + b) + (c + d)
        for begin in range(4 * size, n, 1024):
            part, block = x[r, begin : begin + 1024], A(0)
            for e in range(part.size):
                block += A(part[e])
            total += block
        out[r] = total


ROW_SUMS = (sum_rows, sum_long_rows)


def summing_columns(name: str, term: Callable[..., Any]) -> Loop:
    """Make the kernel of the sums of ``term(v)`` of a column's elements v."""

    def columns(x, out):
        n, inner = x.shape[1], x.shape[2]
        block, total = scratch(1024, A), scratch(1024, W)
        for o in range(x.shape[0]):
            # A strip of 1024 columns: its totals stay in the first-level cache while rows are walked in order.
            for left in range(0, inner, 1024):
                width = min(1024, inner - left)
                total[:] = W(0)
                for begin in range(0, n, 64):
                    block[:] = A(0)
                    for i in range(begin, min(begin + 64, n)):
                        row = x[o, i, left:]
                        for j in range(width):
                            block[j] += A(term(row[j]))
                    for j in range(width):
                        total[j] += block[j]
                result = out[o, left:]
                for j in range(width):
                    result[j] = total[j]

    columns.__name__ = name
    return loop(columns, split=("x", "out"), grain=STREAMED)


sum_columns = summing_columns("sum_columns", itself)
nansum_columns = summing_columns("nansum_columns", number_or_zero)


def row_pieces(x, width, step, out):
    """(number of pieces, of how many steps): a piece is a row."""
    return out.size, width


@loop(reassoc=True, pieces=row_pieces, dtype_from="x", grain=STREAMED)
def sum_rows_apart(x, width, step, out, begin, end):
    """`sum_rows` of rows of ``width`` elements that begin ``step`` elements apart in a vector."""
    for r in range(begin, end):
        row, total = x[r * step : r * step + width], W(0)
        for first in range(0, row.size, 1024):
            part, block = row[first : first + 1024], A(0)
            for i in range(part.size):
                block += A(part[i])
            total += block
        out[r] = total


STRIP = 512  # columns that a piece has


def strip_pieces(x, width, step, out):
    """(number of pieces, of how many steps): a piece is a strip of columns."""
    return (width + STRIP - 1) // STRIP, min(width, STRIP) * (x.size // step + 1)


@loop(pieces=strip_pieces, dtype_from="x", grain=STREAMED)
def sum_columns_apart(x, width, step, out, begin, end):
    """`sum_columns` of such rows."""
    rows = (x.size - width) // step + 1
    block, total = scratch(STRIP, A), scratch(STRIP, W)
    for strip in range(begin, end):
        left = strip * STRIP
        size = min(STRIP, width - left)
        total[:] = W(0)
        for first in range(0, rows, 64):
            block[:] = A(0)
            for r in range(first, min(first + 64, rows)):
                row = x[r * step + left : r * step + left + size]
                for j in range(size):
                    block[j] += A(row[j])
            for j in range(size):
                total[j] += block[j]
        result = out[left:]
        for j in range(size):
            result[j] = total[j]


@loop
def spread(g, out, count):
    """g / count, given as (outer, inner), in each row of out (outer, n, inner): the gradient of sums and means."""
    inner = out.shape[2]
    for o in range(out.shape[0]):
        for i in range(out.shape[1]):
            for j in range(inner):
                out[o, i, j] = g[o, j] / T(count)


@loop
def divide(out, count):
    """Divide a flat array in place: sums become means."""
    for i in range(out.size):
        out[i] = out[i] / T(count)


@loop(reassoc=True, split=("x", "out"), grain=STREAMED)
def prod_rows(x, out):
    for r in range(x.shape[0]):
        product = A(1)
        for i in range(x.shape[1]):
            product *= A(x[r, i])
        out[r] = product


@loop(split=("x", "out"), grain=STREAMED)
def prod_columns(x, out):
    inner = x.shape[2]
    for o in range(x.shape[0]):
        for j in range(inner):
            out[o, j] = 1
        for i in range(x.shape[1]):
            for j in range(inner):
                out[o, j] *= x[o, i, j]


@loop(reassoc=True, split=("x", "g", "out"), grain=STREAMED)
def prod_others(x, g, out):
    """For each element g times the product of all others along n: right where some are zero."""
    n, inner = x.shape[1], x.shape[2]
    running = np.empty(inner, T)
    elements, targets = x.reshape(x.size), out.reshape(out.size)
    for o in range(x.shape[0]):
        if inner == 1:
            row, target, whole = elements[o * n : (o + 1) * n], targets[o * n : (o + 1) * n], T(1)
            for i in range(n):
                whole *= row[i]
            if whole != 0 and whole - whole == 0:  # by divisions, as long as neither zeros nor rounding lose anything
                for i in range(n):
                    target[i] = g[o, 0] * np.conj(whole / row[i])
                continue
        # Products of what lies before, then of what lies behind: no division, so zeros do no harm.
        running[:] = T(1)
        for i in range(n):
            for j in range(inner):
                out[o, i, j] = running[j]
                running[j] *= x[o, i, j]
        running[:] = T(1)
        for i in range(n - 1, -1, -1):
            for j in range(inner):
                out[o, i, j] = g[o, j] * np.conj(out[o, i, j] * running[j])
                running[j] *= x[o, i, j]
