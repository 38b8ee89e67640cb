"""Subclasses of Tensor: how they are made, and the default ``__torch_function__``, which keeps results of the class."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.overriding import activate, is_overriding
from jitgrad.dispatch.registry import method
from jitgrad.ops.shape.view import Alias

__all__ = ["as_kind"]


def as_kind(x: Any, kind: type[Tensor]) -> Any:
    """Make a new tensor, which nobody else has, one of class ``kind``."""
    x.__class__ = kind
    if is_overriding(x):
        activate()
    return x


def _converted(result: Any, kind: type[Tensor]) -> Any:
    """Tensors of a result, also those in tuples and lists, as ``kind``."""
    if isinstance(result, Tensor) and not isinstance(result, kind):
        return as_kind(Alias.apply(result), kind)
    if isinstance(result, (tuple, list)):
        items = [_converted(x, kind) for x in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def _is_of_pytorch(func: Any) -> bool:
    """Whether a function, method or attribute is that of PyTorch itself, which can't work on tensors of jitgrad's."""
    of = getattr(func, "__self__", func)  # the attribute, of its ``__get__``
    home = getattr(of, "__objclass__", func)  # the class, of its methods in C
    return (getattr(home, "__module__", None) or "").partition(".")[0] == "torch"


@classmethod  # type: ignore[misc]
def __torch_function__(
    cls: type[Tensor], func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """Call ``func`` as on plain tensors and give its results this class; NotImplemented where a type is no base of it.

    A subclass that overrides it calls it by ``super()``. PyTorch's own functions, given a tensor of ours, ask it, too.
    """
    if _is_of_pytorch(func) or not all(issubclass(cls, t) for t in types):
        return NotImplemented
    before, state.overrides = state.overrides, max(state.overrides, 1)
    try:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "__get__" and func.__self__ is vars(Tensor)["grad"]:
            return result  # the object itself, so that it can be written to
        state.overrides = 2
        return _converted(result, cls)
    finally:
        state.overrides = before


@method
def as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """A view of the tensor as an instance of ``cls``, a subclass of Tensor whose ``__init__`` is not run.

    TypeError if ``cls`` is no class, or no subclass of Tensor.
    """
    _check_class("as_subclass", cls)
    return as_kind(Alias.apply(self), cls)


def _check_class(name: str, cls: Any) -> None:
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not issubclass(cls, Tensor):
        raise RuntimeError(
            f"Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. {name}() got "
            f"{cls.__name__}. Make sure your class inherits from Tensor."
        )


@staticmethod  # type: ignore[misc]
def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False, **options: Any) -> Any:
    """A leaf of class ``cls`` on the memory of ``data``."""
    _check_class("_make_subclass", cls)
    before, state.overrides = state.overrides, max(state.overrides, 1)
    try:
        result = as_kind(data.detach(), cls)
        Tensor.requires_grad.__set__(result, bool(require_grad))  # type: ignore[attr-defined]
    finally:
        state.overrides = before
    return result


@staticmethod  # type: ignore[misc]
def _make_wrapper_subclass(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        "Tensor._make_wrapper_subclass: tensors without memory, whose __torch_dispatch__ sees the ops below autograd, "
        "are not in jitgrad; a subclass that overrides __torch_function__ is made by Tensor._make_subclass"
    )


for _method in ("__torch_function__", "_make_subclass", "_make_wrapper_subclass"):
    setattr(Tensor, _method, globals()[_method])
