"""Elementwise products of sparse tensors with each other, dense ones and numbers.

A dense tensor is looked up at the sparse one's places.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import broadcast_shapes
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.indexing.index_select import IndexSelect
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.shape.copy import cast, cast_gradient
from jitgrad.ops.sparse.broadcast import broadcast_to
from jitgrad.ops.sparse.convert import dense, to_compressed, to_coo
from jitgrad.ops.sparse.parts import (
    at_places,
    coalesced,
    from_grid,
    grid,
    linearly,
    mapped,
    named,
    settled,
    values_of,
    with_values,
)
from jitgrad.ops.sparse.places import keys_of, keys_to_pattern, plain
from jitgrad.ops.sparse.pointwise import in_place

__all__ = ["mul"]


def mul(x: Any, y: Any) -> Tensor:
    """Elementwise product; of sparse tensors where both have a place, with a dense one at all places of the other."""
    for one, other in ((x, y), (y, x)):
        if not isinstance(one, SparseTensor):
            continue
        if not isinstance(other, Tensor) or (not isinstance(other, SparseTensor) and other.ndim == 0):
            if one.ndim == 0 and isinstance(other, Tensor):
                other = cast(other, dtypes.promote_types(one.dtype, other.dtype))
                one = one.to(other.dtype)
            return _times_number(one, other)
        if isinstance(other, SparseTensor) and other.ndim == 0:
            return mul(one, dense(other))
    shape = tuple(broadcast_shapes(x.shape, y.shape))
    if isinstance(x, SparseTensor) and isinstance(y, SparseTensor):
        return _both_sparse(broadcast_to(x, shape), broadcast_to(y, shape))
    return _times_dense(x, y) if isinstance(x, SparseTensor) else _times_dense(y, x)


def _times_number(x: Any, number: Any) -> Any:
    """The product with a number, or with a tensor without dims."""
    if isinstance(number, Tensor) and number._requires_grad:
        return mapped(settled(x), functools.partial(table.mul, number))

    def adjoint(g: Any) -> Any:
        number_ = number.conjugate() if isinstance(number, complex) else number.conj() if isinstance(
            number, Tensor) else number  # fmt: skip
        g = g * number_
        return g.to(x.dtype) if g.dtype is not x.dtype and g.dtype.category <= x.dtype.category else g

    return linearly(x, lambda y: mapped(y, functools.partial(table.mul, number)), adjoint, "MulBackward0")


class ProductOfSparse(Structured, listed=False):
    """The product of two sparse tensors; the gradient of either has the places of the other, as in PyTorch."""

    name, grad_name, linear, half, sparse = "_mul_sparse_both", "MulBackward0", ("x", "y"), True, True

    def forward(x, y):
        return _common(x.detach(), y.detach())

    def grad_x(g, y, x_layout):
        return cast_gradient(mul(g, y.conj()), x_layout.dtype)

    def grad_y(g, x, y_layout):
        return cast_gradient(mul(g, x.conj()), y_layout.dtype)


def _both_sparse(x: Any, y: Any) -> Tensor:
    alike = x._pattern.kind == y._pattern.kind and x._pattern.block == y._pattern.block
    if alike and grad_state.enabled and (x._requires_grad or y._requires_grad):
        return ProductOfSparse.apply(x, y)
    return _common(x, y)


def _common(x: Any, y: Any) -> Tensor:
    if x._pattern.kind != "sparse_coo":
        same = x._pattern.block == y._pattern.block
        product = _common(*[coalesced(grid(t) if same else to_coo(t)) for t in (x, y)])
        if same:
            return from_grid(product, x._pattern, dtypes.int64)
        return to_compressed(product, x._pattern.kind, block=x._pattern.block)
    y = to_coo(y)
    for one, other in ((x, y), (y, x)):
        if not settled(one)._pattern.coalesced:  # of one that isn't coalesced PyTorch keeps all places
            values = values_of(one) * at_places(coalesced(other), one._pattern)
            return named(with_values(values, one._pattern), "MulBackward0")
    x, y = coalesced(x), coalesced(y)
    found = np.empty(x._pattern.nnz, np.int64)
    launch(kernels.find_places, keys_of(y._pattern)._data, keys_of(x._pattern)._data, found)
    mine = nonzero(plain(found) >= 0).reshape(-1)
    theirs = IndexSelect.apply(plain(found), 0, mine)
    values = IndexSelect.apply(values_of(x), 0, mine) * IndexSelect.apply(values_of(y), 0, theirs)
    keys = IndexSelect.apply(keys_of(x._pattern), 0, mine)._data
    pattern = keys_to_pattern(keys, x._pattern.shape, x._pattern.sparse_dim, True)
    return named(with_values(values, pattern), "MulBackward0")


def _times_dense(x: Any, y: Tensor) -> Tensor:
    shape = tuple(broadcast_shapes(x.shape, y.shape))
    wide = broadcast_to(x, shape)
    x = settled(x) if wide is x else coalesced(wide) if x._pattern.coalesced else settled(wide)
    values = values_of(x) * at_places(y.expand(shape), x._pattern)
    return named(with_values(values, x._pattern), "MulBackward0")


sparse_form("mul", op=True)(mul)
sparse_form("mul_", op=True)(lambda x, y: in_place(x, mul(x, y)))
