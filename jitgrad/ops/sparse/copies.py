"""Sparse tensors copied, and cast."""

from __future__ import annotations

from typing import Any

from jitgrad.core.sparse import sparse_tensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.shape.copy import cast, cast_gradient

__all__: list[str] = []


class CloneSparse(Structured, listed=False):
    """A copy of values and indices; the gradient passes unchanged."""

    name, grad_name, linear, half, sparse = "_clone_sparse", "CloneBackward0", ("x",), True, True

    def forward(x):
        pattern = x._pattern
        made = pattern.like(indices=tuple([i.clone() for i in pattern.indices]))
        return sparse_tensor(made, x._stored.detach().clone())

    def grad_x(g):
        return g


class CastSparse(Structured, listed=False):
    """The values as ``dtype``."""

    name, grad_name, linear, half, sparse = "_cast_sparse", "ToCopyBackward0", ("x",), True, True

    def forward(x, dtype):
        return sparse_tensor(x._pattern, cast(x._stored.detach(), dtype))

    def grad_x(g, x_layout):
        return cast_gradient(g, x_layout.dtype)


@sparse_form("clone")
def clone(input: Any, *, memory_format: Any = None) -> Tensor:
    """A copy, of indices too."""
    if memory_format is not None and getattr(memory_format, "name", "") != "preserve_format":
        raise RuntimeError("unsupported memory format option Contiguous")
    return CloneSparse.apply(input)


@sparse_form("clone", "contiguous_copy", op=True)
def _clone(input: Any, memory_format: Any = None) -> Tensor:
    return clone(input)


@sparse_form("to_copy", op=True)
def _to_copy(x: Any, dtype: Any, memory_format: Any = None) -> Tensor:
    if memory_format is not None and getattr(memory_format, "name", "") != "preserve_format":
        raise RuntimeError("unsupported memory format option Contiguous")
    return clone(x) if x.dtype is dtype else CastSparse.apply(x, dtype)


@sparse_form("contiguous")
def _contiguous(input: Any, memory_format: Any = None) -> Tensor:
    """PyTorch has no order of memory for sparse tensors."""
    raise RuntimeError("unsupported memory format option Contiguous")
