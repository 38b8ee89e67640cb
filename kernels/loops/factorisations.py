"""Factorisations of batches of matrices and what is solved by them, by LAPACK.

The last two dims of arrays are matrices. Those that are written are column-major, one after the other, which is
LAPACK's order; inputs have any strides. ``info``, int32, is LAPACK's word for each matrix: 0, or what went wrong.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.lapack import each, integers, on_one, workspace
from jitgrad.kernels.launch import library, loop

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "columns_of", "copied", "first_failure", "geqrf", "inverse",
    "ldl_factor", "ldl_solve", "lu_factor", "lu_solve", "orgqr", "ormqr", "permutation", "pivot_outside",
    "solve_triangular",
]  # fmt: skip


@loop
def first_failure(info, found):
    """If an element of ``info`` is not zero: the place, counted from 1, and the value of the first such."""
    for i in range(info.size):
        if info[i] != 0:
            found[0] = i + 1
            found[1] = info[i]
            break


@loop
def pivot_outside(pivots, found, bound):
    """Whether a pivot, which may be negative where two belong together, is not between 1 and ``bound``: its value."""
    for i in range(pivots.size):
        if pivots[i] == 0 or abs(pivots[i]) > bound:
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


def _count(x):
    """How many matrices there are; 0 if they are empty."""
    return x.size and x.size // (x.shape[-1] * x.shape[-2])


def _ints(name, x, size, count):
    return np.empty(size * count, integers(x.dtype, name))


def _keep(found, target):
    """Whole numbers of a routine as int32."""
    target[...] = found.reshape(target.shape)


def _clear(matrices, n, upper):
    """Set the elements above, or, not ``upper``, below the diagonal of square matrices to zero."""
    if n > 1:
        zero, offset = np.zeros(1, matrices.dtype), n if upper else 1
        each("laset", matrices.dtype, _count(matrices), "U" if upper else "L", n - 1, n - 1, (zero, None),
             (zero, None), (matrices, offset), n)  # fmt: skip


# -- Cholesky -------------------------------------------------------------------------------------------


@library("out", "info")
def cholesky(x, out, info, upper):
    """The triangular factor of positive-definite matrices, of which one triangle is read."""
    if not (count := _count(out)):
        info[...] = 0
        return
    n, found = out.shape[-1], _ints("potrf", x, 1, count)
    np.copyto(out, x)
    with on_one(n * n):
        each("potrf", x.dtype, count, "U" if upper else "L", n, out, n, found)
    _clear(out, n, not upper)
    _keep(found, info)


@library("out")
def cholesky_solve(b, factor, out, upper):
    """Solutions X of A X = B for the factor of A."""
    np.copyto(out, b)
    if count := _count(out):
        (n, k), found = out.shape[-2:], _ints("potrs", b, 1, count)
        with on_one(n * max(n, k)):
            each("potrs", b.dtype, count, "U" if upper else "L", n, k, columns_of(factor), n, out, n, found)


@library("out")
def cholesky_inverse(factor, out, upper):
    """The inverse of A for the factor of A."""
    np.copyto(out, factor)
    if count := _count(out):
        n, found = out.shape[-1], _ints("potri", out, 1, count)
        with on_one(n * n):
            each("potri", out.dtype, count, "U" if upper else "L", n, out, n, found)
        other = np.tri(n, k=-1, dtype=bool)
        np.copyto(out, out.swapaxes(-1, -2).conj(), where=other if upper else other.T)


# -- LU -------------------------------------------------------------------------------------------------


@library("out", "pivots", "info")
def lu_factor(x, out, pivots, info):
    """L and U in one matrix, and the rows that were exchanged, counted from 1."""
    if not (count := _count(out)):
        info[...] = 0
        return
    (m, n), found = out.shape[-2:], _ints("getrf", x, 1, count)
    exchanged = _ints("getrf", x, min(m, n), count)
    np.copyto(out, x)
    with on_one(m * n):
        each("getrf", x.dtype, count, m, n, out, m, exchanged, found)
    _keep(exchanged, pivots)
    _keep(found, info)


@library("out")
def lu_solve(lu, pivots, b, out, left, adjoint):
    """Solutions of A X = B, or of X A = B where ``out`` is row-major; with ``adjoint`` of A^H in the place of A."""
    turned = out if left else out.swapaxes(-1, -2)
    np.copyto(out, b if left or not adjoint else b.conj())  # X A^H = B is A X^H = B^H
    if count := _count(out):
        (n, k), found = turned.shape[-2:], _ints("getrs", lu, 1, count)
        how = ("C" if adjoint else "N") if left else ("N" if adjoint else "T")
        exchanged = pivots.astype(integers(lu.dtype, "getrs"), order="C")
        with on_one(n * max(n, k)):
            each("getrs", lu.dtype, count, how, n, k, columns_of(lu), n, exchanged, turned, n, found)
        if adjoint and not left:
            np.conjugate(out, out)


@library("out", "info")
def inverse(x, out, info):
    """Inverse matrices, by their LU."""
    if not (count := _count(out)):
        info[...] = 0
        return
    n, found, exchanged = out.shape[-1], _ints("getrf", x, 1, count), _ints("getrf", x, out.shape[-1], count)
    np.copyto(out, x)
    work = np.empty(workspace("getri", x.dtype, n, None, n, np.zeros(n, np.int64)), x.dtype) if n > 64 else (
        np.empty(n * 8, x.dtype)
    )  # fmt: skip
    with on_one(n * n):
        each("getrf", x.dtype, count, n, n, out, n, exchanged, found)
        each("getri", x.dtype, count, n, out, n, exchanged, (work, None), work.size, found)
    _keep(found, info)


@library("out")
def permutation(pivots, out):
    """The matrices P of A = P L U, column-major, from the rows that were exchanged."""
    m, k = out.shape[-1], pivots.shape[-1]
    out[...] = np.eye(m, dtype=out.dtype)
    if (count := _count(out)) and k:
        exchanged = pivots.astype(integers(out.dtype, "laswp"), order="C")
        each("laswp", out.dtype, count, m, out, m, 1, k, exchanged, -1)


@library("out")
def solve_triangular(a, b, out, upper, left, unit):
    """Solutions of A X = B, or X A = B, for triangular A."""
    np.copyto(out, b)
    if count := _count(out):
        m, n = out.shape[-2:]
        turned = a.flags.c_contiguous  # row-major matrices are column-major transposed ones
        factor, one = a if turned else columns_of(a), np.ones(1, a.dtype)
        options = "L" if left else "R", "U" if upper != turned else "L", "T" if turned else "N", "U" if unit else "N"
        with on_one(a.shape[-1] * max(m, n)):
            each("trsm", a.dtype, count, *options, m, n, (one, None), factor, a.shape[-1], out, m)


# -- QR -------------------------------------------------------------------------------------------------


def _work(name, dtype, *args):
    size = workspace(name, dtype, *args)
    return (np.empty(size, dtype), None), size


@library("out", "tau")
def geqrf(x, out, tau):
    """R on and above the diagonal, and below it the reflectors whose product is Q, with their factors."""
    np.copyto(out, x)
    if count := _count(out):
        (m, n), found = out.shape[-2:], _ints("geqrf", x, 1, count)
        with on_one(m * n):
            work = _work("geqrf", x.dtype, m, n, None, m, None)
            each("geqrf", x.dtype, count, m, n, out, m, tau, *work, found)


@library("out")
def orgqr(x, tau, out):
    """The first columns of Q, as many as ``out`` has, from reflectors."""
    (m, n), k = out.shape[-2:], tau.shape[-1]
    if not k:
        out[...] = np.eye(m, n, dtype=out.dtype)
        return
    out[..., : x.shape[-1]] = x[..., :n]
    if count := _count(out):
        name, found = "ungqr" if out.dtype.kind == "c" else "orgqr", _ints("geqrf", out, 1, count)
        with on_one(m * n):
            work = _work(name, out.dtype, m, n, k, None, m, None)
            each(name, out.dtype, count, m, n, k, out, m, np.ascontiguousarray(tau), *work, found)


@library("out")
def ormqr(x, tau, other, out, left, adjoint):
    """Q C or, not ``left``, C Q, from the reflectors of Q; with ``adjoint`` Q^H in its place."""
    np.copyto(out, other)
    (m, n), k = out.shape[-2:], tau.shape[-1]
    if (count := _count(out)) and k:
        complex_, rows = out.dtype.kind == "c", x.shape[-2]
        name, found = "unmqr" if complex_ else "ormqr", _ints("geqrf", out, 1, count)
        options = "L" if left else "R", ("C" if complex_ else "T") if adjoint else "N", m, n, k
        reflectors = columns_of(x).copy()  # in which some versions write while they work
        with on_one(max(m * n, x.shape[-1] * rows)):
            work = _work(name, out.dtype, *options, None, rows, None, None, m)
            each(name, out.dtype, count, *options, reflectors, rows, np.ascontiguousarray(tau), out, m, *work, found)


# -- LDL ------------------------------------------------------------------------------------------------


def _symmetric(name, dtype, hermitian):
    return f"{'he' if hermitian and dtype.kind == 'c' else 'sy'}{name}"


@library("out", "pivots", "info")
def ldl_factor(x, out, pivots, info, hermitian):
    """L and the blocks of D in one matrix; the lower triangle is read and written."""
    np.copyto(out, x)
    if not (count := _count(out)):
        info[...] = 0
        return
    n, name = out.shape[-1], _symmetric("trf", x.dtype, hermitian)
    found, exchanged = _ints(name, x, 1, count), _ints(name, x, n, count)
    with on_one(n * n):
        work = _work(name, x.dtype, "L", n, None, n, np.zeros(n, np.int64))
        each(name, x.dtype, count, "L", n, out, n, exchanged, *work, found)
    _keep(exchanged, pivots)
    _keep(found, info)


@library("out")
def ldl_solve(ld, pivots, b, out, hermitian):
    """Solutions X of A X = B for the factors of A."""
    np.copyto(out, b)
    if count := _count(out):
        (n, k), name = out.shape[-2:], _symmetric("trs", ld.dtype, hermitian)
        exchanged, found = pivots.astype(integers(ld.dtype, name), order="C"), _ints(name, ld, 1, count)
        with on_one(n * max(n, k)):
            each(name, ld.dtype, count, "L", n, k, columns_of(ld), n, exchanged, out, n, found)
