"""Sparse tensors expanded to larger shapes: places are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.layout import broadcast_shapes
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public
from jitgrad.ops.shape.join import cat
from jitgrad.ops.sparse.parts import named, settled, values_of, with_values
from jitgrad.ops.sparse.places import coo_pattern, keys_of, plain

__all__ = ["broadcast_to"]


def broadcast_to(x: Any, shape: Any) -> Any:
    """A sparse tensor as one of ``shape``, which it broadcasts to; itself if it is of that shape."""
    shape = tuple(shape)
    if tuple(x.shape) == shape:
        return x
    if x._pattern.kind != "sparse_coo":
        raise SparseOperand("expand", x._layout.backend)
    if tuple(broadcast_shapes(x.shape, shape)) != shape:
        raise RuntimeError(f"The size {list(x.shape)} does not broadcast to {list(shape)}")
    x = settled(x)
    pattern, values, lead = x._pattern, values_of(x), len(shape) - x.ndim
    keys_of(pattern)
    index, d = pattern.indices[0], pattern.sparse_dim + lead
    index = cat((index.new_zeros((lead, pattern.nnz)), index))
    old = (*(1,) * lead, *x.shape)
    values = values.expand(-1, *shape[d:])
    for k in range(d):
        n = shape[k]
        if n == old[k]:
            continue
        step = np.zeros((d, n), np.int64)
        step[k] = np.arange(n)
        nnz = index.shape[1]
        index = (index.unsqueeze(2) + plain(step).unsqueeze(1)).reshape(d, nnz * n)
        values = values.unsqueeze(1).expand(nnz, n, *values.shape[1:]).reshape(nnz * n, *values.shape[1:])
    return named(with_values(values, coo_pattern(index, shape)), "SparseBroadcastToBackward0")


def _sparse_broadcast_to(input: Any, size: Any) -> Tensor:
    """A sparse tensor as one of a larger size."""
    if not isinstance(input, SparseTensor):
        raise SparseOperand("_sparse_broadcast_to", "CPU")
    return broadcast_to(input, size)


public(_sparse_broadcast_to, method_too=False)
