"""Reflectors, as which LAPACK keeps Q, and what is made of them; arrays are as in factorisations.py."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.lapack import each, on_one
from jitgrad.kernels.launch import library
from jitgrad.kernels.loops.factorisations import (
    columns_of,
    count_of,
    whole_numbers,
    working_memory,
)

__all__ = ["geqrf", "orgqr", "ormqr", "upper"]

@library("out", "tau")
def geqrf(x, out, tau):
    """R on and above the diagonal, and below it the reflectors whose product is Q, with their factors."""
    m, n = out.shape[-2:]
    np.copyto(out, x)
    if count := count_of(out):
        found = whole_numbers("geqrf", x, 1, count)
        with on_one(count * m * n):
            each("geqrf", x.dtype, count, m, n, out, m, tau, *working_memory(x.dtype, 64 * n), found)


@library("out")
def upper(x, out):
    """The upper triangle of the first rows, as many as ``out`` has; zeros below."""
    (m, n), k = x.shape[-2:], out.shape[-2]
    out[...] = 0
    if count := count_of(out):
        each("lacpy", x.dtype, count, "U", k, n, x, m, out, k)


@library("out")
def orgqr(x, tau, out):
    """The first columns of Q, as many as ``out`` has, from reflectors."""
    (m, n), k = out.shape[-2:], tau.shape[-1]
    if not k:
        out[...] = np.eye(m, n, dtype=out.dtype)
        return
    out[..., : x.shape[-1]] = x[..., :n]
    if count := count_of(out):
        name, found = "ungqr" if out.dtype.kind == "c" else "orgqr", whole_numbers("geqrf", out, 1, count)
        with on_one(count * m * n):
            work = working_memory(out.dtype, 64 * n)
            each(name, out.dtype, count, m, n, k, out, m, np.ascontiguousarray(tau), *work, found)


@library("out")
def ormqr(x, tau, other, out, left, adjoint):
    """Q C or, not ``left``, C Q, from the reflectors of Q; with ``adjoint`` Q^H in its place."""
    np.copyto(out, other)
    (m, n), k = out.shape[-2:], tau.shape[-1]
    if (count := count_of(out)) and k:
        complex_, rows = out.dtype.kind == "c", x.shape[-2]
        name, found = "unmqr" if complex_ else "ormqr", whole_numbers("geqrf", out, 1, count)
        options = "L" if left else "R", ("C" if complex_ else "T") if adjoint else "N", m, n, k
        reflectors = columns_of(x).copy()  # in which some versions write while they work
        with on_one(count * max(m * n, x.shape[-1] * rows)):
            work = working_memory(out.dtype, 64 * (n if left else m) + 65 * 64)
            each(name, out.dtype, count, *options, reflectors, rows, np.ascontiguousarray(tau), out, m, *work, found)
