"""Sparse tensors without values, writes to them, other sizes; matrices of diagonals."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import int64
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Size
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_history
from jitgrad.dispatch.registry import FUNCTIONS, method, public
from jitgrad.dispatch.sizes import size_argument
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.ops.creation.constants import as_dtype, finished, zeros
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.shape.join import cat, stack
from jitgrad.ops.sparse.construct import KINDS, empty_sparse, sparse_coo_tensor
from jitgrad.ops.sparse.convert import kind_of, title, to_compressed
from jitgrad.ops.sparse.parts import with_values
from jitgrad.ops.sparse.places import coo_pattern

__all__: list[str] = []


# -- new tensors --------------------------------------------------------------------------------------------------


def _with_layout(name: str) -> None:
    def make(
        size: Any, *, layout: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        out: Any = None,
    ) -> Any:  # fmt: skip
        if out is not None:
            out.become(empty_sparse(size, "sparse_coo", out.dtype))
            out._requires_grad = bool(requires_grad)
            return out
        kind = layout.name
        if kind not in KINDS[:3]:
            raise SparseOperand(f"{name}.memory_format", "SparseCsrCPU")
        made = empty_sparse(size, kind, as_dtype(name, dtype), device)
        return finished(name, made, requires_grad)

    def like(
        input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Any:  # fmt: skip
        kind = getattr(layout, "name", None) or kind_of(input)
        chosen = as_dtype(name, dtype) or input.dtype
        if kind == "strided":
            made = FUNCTIONS[name](tuple(input.shape), dtype=chosen, memory_format=memory_format)
            return finished(name, made, requires_grad)
        if memory_format is not None:
            raise RuntimeError("memory format option is only supported by strided tensors")
        if name == "empty" and not isinstance(input, SparseTensor):
            raise SparseOperand("empty_strided", "SparseCPU" if kind == "sparse_coo" else "SparseCsrCPU")
        d = input._pattern.sparse_dim if isinstance(input, SparseTensor) else None
        if name == "empty" and isinstance(input, SparseTensor) and kind == input._pattern.kind != "sparse_coo":
            values = zeros(tuple(input._stored.shape), dtype=chosen)
            return finished(name, with_values(values, input._pattern), requires_grad)
        return finished(name, empty_sparse(input.shape, kind, chosen, device, d), requires_grad)

    sparse_form(name, method=False)(make)
    sparse_form(f"{name}_like", method=False)(like)


for _name in ("zeros", "empty"):
    _with_layout(_name)


# -- writes ---------------------------------------------------------------------------------------------------------


@sparse_form("copy_", op=True)
@sparse_form("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Tensor:
    """Take over the values and places of another sparse tensor."""
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


@sparse_form("zero_", op=True)
@sparse_form("zero_")
def zero_(self: Any) -> Tensor:
    """Store nothing any more."""
    check_history(self, grad_state.enabled and self._requires_grad)
    if self._pattern.kind != "sparse_coo":
        self._stored.zero_()
        return self
    self.become(empty_sparse(self.shape, "sparse_coo", self.dtype, None, self._pattern.sparse_dim))
    return self


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


@public
def resize_as_sparse_(self: Tensor, other: Any) -> Tensor:
    """Give a sparse tensor the size of another one."""
    if not isinstance(self, SparseTensor) or not isinstance(other, SparseTensor):
        raise SparseOperand("resize_as_sparse_", "CPU")
    if self._pattern.kind != other._pattern.kind:
        raise RuntimeError("resize_as_sparse_: self and other must have same layout")
    d = other._pattern.sparse_dim
    if self.shape == other.shape and self._pattern.sparse_dim == d:
        return self
    if self._pattern.kind != "sparse_coo":
        self.become(to_compressed(empty_sparse(other.shape, "sparse_coo", self.dtype), other._pattern.kind))
        return self
    return sparse_resize_(self, tuple(other.shape), d, other.ndim - d)


def _resize_(self: Any, *each: Any, size: Any = None, memory_format: Any = None) -> Any:
    """Nothing, for the size that the tensor has; else SparseOperand."""
    if self._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if tuple(size_argument("resize_", each, "size", size)) != tuple(self.shape):
        raise SparseOperand("resize_", self._layout.backend)
    return self


def _new(self: Any, *args: Any, device: Any = None) -> Any:
    """The old ``x.new(indices, values, size)``, or of a size alone: a sparse tensor of this dtype."""
    if device is not None and (wanted := str(device).partition(":")[0]) != "cpu":
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {wanted} was passed")
    if len(args) > 1 and isinstance(args[0], Tensor):
        return sparse_coo_tensor(*args, dtype=self.dtype)
    if len(args) == 1 and not isinstance(args[0], (Size, int)):
        raise TypeError(f"new(): argument must be a torch.Size, not {type(args[0]).__name__}")
    size = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    return empty_sparse(tuple(size), "sparse_coo", self.dtype)


SparseTensor.resize_, SparseTensor.new = _resize_, _new  # type: ignore[method-assign]


@sparse_form("resize_as_")
def _resize_as(self: Any, the_template: Any, *, memory_format: Any = None) -> Tensor:
    """``resize_as_sparse_``."""
    return resize_as_sparse_(self, the_template)


# -- others -----------------------------------------------------------------------------------------------------------


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """The matrix with rows of ``diagonals`` as its diagonals: element j of each in column j, as SciPy has it."""
    diagonals = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    offsets = offsets.unsqueeze(0) if offsets.ndim == 0 else offsets
    if diagonals.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
        )
    if offsets.dtype is not int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {offsets.dtype.title}")
    if len(set(offsets.tolist())) < offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Output shape sizes must be non-negative, but got {list(shape)}")
    name = getattr(layout, "name", "sparse_coo")
    if name not in KINDS[:3]:
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {title(diagonals)}"
        )
    m, n = shape
    rows, cols, values = [], [], []
    for k, d in enumerate(offsets.tolist()):
        first, last = max(d, 0), min(m + d, n, diagonals.shape[1])
        col = arange(first, max(last, first))
        rows.append(col - d)
        cols.append(col)
        values.append(diagonals[k].narrow(0, first, max(last - first, 0)) if last > first else diagonals[k, :0])
    if not rows:
        return empty_sparse((m, n), name, diagonals.dtype)
    index = stack((cat(rows), cat(cols)))
    made = sparse_coo_tensor(index, cat(values), (m, n))
    return made if name == "sparse_coo" else to_compressed(made, name)


public(spdiags, module="sparse")
