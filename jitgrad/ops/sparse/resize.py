"""Sparse tensors written as a whole: copies into them, and other sizes."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_history
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import size_argument
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.sparse.attributes import kind_of, title
from jitgrad.ops.sparse.construct import KINDS, empty_sparse
from jitgrad.ops.sparse.parts import with_values
from jitgrad.ops.sparse.places import coo_pattern, is_across

__all__: list[str] = []


def _check_copy(self: Any, src: Any) -> None:
    """RuntimeError unless both are compressed, alike and with as many values."""
    own = kind_of(self)
    if own not in KINDS[1:]:
        raise RuntimeError(f"copy_sparse_compressed_ expected sparse compressed tensor layout but got {title(self)}")
    if kind_of(src) != own:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self layout is "
            f"{title(self)} and src layout is {title(src)}"
        )
    if self._pattern.nnz != src._pattern.nnz:
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported."
        )
    d = self._pattern.sparse_dim - (1 if is_across(own) else 2)
    sizes = [x.shape[d] if d < x.ndim else None for x in (self, src)]
    if sizes[0] != sizes[1]:
        raise RuntimeError(
            f"torch.copy_: expected shapes of self and src to match along dimension {d} for {title(self)} layout but "
            f"the corresponding dimensions of self and src are {sizes[0]} and {sizes[1]}, respectively."
        )
    blocks = [list(x._pattern.block) for x in (self, src)]
    if blocks[0] != blocks[1]:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different block sizes is not supported. self and "
            f"src block sizes are {blocks[0]} and {blocks[1]}, respectively."
        )


@sparse_form("copy_", "copy_from_", op=True)
@sparse_form("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Tensor:
    """Take over the values and places of another sparse tensor."""
    if any(kind_of(x) in KINDS[1:] for x in (self, src)):
        _check_copy(self, src)
    if not (isinstance(self, SparseTensor) and isinstance(src, SparseTensor)):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{self.type()} and src type = {src.type()}"
        )
    check_history(self, grad_state.enabled and (self._requires_grad or src._requires_grad))
    if self.shape != src.shape:
        raise RuntimeError(f"copy_: expected sizes to match, but got {list(self.shape)} and {list(src.shape)}")
    made = src.clone() if self.dtype is src.dtype else src.to(self.dtype)
    self.become(made)
    if made._requires_grad:
        self._edge, self._requires_grad = made._edge, True
    return self


# -- sizes -----------------------------------------------------------------------------------------------------


def _check_resize(x: Any, sparse_dim: int, dense_dim: int, size: Any) -> None:
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )


def _resize(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """The tensor of another size; RuntimeError where values would have to be dropped."""
    size = tuple(size_argument("sparse_resize_", (size,)))
    _check_resize(self, sparse_dim, dense_dim, size)
    p = self._pattern
    if p.nnz:
        if sparse_dim != p.sparse_dim:
            raise RuntimeError(
                f"changing the number of sparse dimensions (from {p.sparse_dim} to {sparse_dim}) on a non-empty sparse "
                "tensor is not supported.\nIf you need an empty sparse tensor of this size, call "
                "`x = torch.empty(size, dtype, layout=torch.sparse_coo)`.\nIf you need to resize this tensor, you have "
                "the following options:\n    1. For both sparse and dense dimensions, keep the number of them "
                "constant and the size of them non-shrinking, and then try the same call again.\n    2. Or, create a "
                "new sparse tensor with the correct indices and values from this sparse tensor."
            )
        old_dense = self.ndim - p.sparse_dim
        if dense_dim != old_dense:
            raise RuntimeError(
                f"changing the number of dense dimensions (from {old_dense} to {dense_dim}) on a non-empty sparse "
                "tensor is not supported."
            )
        for what, lo, hi in (("sparse", 0, sparse_dim), ("dense", sparse_dim, len(size))):
            if any(n < m for n, m in zip(size[lo:hi], self.shape[lo:hi], strict=True)):
                raise RuntimeError(
                    f"shrinking the size of {what} dimensions (from {list(self.shape[lo:hi])} to {list(size[lo:hi])}) "
                    "on a non-empty sparse tensor is not supported."
                )
        values = self._stored
        if tuple(values.shape[1:]) != size[sparse_dim:]:
            values = values.clone().resize_((p.nnz, *size[sparse_dim:]))  # as PyTorch: numbers keep their order
        return with_values(values, coo_pattern(p.indices[0], size, p.coalesced))
    return empty_sparse(size, "sparse_coo", self.dtype, None, sparse_dim)


@method
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size; stored values stay, so sparse and dense dims must stay, and none may shrink."""
    if not isinstance(self, SparseTensor):
        raise SparseOperand("sparse_resize_", "CPU")
    check_history(self, grad_state.enabled and self._requires_grad)
    self.become(_resize(self, size, sparse_dim, dense_dim))
    return self


