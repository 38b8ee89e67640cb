"""The two ops between sparse tensors and their values, and coalescing; the rest is composed of them and dense ops.

A form of an op computes on the values, ``values_of(x)``, and makes a sparse tensor of the result, ``with_values``.
Gradients of a sparse tensor are sparse tensors of its places, or dense ones: of these only the elements at its places
count, as in PyTorch's masked semantics.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import intern
from jitgrad.core.node import Node
from jitgrad.core.sparse import Pattern, SparseTensor, sparse_tensor
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.sparse_calls import bring_forms
from jitgrad.dispatch.structured import Structured
from jitgrad.dispatch.structured_node import StructuredNode
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.indexing.index_select import IndexSelect
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.view import reshape
from jitgrad.ops.sparse.invariants import warn_of_beta
from jitgrad.ops.sparse.places import as_coo, coalescing, compressed, keys_of, plain, values_shape

__all__ = [
    "Coalesce", "FromValues", "ValuesOf", "at_places", "coalesced", "from_grid", "grid", "linearly", "mapped", "named",
    "ordered_values", "same_layout", "settled", "tiled", "untiled", "values_of", "with_values",
]  # fmt: skip


class FromValues(Structured, listed=False):
    """The sparse tensor of values at the places of a pattern."""

    name, grad_name = "_sparse_from_values", "SparseCooTensorWithDimsAndTensorsBackward0"
    linear, half, sparse = ("values",), True, True

    def forward(values, pattern):
        bring_forms()
        if pattern.kind == "sparse_csr":
            warn_of_beta()
        return sparse_tensor(pattern, values.detach())

    def grad_values(g, pattern):
        return at_places(g, pattern)


class ValuesOf(Structured, listed=False):
    """The values of a sparse tensor: (nnz, *dims of a value), on the same memory."""

    name, grad_name, linear, half, sparse = "_sparse_values", "ValuesBackward0", ("x",), True, True

    def forward(x, pattern):
        found = x._stored.detach()
        found._counter = x._counter
        return found

    def grad_x(g, pattern):
        return FromValues.apply(g, pattern)


class Coalesce(Structured, listed=False):
    """The same tensor with its places in order and none there twice."""

    name, linear, half, sparse = "_coalesce", ("x",), True, True

    def forward(x):
        found = coalescing(x._pattern)
        return sparse_tensor(found.pattern, _summed(x._stored, found))

    def grad_x(g):
        return g


def _summed(values: Tensor, how: Any) -> Tensor:
    if how.order is None:
        return values.detach()
    shape = (len(how.starts), *values._layout.shape[1:])
    layout = intern(values._layout.numpy_dtype, shape)
    out = wrap(empty_for(layout), layout)
    if layout.numel:
        flat = contiguous(values)._data.reshape(values._layout.shape[0], -1)
        launch(kernels.sum_segments, flat, how.order, how.starts, out._data.reshape(shape[0], -1))
    return out


class LinearForm(Structured, listed=False):
    """A function of a sparse tensor that is linear; its gradient, by ``adjoint``, has the places that arrive."""

    name, linear, half, sparse = "_sparse_linear", ("x",), True, True

    def forward(x, function, adjoint):
        return function(x.detach())

    def grad_x(g, adjoint):
        return adjoint(g)


def linearly(x: Any, function: Any, adjoint: Any, title: str) -> Any:
    """``function(x)``, recorded with ``adjoint`` as the function of gradients and PyTorch's name of the node."""
    if x._requires_grad and grad_state.enabled:
        return named(LinearForm.apply(x, function, adjoint), title)
    return function(x)


def coalesced(x: Any) -> Any:
    """A sparse tensor whose places are in order and distinct: itself if it is COO, says so, and is so."""
    if x._pattern.kind != "sparse_coo" or (x._pattern.coalesced and coalescing(x._pattern).order is None):
        return x
    return Coalesce.apply(x)


def values_of(x: Any) -> Tensor:
    """The values, as part of the graph; ``x`` is coalesced if gradients flow."""
    return ValuesOf.apply(x, x._pattern)


def settled(x: Any) -> Any:
    """A sparse tensor for linear ops: as it stands if nothing is recorded, else coalesced, as its gradient will be."""
    return coalesced(x) if x._requires_grad and grad_state.enabled else x


def with_values(values: Tensor, pattern: Pattern) -> Tensor:
    """The sparse tensor of a pattern and values."""
    return FromValues.apply(values, pattern)


