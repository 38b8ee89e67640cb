"""Factorisations of batches of matrices and what is solved by them, by LAPACK.

The last two dims of arrays are matrices. Those that are written are column-major, one after the other, which is
LAPACK's order; inputs have any strides. ``info``, int32, is LAPACK's word for each matrix: 0, or what went wrong.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.lapack import each, integers, on_one
from jitgrad.kernels.launch import library, loop

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "columns_of", "copied", "count_of", "determinants",
    "first_failure", "inverse", "ldl_factor", "ldl_solve", "log_determinants", "lu_factor", "lu_solve", "permutation",
    "pivot_outside", "scaled_adjugate", "scaled_inverse", "solve_triangular", "unpack", "whole_numbers",
    "working_memory",
]  # fmt: skip


@loop
def first_failure(info, found):
    """The place, counted from 1, and the value of the first element of ``info`` that is not zero; else zeros."""
    found[0] = 0
    found[1] = 0
    for i in range(info.size):
        if info[i] != 0:
            found[0] = i + 1
            found[1] = info[i]
            break


@loop
def pivot_outside(pivots, found, least, most):
    """Whether a pivot is not between ``least``, 1 or -most, and ``most``, or is 0: 1, and its value."""
    for i in range(pivots.size):
        if pivots[i] == 0 or pivots[i] < least or pivots[i] > most:
            found[0] = 1
            found[1] = pivots[i]
            break


def columns_of(x):
    """The memory of column-major matrices with the values of ``x``: its own, if they lie there so."""
    turned = x.swapaxes(-1, -2)
    return turned if turned.flags.c_contiguous else np.ascontiguousarray(turned)


@library("out")
def copied(x, out):
    """A copy of ``x`` in another order."""
    np.copyto(out, x)


def count_of(x):
    """How many matrices there are; 0 if they are empty."""
    return x.size and x.size // (x.shape[-1] * x.shape[-2])


def whole_numbers(name, x, size, count):
    return np.empty(size * count, integers(x.dtype, name))


def _keep(found, target):
    """Whole numbers of a routine as int32."""
    target[...] = found.reshape(target.shape)


def _clear(matrices, n, upper):
    """Set the elements above, or, not ``upper``, below the diagonal of square matrices to zero."""
    if n > 1:
        zero, offset = np.zeros(1, matrices.dtype), n if upper else 1
        each("laset", matrices.dtype, count_of(matrices), "U" if upper else "L", n - 1, n - 1, (zero, None),
             (zero, None), (matrices, offset), n)  # fmt: skip


def working_memory(dtype, size):
    """Working memory of so many elements, and its size: 64 columns, or rows, are LAPACK's largest block."""
    return (np.empty(size, dtype), None), size


# -- Cholesky -------------------------------------------------------------------------------------------


@library("out", "info")
def cholesky(x, out, info, upper):
    """The triangular factor of positive-definite matrices, of which one triangle is read."""
    if not (count := count_of(out)):
        info[...] = 0
        return
    n = out.shape[-1]
    found = whole_numbers("potrf", x, 1, count)
    np.copyto(out, x)
    _clear(out, n, not upper)
    with on_one(count * n * n):
        each("potrf", x.dtype, count, "U" if upper else "L", n, out, n, found)
    last = out[..., -1, -1]
    if (last != last).any():  # NaN, which reaches the end from wherever it is; not every LAPACK stops there
        broken = np.isnan(out.diagonal(0, -2, -1)).reshape(count, n)
        found[...] = np.where(broken.any(-1) & (found == 0), broken.argmax(-1) + 1, found)
    _keep(found, info)


@library("out")
def cholesky_solve(b, factor, out, upper):
    """Solutions X of A X = B for the factor of A."""
    np.copyto(out, b)
    if count := count_of(out):
        (n, k), found = out.shape[-2:], whole_numbers("potrs", b, 1, count)
        with on_one(count * n * max(n, k)):
            each("potrs", b.dtype, count, "U" if upper else "L", n, k, columns_of(factor), n, out, n, found)


