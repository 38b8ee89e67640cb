"""Spectral decompositions, norms and functions of matrices, distances, and products of several."""

from __future__ import annotations

import math

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _matrix(rng, n):
    """A square matrix of n elements."""
    side = max(math.isqrt(n), 2)
    return [rng.standard_normal((side, side)).astype(np.float32)]


def _stack(rng, n):
    """Square matrices of 16 elements, n elements in all."""
    return [rng.standard_normal((max(n // 16, 1), 4, 4)).astype(np.float32)]


def _pairs(rng, n):
    """Rows of 16 whose distances are n numbers."""
    side = max(math.isqrt(n), 2)
    return [rng.standard_normal((side, 16)).astype(np.float32) for _ in range(2)]


def _vectors(rng, n):
    side = max(math.isqrt(n), 2)
    return [rng.standard_normal(side).astype(np.float32) for _ in range(2)]


def _two(rng, n):
    return [rng.standard_normal(n).astype(np.float32) for _ in range(2)]


def _hermitian(x):
    return x + x.mT


_LARGE = 100_000  # decompositions of larger matrices are LAPACK's alone

CASES = {
    "linalg.eigh": Case(_matrix, lambda lib, x: lib.linalg.eigh(_hermitian(x)), most=_LARGE),
    "linalg.eigh of stack": Case(_stack, lambda lib, x: lib.linalg.eigh(_hermitian(x))),
    "linalg.eigvalsh": Case(_matrix, lambda lib, x: lib.linalg.eigvalsh(_hermitian(x)), most=_LARGE),
    "linalg.eigvals": Case(_matrix, lambda lib, x: lib.linalg.eigvals(x).abs(), most=_LARGE),
    "linalg.svd": Case(_matrix, lambda lib, x: lib.linalg.svd(x, full_matrices=False), most=_LARGE),
    "linalg.svd of stack": Case(_stack, lambda lib, x: lib.linalg.svd(x, full_matrices=False)),
    "linalg.svdvals": Case(_matrix, lambda lib, x: lib.linalg.svdvals(x), most=_LARGE),
    "linalg.pinv": Case(_matrix, lambda lib, x: lib.linalg.pinv(x), most=_LARGE),
    "linalg.matrix_rank": Case(_matrix, lambda lib, x: lib.linalg.matrix_rank(x), backward=False, most=_LARGE),
    "linalg.matrix_exp": Case(_matrix, lambda lib, x: lib.linalg.matrix_exp(x * 0.1), most=_LARGE),
    "linalg.matrix_exp of stack": Case(_stack, lambda lib, x: lib.linalg.matrix_exp(x)),
    "linalg.matrix_power": Case(_matrix, lambda lib, x: lib.linalg.matrix_power(x * 0.01, 5)),
    "linalg.matrix_norm fro": Case(_matrix, lambda lib, x: lib.linalg.matrix_norm(x)),
    "linalg.matrix_norm 1": Case(_matrix, lambda lib, x: lib.linalg.matrix_norm(x, 1)),
    "linalg.matrix_norm nuc": Case(_matrix, lambda lib, x: lib.linalg.matrix_norm(x, "nuc"), most=_LARGE),
    "linalg.vector_norm": Case(_matrix, lambda lib, x: lib.linalg.vector_norm(x, 3)),
    "linalg.norm": Case(_matrix, lambda lib, x: lib.linalg.norm(x)),
    "linalg.cond": Case(_matrix, lambda lib, x: lib.linalg.cond(x), most=_LARGE),
    "linalg.multi_dot": Case(_matrix, lambda lib, x: lib.linalg.multi_dot([x, x, x])),
    "linalg.vander": Case(_vectors, lambda lib, x, y: lib.linalg.vander(x)),
    "linalg.vecdot": Case(_pairs, lambda lib, x, y: lib.linalg.vecdot(x, y)),
    "linalg.cross": Case(lambda rng, n: [rng.standard_normal((max(n // 3, 1), 3)).astype(np.float32) for _ in range(2)],
                         lambda lib, x, y: lib.linalg.cross(x, y)),
    "addbmm": Case(_stack, lambda lib, x: lib.addbmm(x[0], x, x)),
    "addr": Case(lambda rng, n: [*_matrix(rng, n), *_vectors(rng, n)], lambda lib, m, x, y: lib.addr(m, x, y)),
    "kron": Case(lambda rng, n: _matrix(rng, math.isqrt(n)) * 2, lambda lib, x, y: lib.kron(x, y)),
    "cdist 2": Case(_pairs, lambda lib, x, y: lib.cdist(x, y)),
    "cdist 1": Case(_pairs, lambda lib, x, y: lib.cdist(x, y, 1.0)),
    "cdist 3": Case(_pairs, lambda lib, x, y: lib.cdist(x, y, 3.0), most=_LARGE),
    "pdist": Case(_pairs, lambda lib, x, y: lib.pdist(x)),
    "dist": Case(_two, lambda lib, x, y: lib.dist(x, y)),
    "renorm": Case(_matrix, lambda lib, x: lib.renorm(x, 2, 0, 1.0)),
    "cov": Case(_matrix, lambda lib, x: lib.cov(x)),
    "corrcoef": Case(_matrix, lambda lib, x: lib.corrcoef(x)),
}  # fmt: skip
