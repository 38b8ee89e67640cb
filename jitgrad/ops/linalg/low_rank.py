"""Singular values and principal components of low rank, by random projections."""

from __future__ import annotations

from functools import partial
from typing import Any

from jitgrad.core.dtypes import float32
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public, published
from jitgrad.dispatch.sizes import as_flag
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.svd import linalg_svd

__all__: list[str] = []


def _basis(a: Tensor, q: int, niter: int, mean: Tensor | None) -> Tensor:
    """Orthonormal columns that about span the range of ``a``: of products with random vectors, refined (Halko 2009)."""
    qr: Any = published("linalg.qr")

    def times(x: Tensor) -> Tensor:
        return matmul(a, x) if mean is None else matmul(a, x) - matmul(mean, x)

    def adjoint_times(x: Tensor) -> Tensor:
        found = matmul(a.mH, x)
        return found if mean is None else found - matmul(mean.mH, x)

    dtype = a.dtype if a._layout.dtype.category > 1 else float32
    columns = qr(times(a.new_empty((a._layout.shape[-1], q), dtype=dtype).normal_())).Q
    for _ in range(niter):
        columns = qr(adjoint_times(columns)).Q
        columns = qr(times(columns)).Q
    return columns


def _low_rank(a: Tensor, q: int | None, niter: int, mean: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    q = 6 if q is None else q
    m, n = a._layout.shape[-2:]
    mean = mean if mean is None else mean.expand(a._layout.shape)
    if turned := m < n:  # the longer side is projected
        a, mean = a.mH, None if mean is None else mean.mH
    basis = _basis(a, q, niter, mean)
    small = matmul(basis.mH, a)
    if mean is not None:
        small = small - matmul(basis.mH, mean)
    u, s, vh = linalg_svd(small, full_matrices=False)
    u, v = matmul(basis, u), vh.mH
    return (v, s, u) if turned else (u, s, v)


@partial(public, method_too=False)
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) with A - M about U diag(S) V^H, of rank ``q``: (*, m, q), (*, q) and (*, n, q).

    It is found by ``niter`` products of A with random vectors, and its adjoint, drawn by the generator.
    """
    return _low_rank(A, q, 2 if niter is None else niter, M)


@partial(public, method_too=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """(U, S, V) of rank ``q`` of a matrix less the means of its columns: V has its principal directions as columns.

    q is 6, or less for a smaller matrix, by default. ValueError if it is negative or larger than a side.
    """
    m, n = A._layout.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not as_flag(center):
        return svd_lowrank(A, q, niter)
    return svd_lowrank(A - A.mean(-2, True), q, niter)