@library("out", "info")
def cholesky_inverse(factor, out, info, upper):
    """The inverse of A for the factor of A; info says which element of its diagonal is 0, counted from 1."""
    np.copyto(out, factor)
    info[...] = 0
    if count := count_of(out):
        n, found = out.shape[-1], whole_numbers("potri", out, 1, count)
        with one_thread:  # as getrs
            each("potri", out.dtype, count, "U" if upper else "L", n, out, n, found)
        _keep(found, info)
        other = np.tri(n, k=-1, dtype=bool)
        np.copyto(out, out.swapaxes(-1, -2).conj(), where=other if upper else other.T)


# -- LU -------------------------------------------------------------------------------------------------


@library("out", "pivots", "info")
def lu_factor(x, out, pivots, info):
    """L and U in one matrix, and the rows that were exchanged, counted from 1."""
    if not (count := count_of(out)):
        info[...] = 0
        return
    m, n = out.shape[-2:]
    found = whole_numbers("getrf", x, 1, count)
    exchanged = whole_numbers("getrf", x, min(m, n), count)
    np.copyto(out, x)
    with on_one(count * m * n):
        each("getrf", x.dtype, count, m, n, out, m, exchanged, found)
    _keep(exchanged, pivots)
    _keep(found, info)


@library("out")
def lu_solve(lu, pivots, b, out, left, adjoint):
    """Solutions of A X = B, or of X A = B where ``out`` is row-major; with ``adjoint`` of A^H in the place of A."""
    if out.ndim < lu.ndim:  # vectors, which LAPACK wants as columns
        columns = np.empty((*out.shape, 1), out.dtype)
        lu_solve.call(lu, pivots, b[..., None], columns, left, adjoint)
        np.copyto(out, columns[..., 0])
        return
    turned = out if left else out.swapaxes(-1, -2)
    np.copyto(out, b if left or not adjoint else b.conj())  # X A^H = B is A X^H = B^H
    if count := count_of(out):
        (n, k), found = turned.shape[-2:], whole_numbers("getrs", lu, 1, count)
        how = ("C" if adjoint else "N") if left else ("N" if adjoint else "T")
        exchanged = pivots.astype(integers(lu.dtype, "getrs"), order="C")
        with one_thread:  # OpenBLAS's getrs and potri start threads for the smallest matrices: 12 ms, not 14 us
            each("getrs", lu.dtype, count, how, n, k, columns_of(lu), n, exchanged, turned, n, found)
        if adjoint and not left:
            np.conjugate(out, out)


@library("out", "info")
def inverse(x, out, info):
    """Inverse matrices, by their LU."""
    if not (count := count_of(out)):
        info[...] = 0
        return
    n = out.shape[-1]
    found, exchanged = whole_numbers("getrf", x, 1, count), whole_numbers("getrf", x, n, count)
    np.copyto(out, x)
    with on_one(count * n * n):
        each("getrf", x.dtype, count, n, n, out, n, exchanged, found)
        each("getri", x.dtype, count, n, out, n, exchanged, *working_memory(x.dtype, 64 * n), found)
    _keep(found, info)
    if info.any():
        out[info != 0] = np.nan


@library("out")
def scaled_inverse(lu, pivots, factor, out):
    """``factor`` times the adjoint of the inverse, row-major, for the LU of a matrix."""
    turned = out.swapaxes(-1, -2)
    np.copyto(turned, lu)
    if count := count_of(out):
        n, found = out.shape[-1], whole_numbers("getri", out, 1, count)
        exchanged = pivots.astype(integers(out.dtype, "getri"))
        with on_one(count * n * n):
            each("getri", out.dtype, count, n, turned, n, exchanged, *working_memory(out.dtype, 64 * n), found)
        if out.dtype.kind == "c":
            np.conjugate(out, out)
        np.multiply(out, factor[..., None, None], out)


@library("out")
def scaled_adjugate(lu, pivots, det, factor, out):
    """``factor`` times the adjoint of the adjugate, det(A) A^-1, row-major.

    Where a matrix is singular, zeros on the diagonal of U are taken for something small beside its other elements.
    """
    singular = det == 0
    if singular.any():
        lu, det = lu.copy(), det.copy()
        n = lu.shape[-1]
        for place in map(tuple, np.argwhere(singular)):
            diagonal = lu[place].diagonal().copy()
            size = np.abs(diagonal)
            least = np.finfo(lu.dtype).eps * (size.max() or 1)
            diagonal[size == 0] = least
            lu[place][range(n), range(n)] = diagonal
            det[place] = diagonal.prod() * (-1) ** np.count_nonzero(pivots[place] != np.arange(1, n + 1))
    scaled_inverse.call(lu, pivots, factor * det.conj(), out)


