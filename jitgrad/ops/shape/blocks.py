"""Tensors put together as blocks: along a diagonal, and cut into chunks beside each other."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import copy_into, filled
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import check_tensors
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.join import Cat
from jitgrad.ops.shape.slicing import Slice
from jitgrad.ops.shape.view import reshaped

__all__: list[str] = []


def block_diag(*tensors: Any) -> Tensor:
    """A matrix of zeros with matrices along its diagonal; a number is a matrix of one, a vector of one row."""
    check_tensors(tensors)
    blocks = []
    for k, t in enumerate(tensors):
        shape = t._layout.shape
        if len(shape) > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {k} has {len(shape)} dimensions"
            )
        blocks.append(t if len(shape) == 2 else reshaped(t, (*(1,) * (2 - len(shape)), *shape)))
    if not blocks:
        return filled(intern(dtypes.get_default_dtype().numpy, (1, 0)), 0)
    kinds = {b._layout.dtype for b in blocks}
    if len(kinds) > 1:
        common = functools.reduce(dtypes.promote_types, kinds)
        blocks = [cast(b, common) for b in blocks]
    return BlockDiag.apply(blocks)


def _corners(matrices: Sequence[Layout]) -> list[tuple[int, int]]:
    """The row and column where each matrix begins, and those where all end."""
    found = [(0, 0)]
    for x in matrices:
        found.append((found[-1][0] + x.shape[0], found[-1][1] + x.shape[1]))
    return found


def _block_reference(tensors: Sequence[Any]) -> Any:
    out = np.zeros(np.sum([t.shape for t in tensors], 0))
    row, column = 0, 0
    for t in tensors:
        out[row : row + t.shape[0], column : column + t.shape[1]] = t
        row, column = row + t.shape[0], column + t.shape[1]
    return out


class BlockDiag(Structured):
    """A matrix of zeros with matrices of one dtype along its diagonal."""

    jointly_linear = ("tensors",)
    reference = _block_reference
    samples = cases(lambda: ([draw(2, 3), draw(1, 2, seed=1)],), lambda: ([draw(3, 2).t(), draw(2, 0, seed=1)],))

    @staticmethod
    def plan(tensors_layout: list):
        *corners, shape = _corners(tensors_layout)
        out = intern(tensors_layout[0].numpy_dtype, shape, None, tensors_layout[0].device)
        parts = [intern(out.numpy_dtype, x.shape, out.strides, out.device) for x in tensors_layout]

        def compute(tensors: Sequence[Tensor]) -> Tensor:
            result = filled(out, 0)
            for (row, column), part, x in zip(corners, parts, tensors, strict=True):
                if part.numel:
                    rows, columns = part.shape
                    copy_into(result._data[row : row + rows, column : column + columns], part, x)
            return result

        return compute

    def grad_tensors(g, tensors_layout):
        places = zip(_corners(tensors_layout), tensors_layout)
        return [
            Slice.apply(Slice.apply(g, 0, row, row + x.shape[0], 1), 1, column, column + x.shape[1], 1)
            for (row, column), x in places
        ]


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