@method
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Change the size, and store nothing any more."""
    if not isinstance(self, SparseTensor):
        raise SparseOperand("sparse_resize_and_clear_", "CPU")
    check_history(self, grad_state.enabled and self._requires_grad)
    size = tuple(size_argument("sparse_resize_and_clear_", (size,)))
    _check_resize(self, sparse_dim, dense_dim, size)
    self.become(empty_sparse(size, "sparse_coo", self.dtype, None, sparse_dim))
    return self


def _resize_(self: Any, *each: Any, size: Any = None, memory_format: Any = None) -> Any:
    """Of a batch of compressed matrices: values keep their order, new rows are empty, surplus places are dropped.

    Of matrices of blocks PyTorch takes rows for rows of blocks, and the blocks away from the values: it leaves a tensor
    that is none. Here they are resized as those of elements are, block by block.
    """
    if self._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    size = tuple(size_argument("resize_", each, "size", size))
    if size == tuple(self.shape):
        return self
    pattern = self._pattern
    if pattern.kind == "sparse_coo" or pattern.sparse_dim < self.ndim:
        raise SparseOperand("resize_", self._layout.backend)
    if len(size) < 2:
        raise RuntimeError(f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(size)}")
    across, old, block = is_across(pattern.kind), self.shape, pattern.block or (1, 1)
    if size[-2] % block[0] or size[-1] % block[1]:
        raise RuntimeError(f"torch.resize_: Expected a size of whole blocks of {list(block)}, but got {list(size)}")
    rows, columns = size[-2] // block[0], size[-1] // block[1]
    plain, height = (-2, columns) if across else (-1, rows)
    if size[plain] < old[plain]:
        what = f"{'rows' if across else 'columns'} of sparse {pattern.kind[-3:].upper()}"
        raise RuntimeError(
            f"torch.resize_: Resizing {what} tensors to a smaller value is not supported. The original number of "
            f"{what.split()[0]} is {old[plain]} while the requested new number of {what.split()[0]} is {size[plain]}."
        )
    nnz, batch, before = pattern.nnz, size[:-2], pattern.indices[0].shape[-1]
    most = min(nnz, rows * columns)
    crow, cols, values = (t.detach().clone() for t in (*pattern.indices, self._stored))
    crow.resize_((*batch, height + 1))
    cols.resize_((*batch, most))
    values.resize_((*batch, most, *pattern.block))
    first, end = (before, nnz) if height + 1 >= before else (height, most)
    crow.narrow(-1, first, height + 1 - first).fill_(end)
    self.become(with_values(values, pattern.like(indices=(crow, cols), shape=size, sparse_dim=len(size))))
    return self


SparseTensor.resize_ = _resize_  # type: ignore[method-assign]


def _check_compressed(self: Any, other: Any) -> None:
    for name, x in (("src", other), ("self", self)):
        if kind_of(x) not in KINDS[1:]:
            raise RuntimeError(
                f"resize_as_sparse_compressed_: {name}  expected sparse compressed tensor layout but got {title(x)}"
            )
    if kind_of(self) != kind_of(other):
        raise RuntimeError(
            "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self "
            f"({title(self)}) and source ({title(other)})"
        )


@public
def resize_as_sparse_(self: Tensor, other: Any) -> Tensor:
    """Give a sparse tensor the size of another one; a compressed one its indices and blocks too, values are zero."""
    if any(kind_of(x) in KINDS[1:] for x in (self, other)):
        _check_compressed(self, other)
        mine: Any = self
        shapes = [[tuple(t.shape) for t in (x, *x._pattern.indices, x._stored)] for x in (mine, other)]
        if shapes[0] != shapes[1]:
            index = [i.detach().clone().to(mine._pattern.indices[0].dtype) for i in other._pattern.indices]
            values = zeros(tuple(other._stored.shape), dtype=self.dtype)
            mine.become(with_values(values, other._pattern.like(indices=tuple(index))))
        return self
    if not isinstance(self, SparseTensor) or not isinstance(other, SparseTensor):
        raise SparseOperand("resize_as_sparse_", "CPU")
    d = other._pattern.sparse_dim
    if self.shape == other.shape and self._pattern.sparse_dim == d:
        return self
    return sparse_resize_(self, tuple(other.shape), d, other.ndim - d)


@sparse_form("resize_as_")
def _resize_as(self: Any, the_template: Any, *, memory_format: Any = None) -> Tensor:
    """``resize_as_sparse_``."""
    return resize_as_sparse_(self, the_template)
