"""Cases: writes by index that reduce, searches, statistics, distinct elements, choices and copies of views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _vector(rng: np.random.Generator, n: int) -> list[Any]:
    return [rng.standard_normal(n, dtype=np.float32)]


def _matrix(rng: np.random.Generator, n: int) -> list[Any]:
    side = max(math.isqrt(n), 1)
    return [rng.standard_normal((side, side), dtype=np.float32)]


def _whole(rng: np.random.Generator, n: int) -> list[Any]:
    return [rng.integers(0, 100, n)]


def _sent(rng: np.random.Generator, n: int) -> list[Any]:
    """A target, an index into it, and what is sent there."""
    few = max(n // 10, 1)
    x, src = (rng.random(m, dtype=np.float32) + 0.5 for m in (few, n))
    return [x, rng.integers(0, few, n), src]


def _sent_rows(rng: np.random.Generator, n: int) -> list[Any]:
    rows = max(n // 16, 1)
    x, src = (rng.random((m, 16), dtype=np.float32) + 0.5 for m in (max(rows // 10, 1), rows))
    return [x, rng.integers(0, len(x), rows), src]


def _sorted(rng: np.random.Generator, n: int) -> list[Any]:
    bounds = np.sort(rng.standard_normal(max(math.isqrt(n), 2), dtype=np.float32))
    return [bounds, rng.standard_normal(n, dtype=np.float32)]


def _members(rng: np.random.Generator, n: int) -> list[Any]:
    return [rng.integers(0, n, n), rng.integers(0, n, max(n // 10, 1))]


def _reduce(kind: str, rows: bool = False) -> Case:
    if rows:
        return Case(_sent_rows, lambda lib, x, index, src: x.index_reduce(0, index, src, kind))
    return Case(_sent, lambda lib, x, index, src: x.scatter_reduce(0, index, src, kind))


CASES = {
    **{f"scatter_reduce {kind}": _reduce(kind) for kind in ("sum", "mean", "prod", "amax")},
    **{f"index_reduce {kind}": _reduce(kind, rows=True) for kind in ("mean", "amin")},
    "searchsorted": Case(_sorted, lambda lib, b, x: lib.searchsorted(b, x), False),
    "bucketize": Case(_sorted, lambda lib, b, x: lib.bucketize(x, b, right=True), False),
    "isin": Case(_members, lambda lib, x, wanted: lib.isin(x, wanted), False),
    "bincount": Case(_whole, lambda lib, x: lib.bincount(x), False),
    "histc": Case(_vector, lambda lib, x: lib.histc(x, 100, -3, 3), False),
    "histogram": Case(_vector, lambda lib, x: lib.histogram(x, 100).hist, False),
    "unique": Case(_whole, lambda lib, x: lib.unique(x), False),
    "unique floats": Case(_vector, lambda lib, x: lib.unique(x), False),
    "unique with inverse": Case(_whole, lambda lib, x: lib.unique(x, return_inverse=True, return_counts=True), False),
    "unique rows": Case(_matrix, lambda lib, x: lib.unique(x.round(), dim=0), False),
    "unique_consecutive": Case(_whole, lambda lib, x: lib.unique_consecutive(x), False),
    "mode": Case(_matrix, lambda lib, x: lib.mode(x, 1).values),
    "cummax": Case(_vector, lambda lib, x: lib.cummax(x, 0).values),
    "cummax columns": Case(_matrix, lambda lib, x: lib.cummax(x, 0).values),
    "logcumsumexp": Case(_vector, lambda lib, x: lib.logcumsumexp(x, 0)),
    "logcumsumexp rows": Case(_matrix, lambda lib, x: lib.logcumsumexp(x, 1)),
    "quantile": Case(_vector, lambda lib, x: lib.quantile(x, 0.3)),
    "quantile rows": Case(_matrix, lambda lib, x: lib.nanquantile(x, 0.3, 1)),
    "median": Case(_matrix, lambda lib, x: lib.median(x, 1).values),
    "diff": Case(_vector, lambda lib, x: lib.diff(x)),
    "gradient": Case(_vector, lambda lib, x: lib.gradient(x)[0]),
    "trapezoid": Case(_vector, lambda lib, x: lib.trapezoid(x)),
    "cumulative_trapezoid": Case(_vector, lambda lib, x: lib.cumulative_trapezoid(x, dx=0.5)),
    "nonzero_static": Case(_vector, lambda lib, x: lib.nonzero_static(x, size=100), False),
    "unravel_index": Case(_whole, lambda lib, x: lib.unravel_index(x, (10, 10)), False),
    "combinations": Case(lambda rng, n: [rng.random(max(math.isqrt(n), 2), dtype=np.float32)],
                         lambda lib, x: lib.combinations(x)),
    "cartesian_prod": Case(lambda rng, n: [rng.random(max(math.isqrt(n), 1), dtype=np.float32)] * 2,
                           lambda lib, x, y: lib.cartesian_prod(x, y)),
    "block_diag": Case(lambda rng, n: [rng.random((max(math.isqrt(n) // 2, 1),) * 2, dtype=np.float32)] * 2,
                       lambda lib, x, y: lib.block_diag(x, y)),
    "as_strided_scatter": Case(_vector, lambda lib, x: lib.as_strided_scatter(x, x[:4], (4,), (2,))),
    "transpose_copy": Case(_matrix, lambda lib, x: lib.transpose_copy(x, 0, 1)),
    "segment_reduce": Case(lambda rng, n: [rng.random(n, dtype=np.float32), np.full(4, n // 4)],
                           lambda lib, x, lengths: lib.segment_reduce(x, "max", lengths=lengths)),
}  # fmt: skip
