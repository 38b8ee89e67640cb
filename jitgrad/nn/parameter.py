"""Parameters and buffers: tensors that modules know to be theirs."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.override_off import DISABLED
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.overriding import is_overriding
from jitgrad.ops.shape.subclasses import as_kind

__all__ = ["Buffer", "Parameter"]


def _own_kind(data: Any, kind: str) -> Any:
    """A leaf on the memory of a tensor that overrides ops: of its class still, and known as a parameter or buffer."""
    result = data.detach()
    if type(result) is not type(data):
        raise RuntimeError(
            f"Creating a {kind} from an instance of type {type(data).__name__} requires that detach() returns an "
            f"instance of the same type, but return type {type(result).__name__} was found instead. To use the type "
            f"as a {kind}, please correct the detach() semantics defined by its __torch_dispatch__() implementation."
        )
    setattr(result, _MARKS[kind], True)
    return result


def _sharing(kind: type[Tensor], data: Tensor | None) -> Any:
    """A leaf of class ``kind`` on the memory of ``data``, an empty tensor by default."""
    # Tensors have no slots, so one of the base class can become one of a subclass.
    return as_kind((jitgrad.empty(0) if data is None else data).detach(), kind)


class _Known(type):
    """The class of Parameter and Buffer: tensors of classes that override ops count as one, too, if they are marked."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        own = cls.__module__ == __name__ and cls.__name__ in _MARKS
        return own and isinstance(instance, Tensor) and getattr(instance, _MARKS[cls.__name__], False)


_MARKS = {"Parameter": "_is_param", "Buffer": "_is_buffer"}


class Parameter(Tensor, metaclass=_Known):
    """A tensor that becomes a parameter of the module it is assigned to.

    It shares the memory of ``data`` and requires grad unless told otherwise, also under ``no_grad``.
    """

    __torch_function__ = DISABLED

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        self = _own_kind(data, "Parameter") if is_overriding(data) else _sharing(cls, data)
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


class Buffer(Tensor, metaclass=_Known):
    """A tensor that becomes a buffer of the module it is assigned to: state without gradient.

    ``persistent`` says whether it is part of the module's ``state_dict``.
    """

    __torch_function__ = DISABLED
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        self = _own_kind(data, "Buffer") if is_overriding(data) else _sharing(cls, data)
        self._requires_grad = data is not None and data.requires_grad
        self.persistent = persistent
        return self

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True):
        """Nothing is left to do: ``__new__`` makes every tensor."""
