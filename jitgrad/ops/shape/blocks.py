"""Tensors put together as blocks: along a diagonal, and cut into chunks beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.errors import type_name
from jitgrad.core.layout import intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.ops.shape.join import Cat
from jitgrad.ops.shape.view import reshaped

__all__: list[str] = []


def block_diag(*tensors: Any) -> Tensor:
    """A matrix of zeros with matrices along its diagonal; a number is a matrix of one, a vector of one row."""
    blocks = []
    for k, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type_name(t)}")
        shape = t._layout.shape
        if len(shape) > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {k} has {len(shape)} dimensions"
            )
        blocks.append(reshaped(t, (*(1,) * (2 - len(shape)), *shape)))
    if not blocks:
        return filled(intern(dtypes.get_default_dtype().numpy, (1, 0)), 0)
    width, left, rows = sum(b._layout.shape[1] for b in blocks), 0, []
    for block in blocks:
        rows.append(_beside_zeros(block, 1, left, width))
        left += block._layout.shape[1]
    return Cat.apply(rows, 0)


def _beside_zeros(x: Tensor, d: int, before: int, size: int) -> Tensor:
    """``x`` with ``before`` zeros before it along ``d``, and as many behind it as make it ``size`` long."""
    shape, after = x._layout.shape, size - before - x._layout.shape[d]
    edges = [filled(intern(x._layout.numpy_dtype, (*shape[:d], n, *shape[d + 1 :])), 0) for n in (before, after)]
    return Cat.apply([t for t in (edges[0], x, edges[1]) if t is x or t._layout.shape[d]], d)


def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Each tensor cut along ``dim`` into chunks, padded with zeros; the chunks of one number lie side by side.

    The result has the dims before ``dim``, then ``num_chunks``, then the elements of the chunks of that number.
    """
    count, d = int_argument("_chunk_cat", "num_chunks", 3, num_chunks), int_argument("_chunk_cat", "dim", 2, dim)
    if count < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    first = tensors[0]._layout
    for t in tensors:
        if not t._layout.numel:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
        if t._layout.dtype is not first.dtype:
            raise RuntimeError("_chunk_cat expects all input tensors with the same dtype")
    if all(t._layout.ndim == first.ndim for t in tensors):
        d = normalize_dim(d, first.ndim)
    elif d < 0:
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    if any(d >= t._layout.ndim for t in tensors):
        raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
    if any(t._layout.shape[:d] != first.shape[:d] for t in tensors):
        raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
    chunks = []
    for t in tensors:
        t = t.detach()
        shape = t._layout.shape
        size = -(-shape[d] // count) * count
        t = _beside_zeros(t, d, 0, size)
        chunks.append(reshaped(t, (*shape[:d], count, size // count * math.prod(shape[d + 1 :]))))
    return Cat.apply(chunks, d + 1)


public(block_diag, method_too=False)
public(takes_out(_chunk_cat), method_too=False)
