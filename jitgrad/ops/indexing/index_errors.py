"""What is said of an index, source or value that does not fit: index_select, index_add, index_copy and the fills.

PyTorch has words and types of its own for each op.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level

__all__ = ["check_index", "check_no_dims", "check_source", "not_selectable", "out_of_range", "warn_of_bytes"]


_ADDING = ("index_add", "index_reduce")  # which share their checks, and other words than those of index_copy


def check_index(op: str, index: Layout) -> None:
    """An index must be an int vector; index_copy and index_fill take int64 only."""
    title, wide = scalar_type(index.dtype), index.dtype.name == "int64"
    whole = wide or index.dtype.name == "int32"
    if op == "index_select" and not whole:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if op in _ADDING and not whole:
        raise RuntimeError(f"{op}_(): Expected dtype int32/int64 for index but got: {title}")
    if op == "index_copy" and not wide:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {title}")
    if op == "index_fill" and not wide:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        _refuse_rank(op, index, title)


def _refuse_rank(op: str, index: Layout, title: str) -> NoReturn:
    if op == "index_select":
        raise IndexError("index_select(): Index is supposed to be a vector")
    if op in _ADDING:
        raise IndexError(
            f"{op}_(): Index is supposed to be a vector, but got dim: {index.ndim} with type: {title} and size: "
            f"{list(index.shape)}"
        )
    if op == "index_copy":
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    raise RuntimeError("Index has to be a vector/scalar")


def not_selectable(value: int, x: Layout, dim: int) -> Exception:
    """The error of index_select from ``x`` for a place that is not there."""
    if x.ndim < 2 or (x.numel and dim != 1):
        return IndexError("index out of range in self")
    if not x.shape[dim]:
        return RuntimeError("index_select(): self indexing axis dim should be positive")
    return RuntimeError(f"INDICES element is out of DATA bounds, id={value} axis_dim={x.shape[dim]}")


def out_of_range(op: str, value: int, x: Layout, dim: int) -> Exception:
    """The error of a write into ``x`` for a place that is not there."""
    if op == "index_reduce" or (op == "index_add" and x.ndim < 2):
        return IndexError("index out of range in self")
    n = x.shape[dim] if x.ndim else 1
    kind: Any = RuntimeError if op == "index_add" else IndexError
    prefix = "index_copy_(): " if op == "index_copy" else ""
    return kind(f"{prefix}index {value} is out of bounds for dimension {dim} with size {n}")


def check_source(op: str, x: Layout, dim: int, index: Layout, source: Layout) -> None:
    """A source must have the dtype of ``x``, and its shape except along ``dim``, where it is as long as the index."""
    if op == "index_copy":
        _check_copied(x, dim, index, source)
        return
    if x.dtype is not source.dtype:
        raise RuntimeError(
            f"{op}_(): self ({scalar_type(x.dtype)}) and source ({scalar_type(source.dtype)}) must have the same "
            "scalar type"
        )
    mine, theirs = x.shape, source.shape
    if dim and dim >= len(theirs):
        raise RuntimeError(
            f"{op}_(): Indexing dim {dim} is out of bounds of the source tensor with dim {len(theirs)}"
        )
    if not theirs and index.numel != 1:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if theirs and theirs[dim] != index.numel:
        raise RuntimeError(
            f"{op}_(): Number of indices ({index.numel}) should be equal to source.size(dim): ({theirs[dim]}), "
            f"for dim: {dim}"
        )
    cut = (mine[:dim] + mine[dim + 1 :], theirs[:dim] + theirs[dim + 1 :]) if mine and theirs else (mine, theirs)
    if cut[0] != cut[1]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(mine)} source.shape = {list(theirs)}"
        )


def _check_copied(x: Layout, dim: int, index: Layout, source: Layout) -> None:
    mine, theirs = x.shape, source.shape
    if not theirs and index.numel != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got {index.numel})"
        )
    if mine and theirs and len(mine) != len(theirs):
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({len(theirs)}), destination dimensionality ({len(mine)})"
        )
    if x.dtype is not source.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) {scalar_type(x.dtype)} "
            f"and (source) {scalar_type(source.dtype)}"
        )
    cut, given = (" ".join(map(str, (*s[:dim], *s[dim + 1 :]))) for s in (mine, theirs))
    if cut != given:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{cut} at dimension {dim} and source slice shape: {given} at dimension 0."
        )
    if theirs and theirs[dim] != index.numel:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel}) should be equal to source.size(dim) ({theirs[dim]})"
        )


def check_no_dims(op: str, value: Tensor) -> None:
    """A tensor to fill with must be one number."""
    if value._layout.ndim:
        raise RuntimeError(
            f"{op} only supports a 0-dimensional value tensor, but got tensor with {value._layout.ndim} dimension(s)."
        )


def warn_of_bytes(index: Tensor) -> None:
    """PyTorch's warning for masks that are bytes."""
    if index._layout.dtype.name == "uint8":
        warnings.warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                      UserWarning, stacklevel=user_level())  # fmt: skip