@loop(dtype_from="lu")
def determinants(lu, pivots, out):
    """The products of the diagonals, negative where an odd number of rows was exchanged."""
    for s in range(out.size):
        product = T(1)
        for i in range(pivots.shape[1]):
            product *= lu[s, i, i]
            if pivots[s, i] != i + 1:
                product = -product
        out[s] = product


@loop(dtype_from="lu")
def log_determinants(lu, pivots, sign, log):
    """The sign, or phase, of each determinant, and the logarithm of its absolute value."""
    for s in range(sign.size):
        phase, total = T(1), abs(T(0))
        for i in range(pivots.shape[1]):
            size = abs(lu[s, i, i])
            total += np.log(size)
            phase *= lu[s, i, i] / size if size != 0 else T(0)
            if pivots[s, i] != i + 1:
                phase = -phase
        sign[s] = phase
        log[s] = total


@loop
def unpack(lu, lower, upper):
    """L, of ones on the diagonal, and U as matrices of their own; all arrays have three dims."""
    for s in range(lu.shape[0]):
        for i in range(lower.shape[1]):
            for j in range(lower.shape[2]):
                lower[s, i, j] = lu[s, i, j] if j < i else T(1) if j == i else T(0)
        for i in range(upper.shape[1]):
            for j in range(upper.shape[2]):
                upper[s, i, j] = lu[s, i, j] if j >= i else T(0)


@loop(dtype_from="out")
def permutation(pivots, out):
    """The matrices P of A = P L U, of three dims, from the rows that were exchanged."""
    m = out.shape[1]
    rows = np.empty(m, np.int64)
    for s in range(out.shape[0]):
        for i in range(m):
            rows[i] = i
            for j in range(m):
                out[s, i, j] = T(0)
        for i in range(pivots.shape[1]):
            k = pivots[s, i] - 1
            rows[i], rows[k] = rows[k], rows[i]
        for i in range(m):
            out[s, rows[i], i] = T(1)


@library("out")
def solve_triangular(a, b, out, upper, left, unit):
    """Solutions of A X = B, or X A = B, for triangular A."""
    np.copyto(out, b)
    if count := count_of(out):
        m, n = out.shape[-2:]
        turned = a.flags.c_contiguous  # row-major matrices are column-major transposed ones
        factor, one = a if turned else columns_of(a), np.ones(1, a.dtype)
        options = "L" if left else "R", "U" if upper != turned else "L", "T" if turned else "N", "U" if unit else "N"
        with on_one(count * a.shape[-1] * max(m, n)):
            each("trsm", a.dtype, count, *options, m, n, (one, None), factor, a.shape[-1], out, m)


# -- LDL ------------------------------------------------------------------------------------------------


def _symmetric(name, dtype, hermitian):
    return f"{'he' if hermitian and dtype.kind == 'c' else 'sy'}{name}"


@library("out", "pivots", "info")
def ldl_factor(x, out, pivots, info, hermitian):
    """L and the blocks of D in one matrix; the lower triangle is read and written."""
    np.copyto(out, x)
    if not (count := count_of(out)):
        info[...] = 0
        return
    n, name = out.shape[-1], _symmetric("trf", x.dtype, hermitian)
    found, exchanged = whole_numbers(name, x, 1, count), whole_numbers(name, x, n, count)
    with on_one(count * n * n):
        work = working_memory(x.dtype, 64 * n)
        each(name, x.dtype, count, "L", n, out, n, exchanged, *work, found)
    _clear(out, n, True)
    _keep(exchanged, pivots)
    _keep(found, info)


@library("out")
def ldl_solve(ld, pivots, b, out, hermitian):
    """Solutions X of A X = B for the factors of A."""
    np.copyto(out, b)
    if count := count_of(out):
        (n, k), name = out.shape[-2:], _symmetric("trs", ld.dtype, hermitian)
        exchanged, found = pivots.astype(integers(ld.dtype, name), order="C"), whole_numbers(name, ld, 1, count)
        with on_one(count * n * max(n, k)):
            each(name, ld.dtype, count, "L", n, k, columns_of(ld), n, exchanged, out, n, found)
