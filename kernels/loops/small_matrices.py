"""Factorisations of small real matrices, of which LAPACK's calls cost more than their arithmetic.

``x`` is (count, rows, columns); what is written has LAPACK's order, so ``out[b, j]`` is column j of matrix b, and its
elements are neighbours: the inner loops run along columns. Pivots are counted from 1, as LAPACK's are.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = ["MOST", "cholesky", "columns_of_q", "fits", "lu", "reflectors", "solve", "solve_triangular", "upper"]

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


@loop(split=("x", "pivots", "out"))
def solve(x, pivots, out):
    """The columns of ``out``, right sides, become solutions, for square matrices whose LU is ``x``, by columns."""
    n = x.shape[1]
    for b in range(x.shape[0]):
        for c in range(out.shape[1]):
            for j in range(n):
                place = pivots[b, j] - 1
                if place != j:
                    out[b, c, j], out[b, c, place] = out[b, c, place], out[b, c, j]
            for j in range(n):
                factor = out[b, c, j]
                for i in range(j + 1, n):
                    out[b, c, i] -= x[b, j, i] * factor
            for j in range(n - 1, -1, -1):
                factor = out[b, c, j] / x[b, j, j]
                out[b, c, j] = factor
                for i in range(j):
                    out[b, c, i] -= x[b, j, i] * factor


@loop(split=("a", "out"))
def solve_triangular(a, out, upper, left, unit):
    """``out``, right sides, becomes the solutions X of A X = B or, not ``left``, X A = B; ``a`` by rows."""
    n, rows = a.shape[1], out.shape[2]
    for b in range(a.shape[0]):
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
