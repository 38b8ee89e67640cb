"""Parameters and buffers: tensors that modules know to be theirs."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.ops.creation.pickle_dlpack import saving, user_state
from jitgrad.ops.creation.rebuild import pickled_as, set_user_state, warn_of_hooks

__all__ = ["Buffer", "Parameter"]


def _sharing(kind: type[Tensor], data: Tensor | None) -> Any:
    """A leaf of class ``kind`` on the memory of ``data``, an empty tensor by default."""
    result = (jitgrad.empty(0) if data is None else data).detach()
    result.__class__ = kind  # tensors have no slots, so one of the base class can become one of a subclass
    return result


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

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not saving.active:
            return super().__reduce_ex__(protocol)
        warn_of_hooks(self)
        hooks: OrderedDict[Any, Any] = OrderedDict()  # they are not kept
        args, state = (self.data, self.requires_grad, hooks), user_state(self)
        return (_rebuild_parameter_with_state, (*args, state)) if state else (_rebuild_parameter, args)

    def __repr__(self, **options: Any) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


@pickled_as("torch._utils")
def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """The parameter of a file."""
    return Parameter(data, requires_grad)


@pickled_as("torch._utils")
def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Parameter:
    """The same with the attributes that a program had set."""
    made = Parameter(data, requires_grad)
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    set_user_state(made, attributes, slots)
    return made


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
