"""Between dense and sparse tensors, and from one sparse layout to another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import intern
from jitgrad.core.sparse import Pattern, SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import method
from jitgrad.dispatch.sizes import int_argument, ints_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.indexing.index_select import IndexAdd
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import UnsafeView, reshape
from jitgrad.ops.sparse.attributes import TITLES, kind_of, title
from jitgrad.ops.sparse.parts import (
    at_places,
    from_grid,
    grid,
    named,
    settled,
    tiled,
    untiled,
    values_of,
    with_values,
)
from jitgrad.ops.sparse.places import batch_of, coalescing, grid_of, keys_of, keys_to_pattern, plain

__all__ = ["dense", "to_compressed", "to_coo", "to_dense"]


# -- to dense ----------------------------------------------------------------------------------------------


def dense(x: Any) -> Tensor:
    """The dense tensor of a sparse one; gradients at its places flow back. A dense tensor as it is."""
    if not isinstance(x, SparseTensor):
        return x
    pattern = x._pattern
    x = settled(grid(x))
    shape, d = x._pattern.shape, x._pattern.sparse_dim
    values = values_of(x)
    zeros = zeros_of(intern(values._layout.numpy_dtype, (math.prod(shape[:d]), *shape[d:])))
    # The sum is a new tensor that nobody else holds: no view of it needs to be tracked.
    found = IndexAdd.apply(zeros, 0, keys_of(x._pattern), values) if x._pattern.nnz else zeros
    return untiled(UnsafeView.apply(found, shape), pattern.block, d - 2)


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with all its zeros, as a dense one; masked_grad: whether only the stored elements get gradients."""
    if isinstance(self, SparseTensor):
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        if masked_grad is False:
            return DenseUnmasked.apply(self, self._pattern)
        return named(dense(self), "ToDenseBackward0")
    return self if dtype is None else self.to(dtype)


class DenseUnmasked(Structured, listed=False):
    """The dense tensor of a sparse one, whose gradient is dense: elements that are not stored get theirs."""

    name, grad_name, linear, half, sparse = "_to_dense_unmasked", "ToDenseBackward0", ("x",), True, True

    def forward(x, pattern):
        return dense(x.detach())

    def grad_x(g, pattern):
        if pattern.kind == "sparse_coo":
            return to_coo(g, pattern.sparse_dim)
        return to_compressed(g, pattern.kind, g.ndim - pattern.sparse_dim, pattern.block or None)


# -- to sparse ----------------------------------------------------------------------------------------------


def to_coo(x: Any, sparse_dim: int | None = None) -> Any:
    """A tensor as COO: of a dense one what is not zero, as one whose first ``sparse_dim`` dims are sparse."""
    if isinstance(x, SparseTensor):
        return _without_blocks(grid(x), x._pattern) if x._pattern.block else grid(x)
    ndim = x.ndim
    d = ndim if sparse_dim is None else sparse_dim
    if ndim and d == 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= d <= ndim:
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{ndim}] range, but {d} is given")
    if read_observers:
        announce_read("to_sparse()")
    shape = tuple(x.shape)
    there = x.detach() != 0
    if d < ndim:
        there = reshape(there, (*shape[:d], -1)).any(-1) if x.numel() else there.new_zeros(shape[:d])
    total = math.prod(shape[:d])
    keys = reshape(nonzero(reshape(there, (total,))), (-1,))._data
    pattern = keys_to_pattern(keys, shape, d, True)
    return with_values(at_places(x, pattern), pattern)


def _without_blocks(x: Any, of: Pattern) -> Tensor:
    """A grid of blocks as a COO tensor of their elements, block by block."""
    known, d, (high, wide) = of.known(), of.sparse_dim, of.block
    if "elements" not in known:
        keys = np.empty(x._pattern.nnz * high * wide, np.int64)
        launch(kernels.places_in_blocks, keys_of(x._pattern)._data, grid_of(of)[1], high, wide, keys)
        known["elements"] = keys_to_pattern(keys, of.shape, d, False)
    pattern = known["elements"]
    return with_values(reshape(values_of(x), (pattern.nnz, *of.shape[d:])), pattern)