def named(x: Any, title: str, *given: Any) -> Any:
    """``x``, a result whose node is to have PyTorch's name of the op; one of the operands ``given`` as it is."""
    node: Any = x._edge
    if isinstance(node, StructuredNode) and not any(x is g for g in given) and type(node).__name__ != title:
        node.__class__ = _renamed(node.__class__, title)  # type: ignore[arg-type]
    return x


@functools.cache
def _renamed(kind: Any, title: str) -> Any:
    return type(title, (kind,), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def mapped(x: Any, function: Any, *given: Any) -> Any:
    """``function`` of the values, elementwise, at the same places; the node has the name of the function's."""
    values = function(values_of(x))
    result = with_values(values, x._pattern)
    return named(result, type(values._edge).__name__) if isinstance(values._edge, Node) else result


def ordered_values(values: Tensor, order: Any) -> Tensor:
    """The rows of values in another order; None: as they stand."""
    return values if order is None else IndexSelect.apply(values, 0, plain(order))


def at_places(g: Any, pattern: Pattern) -> Tensor:
    """The elements of a tensor, dense or sparse, at the places of a pattern; zero where a sparse one has none.

    A sparse one has the blocks of the pattern.
    """
    coo, found = as_coo(pattern), None
    rest = coo.shape[coo.sparse_dim :]
    if not isinstance(g, SparseTensor):
        if g._layout.numel:
            rows = reshape(tiled(g, pattern.block, pattern.sparse_dim - 2), (-1, *rest))
            found = IndexSelect.apply(rows, 0, keys_of(coo))
    elif g._pattern is pattern or g._pattern.indices is pattern.indices:
        return values_of(g)
    else:
        g = coalesced(grid(g))
        if g._pattern.nnz:
            found = _common_values(g, coo)
    if found is None:
        found = (values_of(g) if isinstance(g, SparseTensor) else g).new_zeros((coo.nnz, *rest))
    return found if pattern is coo else reshape(found, values_shape(pattern))


def _common_values(g: Any, coo: Pattern) -> Tensor:
    found = np.empty(coo.nnz, np.int64)
    launch(kernels.find_places, keys_of(g._pattern)._data, keys_of(coo)._data, found)
    places, values = plain(found), values_of(g)
    there = reshape(table.ge(places, 0), (-1, *(1,) * (values._layout.ndim - 1)))
    return table.where(there, IndexSelect.apply(values, 0, places.clamp(min=0)), cast(places.new_zeros(()), g.dtype))


# -- compressed matrices ------------------------------------------------------------------------------------


def tiled(x: Tensor, block: Any, d: int) -> Tensor:
    """(*batch, m, n, *others) as (*batch, m / high, n / wide, high, wide, *others); d: the number of batch dims."""
    if not block:
        return x
    shape, (high, wide) = tuple(x._layout.shape), block
    m, n = (shape[d] // high if high else 0), (shape[d + 1] // wide if wide else 0)
    return reshape(x, (*shape[:d], m, high, n, wide, *shape[d + 2 :])).transpose(d + 1, d + 2)


def untiled(x: Tensor, block: Any, d: int) -> Tensor:
    """The inverse of ``tiled``."""
    if not block:
        return x
    shape = tuple(x._layout.shape)
    size = shape[d] * block[0], shape[d + 1] * block[1]
    return reshape(x.transpose(d + 1, d + 2), (*shape[:d], *size, *shape[d + 4 :]))


def grid(x: Any) -> Any:
    """A sparse tensor as COO, in which a block is a value: (*batch, rows, columns, *block, *dims of a value)."""
    pattern = x._pattern
    if pattern.kind == "sparse_coo":
        return x
    coo, values = as_coo(pattern), values_of(x)
    if pattern.sparse_dim > 2:
        values = reshape(values, (coo.nnz, *coo.shape[coo.sparse_dim :]))
    return with_values(values, coo)


def from_grid(x: Any, like: Pattern, dtype: Any) -> Tensor:
    """The inverse of ``grid``: in the layout, shape and block of ``like``, with indices of a dtype."""
    x = coalesced(x)
    pattern, order = compressed(x._pattern, like, dtype)
    return with_values(reshape(ordered_values(values_of(x), order), values_shape(pattern)), pattern)


def same_layout(x: Any, like: Any) -> Any:
    """A grid in the layout of a sparse tensor whose grid is of its shape."""
    pattern = like._pattern
    return x if pattern.kind == "sparse_coo" else from_grid(x, pattern, pattern.indices[0].dtype)
