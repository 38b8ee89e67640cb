"""Factorisations of small real matrices, of which LAPACK's calls cost more than their arithmetic.

``x`` is (count, rows, columns); what is written has LAPACK's order, so ``out[b, j]`` is column j of matrix b, and its
elements are neighbours: the inner loops run along columns. Pivots are counted from 1, as LAPACK's are.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "MOST", "cholesky", "cholesky_inverse", "cholesky_solve", "columns_of_q", "fits", "inverse", "lu", "reflectors",
    "solve", "solve_triangular", "upper",
]  # fmt: skip

MOST = 1 << 10  # elements; above, LAPACK's blocks pay


def fits(dtype, rows, columns=0):
    """Whether matrices of this dtype and size (square, if columns are not given) are left to the loops here."""
    return dtype.char in "fd" and rows * (columns or rows) <= MOST


@loop(split=("x", "out", "info"))
def cholesky(x, out, info, upper):
    """The factor L, or U = L^T, of matrices of which one triangle is read; ``info``: the place of the first bad one."""
    n = x.shape[1]
    for b in range(x.shape[0]):
        info[b] = 0
        for j in range(n):
            for i in range(n):
                out[b, j, i] = T(0) if i < j else x[b, j, i] if upper else x[b, i, j]
        for j in range(n):
            for k in range(j):
                factor = out[b, k, j]
                for i in range(j, n):
                    out[b, j, i] -= out[b, k, i] * factor
            pivot = out[b, j, j]
            if not pivot > 0:  # or NaN
                info[b] = j + 1
                break
            pivot = np.sqrt(pivot)
            out[b, j, j] = pivot
            for i in range(j + 1, n):
                out[b, j, i] /= pivot
        if upper:
            for j in range(n):
                for i in range(j):
                    out[b, j, i], out[b, i, j] = out[b, i, j], out[b, j, i]


@loop(split=("x", "out", "pivots", "info"))
def lu(x, out, pivots, info):
    """L and U in one matrix, by the largest element of each column; ``info``: the first column without one."""
    m, n = x.shape[1], x.shape[2]
    for b in range(x.shape[0]):
        info[b] = 0
        for j in range(n):
            for i in range(m):
                out[b, j, i] = x[b, i, j]
        for j in range(min(m, n)):
            place, largest = j, abs(out[b, j, j])
            for i in range(j + 1, m):
                if abs(out[b, j, i]) > largest:
                    place, largest = i, abs(out[b, j, i])
            pivots[b, j] = place + 1
            if place != j:
                for k in range(n):
                    out[b, k, j], out[b, k, place] = out[b, k, place], out[b, k, j]
            pivot = out[b, j, j]
            if pivot != 0:
                for i in range(j + 1, m):
                    out[b, j, i] /= pivot
            elif info[b] == 0:
                info[b] = j + 1
            for k in range(j + 1, n):
                factor = out[b, k, j]
                for i in range(j + 1, m):
                    out[b, k, i] -= out[b, j, i] * factor


def substitute(x, pivots, column):
    """Replace ``column``, c, by the solution of A x = c. ``x``: the LU of A, ``x[j]`` its column j."""
    n = column.size
    for j in range(n):
        place = pivots[j] - 1
        column[j], column[place] = column[place], column[j]
    for j in range(n):
        for i in range(j + 1, n):
            column[i] -= x[j, i] * column[j]
    for j in range(n - 1, -1, -1):
        column[j] /= x[j, j]
        for i in range(j):
            column[i] -= x[j, i] * column[j]


FEW_ROWS = 8  # with fewer the loop along a column is too short for vector registers: columns are solved together


def substitute_side_by_side(x, pivots, columns):
    """``substitute`` for several columns, each step for all of them: the processor overlaps steps of different ones."""
    n, count = columns.shape[1], columns.shape[0]
    for j in range(n):
        place = pivots[j] - 1
        for c in range(count):
            columns[c, j], columns[c, place] = columns[c, place], columns[c, j]
    for j in range(n):
        for i in range(j + 1, n):
            for c in range(count):
                columns[c, i] -= x[j, i] * columns[c, j]
    for j in range(n - 1, -1, -1):
        for c in range(count):
            columns[c, j] /= x[j, j]
        for i in range(j):
            for c in range(count):
                columns[c, i] -= x[j, i] * columns[c, j]


def substitute_turned(x, pivots, column):
    """Replace ``column``, c, by the solution of A^T x = c."""
    n = column.size
    for j in range(n):
        for i in range(j):
            column[j] -= x[j, i] * column[i]
        column[j] /= x[j, j]
    for j in range(n - 1, -1, -1):
        for i in range(j + 1, n):
            column[j] -= x[j, i] * column[i]
    for j in range(n - 1, -1, -1):
        place = pivots[j] - 1
        column[j], column[place] = column[place], column[j]


@loop(split=("x", "pivots", "sides", "out"))
def solve(x, pivots, sides, out, turned):
    """Solutions X of A X or, ``turned``, A^T X = ``sides``, which are by rows; ``x``, by columns, is the LU of A."""
    n = x.shape[1]
    for b in range(x.shape[0]):
        for c in range(out.shape[1]):
            for j in range(n):
                out[b, c, j] = sides[b, j, c]
            if turned:
                substitute_turned(x[b], pivots[b], out[b, c])
            elif n >= FEW_ROWS:
                substitute(x[b], pivots[b], out[b, c])
        if n < FEW_ROWS and not turned:
            substitute_side_by_side(x[b], pivots[b], out[b])


@loop(split=("x", "pivots", "info", "out"))
def inverse(x, pivots, info, out):
    """Inverses of matrices whose LU is ``x``, by columns; NaN where ``info`` is not 0."""
    n = x.shape[1]
    for b in range(x.shape[0]):
        for c in range(n):
            for j in range(n):
                out[b, c, j] = T(np.nan) if info[b] != 0 else T(1) if j == c else T(0)
            if n >= FEW_ROWS and info[b] == 0:
                substitute(x[b], pivots[b], out[b, c])
        if n < FEW_ROWS and info[b] == 0:
            substitute_side_by_side(x[b], pivots[b], out[b])


@loop(split=("factor", "sides", "out"))
def cholesky_solve(factor, sides, out, upper):
    """Solutions X of L L^T X = ``sides``; L, or with ``upper`` L^T, is ``factor``, both by rows."""
    n = factor.shape[1]
    for b in range(factor.shape[0]):
        for c in range(out.shape[1]):
            for j in range(n):
                out[b, c, j] = sides[b, j, c]
            for j in range(n):
                total = out[b, c, j]
                for i in range(j):
                    total -= (factor[b, i, j] if upper else factor[b, j, i]) * out[b, c, i]
                out[b, c, j] = total / factor[b, j, j]
            for j in range(n - 1, -1, -1):
                total = out[b, c, j]
                for i in range(j + 1, n):
                    total -= (factor[b, j, i] if upper else factor[b, i, j]) * out[b, c, i]
                out[b, c, j] = total / factor[b, j, j]


@loop(split=("factor", "out", "info"))
def cholesky_inverse(factor, out, info, upper):
    """(L L^T)^-1, for ``factor`` as in `cholesky_solve`; ``info``: the first zero on its diagonal, from 1, or 0."""
    n = factor.shape[1]
    for b in range(factor.shape[0]):
        info[b] = 0
        for j in range(n - 1, -1, -1):
            if factor[b, j, j] == 0:
                info[b] = j + 1
        for c in range(n):
            for j in range(c, n):  # column c of L^-1, below the diagonal
                total = T(1) if j == c else T(0)
                for i in range(c, j):
                    total -= (factor[b, i, j] if upper else factor[b, j, i]) * out[b, c, i]
                out[b, c, j] = total / factor[b, j, j]
            for j in range(n - 1, c - 1, -1):
                total = out[b, c, j]
                for i in range(j + 1, n):
                    total -= (factor[b, j, i] if upper else factor[b, i, j]) * out[b, c, i]
                out[b, c, j] = total / factor[b, j, j]
        for c in range(n):
            for j in range(c):
                out[b, c, j] = out[b, j, c]


@loop(split=("a", "sides", "out"))
def solve_triangular(a, sides, out, upper, left, unit):
    """Solutions X of A X = ``sides`` or, not ``left``, X A = ``sides``; ``a`` and ``sides`` by rows."""
    n, rows = a.shape[1], out.shape[2]
    for b in range(a.shape[0]):
        for c in range(out.shape[1]):
            for j in range(rows):
                out[b, c, j] = sides[b, j, c]
        for c in range(out.shape[1] if left else 0):
            for s in range(n):
                j = n - 1 - s if upper else s
                factor = out[b, c, j] if unit else out[b, c, j] / a[b, j, j]
                out[b, c, j] = factor
                for i in range(0 if upper else j + 1, j if upper else n):
                    out[b, c, i] -= a[b, i, j] * factor
        for s in range(0 if left else n):
            j = s if upper else n - 1 - s
            for k in range(0 if upper else j + 1, j if upper else n):
                factor = a[b, k, j]
                for i in range(rows):
                    out[b, j, i] -= out[b, k, i] * factor
            if not unit:
                for i in range(rows):
                    out[b, j, i] /= a[b, j, j]


@loop(reassoc=True, split=("x", "out", "tau"))
def reflectors(x, out, tau):
    """R on and above the diagonal, and below it v of reflectors 1 - tau v v^T, whose first element is 1."""
    m, n = x.shape[1], x.shape[2]
    for b in range(x.shape[0]):
        for j in range(n):
            for i in range(m):
                out[b, j, i] = x[b, i, j]
        for j in range(min(m, n)):
            below, squares, first = T(0), T(0), out[b, j, j]
            for i in range(j + 1, m):
                below += abs(out[b, j, i])
            tau[b, j] = T(0)
            if below == 0:
                continue
            scale = below + abs(first)  # so that squares neither overflow nor vanish
            for i in range(j, m):
                squares += (out[b, j, i] / scale) * (out[b, j, i] / scale)
            size = scale * np.sqrt(squares)
            last = -size if first >= 0 else size
            factor = (last - first) / last
            tau[b, j], out[b, j, j] = factor, last
            for i in range(j + 1, m):
                out[b, j, i] /= first - last
            for k in range(j + 1, n):
                product = out[b, k, j]
                for i in range(j + 1, m):
                    product += out[b, j, i] * out[b, k, i]
                product *= factor
                out[b, k, j] -= product
                for i in range(j + 1, m):
                    out[b, k, i] -= out[b, j, i] * product


@loop(split=("x", "out"))
def upper(x, out):
    """The upper triangle of the first rows, both arrays by columns."""
    for b in range(x.shape[0]):
        for j in range(out.shape[1]):
            for i in range(out.shape[2]):
                out[b, j, i] = x[b, j, i] if i <= j else T(0)


@loop(reassoc=True, split=("x", "tau", "out"))
def columns_of_q(x, tau, out):
    """The first columns of the product of the reflectors in ``x``."""
    n, m, count = out.shape[1], out.shape[2], tau.shape[1]
    for b in range(out.shape[0]):
        for j in range(n):
            for i in range(m):
                out[b, j, i] = x[b, j, i] if j < count else T(1) if i == j else T(0)
        for j in range(count - 1, -1, -1):
            factor = tau[b, j]
            for k in range(j + 1, n):
                product = out[b, k, j]
                for i in range(j + 1, m):
                    product += out[b, j, i] * out[b, k, i]
                product *= factor
                out[b, k, j] -= product
                for i in range(j + 1, m):
                    out[b, k, i] -= out[b, j, i] * product
            for i in range(j):
                out[b, j, i] = T(0)
            out[b, j, j] = 1 - factor
            for i in range(j + 1, m):
                out[b, j, i] *= -factor
