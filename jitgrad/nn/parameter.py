"""Parameters and buffers: tensors that modules know to be theirs, and those whose shape is still unknown."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

import jitgrad
from jitgrad.core.override_off import DISABLED
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor, reserve_attributes, wrap
from jitgrad.ops.memory.pickled import saving, user_state
from jitgrad.ops.memory.rebuild import pickled_as, set_user_state, warn_of_hooks
from jitgrad.ops.shape.subclasses import as_kind

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip


def _sharing(kind: type[Tensor], data: Tensor | None) -> Any:
    """A leaf of class ``kind`` on the memory of ``data``, an empty tensor by default."""
    result = (jitgrad.empty(0) if data is None else data).detach()
    # Tensors have no slots, so one of the base class can become one of a subclass.
    made: Any = kind
    return as_kind(result, _sparse_kind(made) if isinstance(result, SparseTensor) else kind)


@functools.cache
def _sparse_kind(kind: Any) -> Any:
    return type(kind.__name__, (kind, SparseTensor), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _own_kind(data: Any, kind: Any) -> Any:
    """A leaf on the memory of a tensor of a user's class: of its class still, and marked as a parameter or buffer."""
    result = data.detach()
    if type(result) is not type(data):
        raise RuntimeError(
            f"Creating a {kind.__name__} from an instance of type {type(data).__name__} requires that detach() returns "
            f"an instance of the same type, but return type {type(result).__name__} was found instead. To use the type "
            f"as a {kind.__name__}, please correct the detach() semantics defined by its __torch_dispatch__() "
            "implementation."
        )
    setattr(result, kind._mark, True)
    return result


class _Marked(type(Tensor)):  # type: ignore[misc]
    """A class of tensors that also counts those of other classes as its own which bear its ``_mark``.

    So a user's subclass of Tensor stays what it is when it becomes a parameter.
    """

    _mark: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if "_mark" in vars(cls) and isinstance(instance, Tensor) and getattr(instance, cls._mark, False):
            return True
        return super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_Marked):
    """A tensor that becomes a parameter of the module it is assigned to.

    It shares the memory of ``data`` and requires grad unless told otherwise, also under ``no_grad``. A tensor of a
    class of the user's stays one, and counts as a parameter besides.
    """

    _mark, __torch_function__ = "_is_param", DISABLED

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        own = data is None or type(data) in (Tensor, Parameter) or isinstance(data, SparseTensor)
        self = _sharing(cls, data) if own else _own_kind(data, Parameter)
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


reserve_attributes(Parameter)


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


class Buffer(Tensor, metaclass=_Marked):
    """A tensor that becomes a buffer of the module it is assigned to: state without gradient.

    ``persistent`` says whether it is part of the module's ``state_dict``. What is made is of the class of ``data``,
    a plain tensor for a Parameter, and counts as a Buffer.
    """

    _mark, __torch_function__ = "_is_buffer", DISABLED
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        own = data is None or type(data) in (Tensor, Parameter)
        self = _sharing(Tensor, data) if own else _own_kind(data, Buffer)
        self._requires_grad = data is not None and data.requires_grad
        self.persistent, self._is_buffer = persistent, True
        return self

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True):
        """Nothing is left to do: ``__new__`` makes every tensor."""


# -- of unknown shape ---------------------------------------------------------------------------------------------


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: it has a dtype and a device, and ``materialize`` gives it a shape.

    Everything else is refused: ValueError where an op is asked for its layout, RuntimeError where it is asked for its
    shape or to share memory.
    """

    cls_to_become: type[Tensor]

    @property
    def _layout(self) -> Any:
        """Ops ask for it."""
        raise ValueError(
            f"Attempted to use an uninitialized parameter of type {type(self).__name__}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{type(self).__name__}` objects. When using LazyModules Call `forward` with a dummy "
            "batch to initialize the parameters before calling torch functions"
        )

    @property
    def data(self) -> Tensor:
        """An empty tensor of the dtype and on the device."""
        return wrap(vars(self)["_data"], vars(self)["_layout"])

    @data.setter
    def data(self, value: Tensor) -> None:
        vars(self).update(_data=value._data, _layout=value._layout)

    @property
    def shape(self) -> Any:
        """There is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    dtype = property(lambda self: self.data.dtype)
    device = property(lambda self: self.data.device)
    is_cuda = property(lambda self: self.data.is_cuda)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, whose values are not set."""
        device, dtype = self.device if device is None else device, self.dtype if dtype is None else dtype
        self.__class__ = self.cls_to_become  # type: ignore[assignment]  # first: ops refuse what it was
        self.data = jitgrad.empty(shape, device=device, dtype=dtype)

    def share_memory_(self) -> Any:
        """There is no memory yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Take over nothing from what has no elements either."""
        self.data.copy_(src.data)
        return self

    def detach(self) -> Any:
        """The tensor itself, which no graph holds."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Say whether what it becomes is to require grad."""
        vars(self)["_requires_grad"] = requires_grad
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made: Any = type(self)
            memo[id(self)] = made(vars(self).get("_requires_grad", False), self.device, self.dtype)
        return memo[id(self)]

    def __repr__(self, **options: Any) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (vars(self).get("_requires_grad", False),)


def _on_data(name: str) -> Any:
    """A method that answers for the empty tensor."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.data, name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "size", "is_complex", "is_floating_point", "bfloat16", "half", "float", "double", "char", "short", "int", "long",
    "cuda", "cpu", "to", "type", "get_device",
):  # fmt: skip
    setattr(UninitializedTensorMixin, _name, _on_data(_name))


def is_lazy(param: Any) -> bool:
    """Whether it is a parameter or buffer of unknown shape."""
    return isinstance(param, UninitializedTensorMixin)


def _unshaped(kind: Any, requires_grad: bool, device: Any, dtype: Any) -> Any:
    self = jitgrad.empty(0, device=device, dtype=dtype).requires_grad_(requires_grad)
    self.__class__ = kind
    return self


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is known later; ``materialize`` makes it an ordinary one."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return _unshaped(cls, requires_grad, device, dtype)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None):
        """Nothing is left to do."""


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is known later; ``materialize`` makes it an ordinary one."""

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:  # fmt: skip
        self = _unshaped(cls, requires_grad, device, dtype)
        self.persistent, self._is_buffer = persistent, True
        return self

    def __init__(self, *args: Any, **kwargs: Any):
        """Nothing is left to do."""
