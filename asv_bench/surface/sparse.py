"""Cases: sparse tensors of so many stored values, a thousandth of a matrix: products, conversions, sums."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]

_MOST = 1_000_000
_made: dict[Any, Any] = {}


def _places(rng: np.random.Generator, n: int) -> list[Any]:
    side = max(math.isqrt(100 * n), 4)
    return [rng.integers(0, side, (2, n)), rng.standard_normal(n, dtype=np.float32)]


def _with_dense(rng: np.random.Generator, n: int, width: int = 32) -> list[Any]:
    index, values = _places(rng, n)
    side = max(math.isqrt(100 * n), 4)
    return [index, values, rng.standard_normal((side, width), dtype=np.float32)]


def _with_vector(rng: np.random.Generator, n: int) -> list[Any]:
    index, values, dense = _with_dense(rng, n, 1)
    return [index, values, dense[:, 0].copy()]


def _new(lib: Any, index: Any, values: Any) -> Any:
    side = max(math.isqrt(100 * len(values)), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lib.sparse_coo_tensor(index, values, (side, side), check_invariants=False)


def _kept(lib: Any, index: Any, values: Any, kind: str = "coalesce") -> Any:
    """A sparse tensor that is made once for these indices, as a graph's matrix is."""
    key = lib.__name__, id(index), kind
    if key not in _made:
        _made.clear() if len(_made) > 20 else None
        _made[key] = getattr(_new(lib, index, values.detach()), kind)(), index
    return _made[key][0]


CASES = {
    "coalesce": Case(_places, lambda lib, i, v: _new(lib, i, v).coalesce().values(), most=_MOST),
    "to_dense": Case(_places, lambda lib, i, v: _new(lib, i, v).to_dense(), most=1000),
    "to_sparse_csr": Case(_places, lambda lib, i, v: _new(lib, i, v).to_sparse_csr().values(), False, _MOST),
    "mm COO": Case(_with_dense, lambda lib, i, v, d: lib.sparse.mm(_kept(lib, i, v), d), most=_MOST),
    "mm CSR": Case(_with_dense, lambda lib, i, v, d: _kept(lib, i, v, "to_sparse_csr") @ d, most=_MOST),
    "mv CSR": Case(_with_vector, lambda lib, i, v, d: _kept(lib, i, v, "to_sparse_csr") @ d, most=_MOST),
    "mm COO, new": Case(_with_dense, lambda lib, i, v, d: lib.sparse.mm(_new(lib, i, v), d), most=_MOST),
    "sum": Case(_places, lambda lib, i, v: lib.sparse.sum(_kept(lib, i, v), 0).values(), False, _MOST),
    "mul": Case(_places, lambda lib, i, v: (_kept(lib, i, v) * 2).values(), False, _MOST),
    "softmax": Case(_places, lambda lib, i, v: lib.sparse.softmax(_kept(lib, i, v), 1).values(), False, _MOST),
    "sparse times sparse": Case(
        _places, lambda lib, i, v: lib.sparse.mm(_kept(lib, i, v), _kept(lib, i, v)).values(), False, 1000
    ),
}
