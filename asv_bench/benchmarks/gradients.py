"""Single ops with their gradients, at a size of the caller's, and small calls without.

An entry takes the engine, a size, and ``given``: normal values of that many elements, of a shape. It returns the
function to differentiate and its leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .workloads import Work, normal

__all__ = ["GRADIENTS", "SIZES", "SMALL_CALLS", "gradient_of", "small_call"]

SIZES = (16, 1 << 16, 1 << 22)  # at which ops are compared


def _matrix(engine: Any, size: int) -> Any:
    """A leaf with rows of 4, or of 256 where there is room."""
    columns = 256 if size >= 1 << 16 else 4
    return normal(engine, size // columns, columns, requires_grad=True)


def _indices(engine: Any, below: int, *shape: int) -> Any:
    return engine.tensor(np.random.default_rng(3).integers(0, below, shape))


def _reduced(function: Callable[[Any, Any], Any]) -> Callable[[Any, int], tuple[Any, Any]]:
    """Of a matrix alone."""

    def make(engine: Any, size: int) -> tuple[Any, Any]:
        x = _matrix(engine, size)
        return lambda: function(engine, x), (x,)

    return make


def _add_row(engine: Any, size: int) -> tuple[Any, Any]:
    x = _matrix(engine, size)
    row = normal(engine, x.shape[1], seed=1, requires_grad=True)
    return lambda: x + row, (x, row)


def _layer_norm(engine: Any, size: int) -> tuple[Any, Any]:
    x = _matrix(engine, size)
    w, b = (normal(engine, x.shape[1], seed=k, requires_grad=True) for k in (1, 2))
    return lambda: engine.nn.functional.layer_norm(x, (x.shape[1],), w, b), (x, w, b)


def _cross_entropy(engine: Any, size: int) -> tuple[Any, Any]:
    x = _matrix(engine, size)
    target = _indices(engine, x.shape[1], x.shape[0])
    return lambda: engine.nn.functional.cross_entropy(x, target), (x,)


def _indexed(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, int], tuple[Any, Any]]:
    """Of a matrix and as many indices of rows as it has rows."""

    def make(engine: Any, size: int) -> tuple[Any, Any]:
        x = _matrix(engine, size)
        index = _indices(engine, x.shape[0], x.shape[0])
        return lambda: function(engine, x, index), (x,)

    return make


def _gathered(function: Callable[[Any, Any, Any], Any]) -> Callable[[Any, int], tuple[Any, Any]]:
    """Of a matrix and an index for each of its elements."""

    def make(engine: Any, size: int) -> tuple[Any, Any]:
        x = _matrix(engine, size)
        index = _indices(engine, x.shape[1], *x.shape)
        return lambda: function(engine, x, index), (x,)

    return make


def _scatter_add(engine: Any, size: int) -> tuple[Any, Any]:
    x, y = _matrix(engine, size), _matrix(engine, size)
    index = _indices(engine, x.shape[1], *x.shape)
    return lambda: x.scatter_add(1, index, y), (x, y)


def _bmm(engine: Any, size: int) -> tuple[Any, Any]:
    n = 2 if size < 1 << 16 else 64
    x, y = (normal(engine, size // n**2, n, n, seed=k, requires_grad=True) for k in (1, 2))
    return lambda: engine.bmm(x, y), (x, y)


def _cat(engine: Any, size: int) -> tuple[Any, Any]:
    x, y = _matrix(engine, size // 2), _matrix(engine, size // 2)
    return lambda: engine.cat([x, y], 1), (x, y)


GRADIENTS: dict[str, Callable[[Any, int], tuple[Any, Any]]] = {
    "add of a row": _add_row,
    "sum": _reduced(lambda e, x: x.sum()),
    "sum(0)": _reduced(lambda e, x: x.sum(0)),
    "mean(1)": _reduced(lambda e, x: x.mean(1)),
    "max(1)": _reduced(lambda e, x: x.max(1)[0]),
    "layer_norm": _layer_norm,
    "cross_entropy": _cross_entropy,
    "sort": _reduced(lambda e, x: x.reshape(-1).sort()[0]),
    "topk(4)": _reduced(lambda e, x: x.reshape(-1).topk(4)[0]),
    "index_select": _indexed(lambda e, x, index: x.index_select(0, index)),
    "gather(1)": _gathered(lambda e, x, index: x.gather(1, index)),
    "scatter_add(1)": _scatter_add,
    "x[index]": _indexed(lambda e, x, index: x[index]),
    "bmm": _bmm,
    "t().contiguous()": _reduced(lambda e, x: x.t().contiguous()),
    "cat": _cat,
    "slice": _reduced(lambda e, x: x[1:-1]),
}


def gradient_of(engine: Any, name: str, size: int) -> Work:
    """Forward and all gradients of the op."""
    function, leaves = GRADIENTS[name](engine, size)
    g = engine.ones_like(function())
    return lambda: engine.autograd.grad(function(), leaves, g)


SMALL_CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "einsum of 2 x 2": lambda e, x, k: e.einsum("ij,jk->ik", x, x),
    "stack of three": lambda e, x, k: e.stack([x, x, x]),
    "x[k, k]": lambda e, x, k: x[k, k],
    "cat": lambda e, x, k: e.cat([x, x]),
    "x[0:1]": lambda e, x, k: x[0:1],
    "zeros": lambda e, x, k: e.zeros(2, 2),
    "x[1, 1]": lambda e, x, k: x[1, 1],
}


def small_call(engine: Any, name: str) -> Work:
    """The call on 2 x 2 elements, not recorded."""
    x, k = normal(engine, 2, 2), engine.tensor([0, 1])
    function = SMALL_CALLS[name]
    return lambda: function(engine, x, k)