def _in_blocks(x: Any, block: tuple[int, int]) -> Tensor:
    """A COO matrix as a grid of those blocks in which it has elements."""
    (high, wide), (m, n), rest = block, x._pattern.shape[:2], x._pattern.shape[2:]
    keys = keys_of(x._pattern)._data
    blocks, inside, found = np.empty_like(keys), np.empty_like(keys), np.empty_like(keys)
    launch(kernels.blocks_of_places, keys, n, high, wide, blocks, inside)
    shape = (m // high, n // wide, high, wide, *rest)
    pattern = coalescing(keys_to_pattern(blocks, shape, 2, False)).pattern
    launch(kernels.find_places, keys_of(pattern)._data, blocks, found)
    values, total = values_of(x), pattern.nnz * high * wide
    zeros = zeros_of(intern(values._layout.numpy_dtype, (total, *rest)))
    if pattern.nnz:
        zeros = IndexAdd.apply(zeros, 0, plain(found) * (high * wide) + plain(inside), values)
    return with_values(reshape(zeros, (pattern.nnz, high, wide, *rest)), pattern)


def to_compressed(x: Any, kind: str, dense_dim: int | None = None, block: Any = None, caller: str = "") -> Any:
    """A matrix, or a batch of them, as CSR or CSC; of blocks as BSR or BSC."""
    caller = caller or _caller(x, kind)
    if isinstance(x, SparseTensor):
        return _from_sparse(x, kind, block, caller)
    most = x.ndim - 2
    if most < 0:
        raise RuntimeError(
            f"Only tensors with two or more dimensions can be converted to the {TITLES[kind]} layout but got "
            f"{x.ndim}D tensor"
        )
    if dense_dim is not None and not 0 <= dense_dim <= most:
        raise RuntimeError(f"{caller}: dense_dim argument must be in [0,{most}] range, but {dense_dim} is given")
    d = most - (dense_dim or 0)
    shape = tuple(x.shape)
    if not math.prod(shape[:d]):
        raise RuntimeError(f"to_{kind}: Expected product of batch dimensions to be non-zero.")
    _check_divisible(caller, shape[d:], block)
    like = Pattern(kind, (), shape, d + 2, block=tuple(block or ()))
    tiles = tiled(x, block, d)
    if block:  # as one dim, of which it is quicker to tell whether all is zero
        tiles = reshape(tiles, (*tiles.shape[: d + 2], math.prod(tiles.shape[d + 2 :])))
    return from_grid(to_coo(tiles, d + 2), like, int64)


def _check_divisible(caller: str, shape: tuple[int, ...], block: Any) -> None:
    if block and (shape[0] % block[0] or shape[1] % block[1]):
        raise RuntimeError(
            f"{caller}: tensor sparse size ({shape[0]},{shape[1]}) must be divisible by given blocksize "
            f"({block[0]},{block[1]})"
        )


def _from_sparse(x: Any, kind: str, block: Any, caller: str) -> Any:
    """A sparse tensor in another compressed layout; RuntimeError for those pairs that PyTorch does not convert."""
    pattern, block = x._pattern, tuple(block or ())
    pair = f"conversion from {title(x)} to {TITLES[kind]}"
    own = pattern.kind
    if own == "sparse_coo" and pattern.sparse_dim != 2:
        raise RuntimeError(f"{caller}: {pair} for input tensors with sparse_dim()!=2 is not supported")
    if pattern.block and not block:
        raise RuntimeError(
            f"sparse_compressed_to_{kind}: expected SparseCsr or SparseCsc layout but got {title(x)}"
        )
    if pattern.block and pattern.block != block:
        raise RuntimeError(
            f"{caller}: {pair} with blocksize changed from {list(pattern.block)} to {list(block)} is not supported"
        )
    if own == kind:
        return x
    if block and not pattern.block and batch_of(pattern):
        raise RuntimeError(f"{caller}: {pair} for batched inputs is not supported")
    _check_divisible(caller, pattern.shape[pattern.sparse_dim - 2 :], block)
    cells = grid(x)
    if block and not pattern.block:
        cells = _in_blocks(cells, block)
    dtype = int64 if own == "sparse_coo" else pattern.indices[0].dtype
    return from_grid(cells, pattern.like(kind=kind, block=block, coalesced=False), dtype)


def _checked_block(caller: str, block: Any) -> tuple[int, int]:
    """(height, width) of blocks, from the pair or one number; RuntimeError for others and for sizes below 1."""
    sizes = ints_argument("to_sparse", "blocksize", 2, (block, block) if isinstance(block, int) else block)
    if len(sizes) != 2:
        raise RuntimeError(f"{caller}: blocksize needs to be a tuple of size 2, but got {len(sizes)}")
    if min(sizes) <= 0:
        raise RuntimeError(f"{caller}: blocksize needs to be positive, but got {list(sizes)}")
    return sizes[0], sizes[1]


def _caller(x: Any, kind: str, name: str = "to_sparse") -> str:
    """What PyTorch calls a conversion in its errors."""
    own = kind_of(x)
    coo = "sparse_coo" if name == "to_sparse" else "coo"
    return name if own == kind else {"strided": "dense", "sparse_coo": coo}.get(own, "sparse_compressed") + f"_{name}"


@method
def to_sparse(self: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: int | None = None) -> Tensor:  # fmt: skip
    """What is not zero as a sparse tensor, COO unless ``layout`` says otherwise."""
    kind = getattr(layout, "name", None)
    if sparse_dim is not None:
        d = int_argument("to_sparse", "sparse_dim", 2, sparse_dim)
        if isinstance(self, SparseTensor) and d != self._pattern.sparse_dim:
            raise RuntimeError(
                f"to_sparse: conversion from {title(self)} to Sparse with sparse_dim argument !=self.sparse_dim() is "
                "not supported"
            )
        return named(to_coo(self, d), "ToSparseBackward0", self)
    if kind == "strided":
        return dense(self)
    wanted = kind or "sparse_coo"
    if blocksize is not None:
        blocksize = _checked_block(_caller(self, wanted), blocksize)
    if (wanted in ("sparse_bsr", "sparse_bsc")) is (blocksize is None):
        raise RuntimeError(
            f"{_caller(self, wanted)}: conversion from {title(self)} to {TITLES[wanted]} "
            f"{'without' if blocksize is None else 'with'} blocksize argument given is not supported"
        )
    if kind in (None, "sparse_coo"):
        sparse = self.ndim - dense_dim if dense_dim is not None else None
        return named(to_coo(self, sparse), "ToSparseBackward1", self)
    return named(to_compressed(self, kind, dense_dim, blocksize), f"To{TITLES[kind]}Backward0", self)


@method
def to_sparse_coo(self: Tensor) -> Tensor:
    """What is not zero as COO."""
    return to_sparse(self)


def _converting(name: str) -> None:
    kind = f"sparse_{name}"

    def convert(self: Tensor, dense_dim: int | None = None) -> Tensor:
        caller = _caller(self, kind, f"to_{kind}")
        return named(to_compressed(self, kind, dense_dim, None, caller), f"To{TITLES[kind]}Backward0", self)

    def convert_blocks(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
        caller = _caller(self, kind, f"to_{kind}")
        block = _checked_block(caller, blocksize)
        return named(to_compressed(self, kind, dense_dim, block, caller), f"To{TITLES[kind]}Backward0", self)

    function = convert_blocks if name[0] == "b" else convert
    function.__name__ = function.__qualname__ = f"to_{kind}"
    function.__doc__ = f"A matrix, or what is not zero of it, in the layout {kind}."
    method(function)


for _name in ("csr", "csc", "bsr", "bsc"):
    _converting(_name)


# -- masks --------------------------------------------------------------------------------------------------


@method
def sparse_mask(self: Tensor, mask: Any) -> Tensor:
    """The elements at the places of ``mask``, a sparse tensor, as a sparse tensor of its places."""
    if not isinstance(mask, SparseTensor):
        raise SparseOperand("sparse_mask", "CPU")
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    pattern = mask._pattern
    if isinstance(self, SparseTensor):
        if self._pattern.kind != "sparse_coo" and pattern.kind == "sparse_coo":
            raise RuntimeError(
                "sparse_mask_sparse_compressed expects mask to have sparse compressed layout, got Sparse"
            )
        if self._pattern.block != pattern.block:
            return named(sparse_mask(dense(self), mask), "SparseMaskBackward0")
        return Masked.apply(self, pattern)
    return named(with_values(at_places(self, pattern), pattern), "SparseMaskBackward0")


class Masked(Structured, listed=False):
    """A sparse tensor at the places of a pattern; the gradient has these, too."""

    name, grad_name, linear, half, sparse = "_sparse_mask", "SparseMaskBackward0", ("x",), True, True

    def forward(x, pattern):
        return with_values(at_places(x.detach(), pattern), pattern)

    def grad_x(g, pattern):
        return with_values(at_places(g, pattern), pattern)
