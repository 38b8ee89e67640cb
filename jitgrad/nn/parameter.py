"""Parameters and buffers: tensors that modules know to be theirs."""

from __future__ import annotations

import functools
from typing import Any

import jitgrad
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


def _sharing(kind: type[Tensor], data: Tensor | None) -> Any:
    """A leaf of class ``kind`` on the memory of ``data``, an empty tensor by default."""
    result = (jitgrad.empty(0) if data is None else data).detach()
    if isinstance(result, SparseTensor):
        kind = _sparse_kind(kind)  # type: ignore[arg-type]
    result.__class__ = kind  # tensors have no slots, so one of the base class can become one of a subclass
    return result


@functools.cache
def _sparse_kind(kind: Any) -> Any:
    return type(kind.__name__, (kind, SparseTensor), {"__module__": kind.__module__, "__doc__": kind.__doc__})


class Parameter(Tensor):
    """A tensor that becomes a parameter of the module it is assigned to.

    It shares the memory of ``data`` and requires grad unless told otherwise, also under ``no_grad``.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        self = _sharing(cls, data)
        if requires_grad and not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        self.requires_grad = requires_grad
        return self

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        """Nothing is left to do: ``__new__`` makes every tensor."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, **options: Any) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module it is assigned to: state without gradient.

    ``persistent`` says whether it is part of the module's ``state_dict``.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        self = _sharing(cls, data)
        self._requires_grad = data is not None and data.requires_grad
        self.persistent = persistent
        return self

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True):
        """Nothing is left to do: ``__new__`` makes every tensor."""
