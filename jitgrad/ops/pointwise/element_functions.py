"""Python's functions applied to every element in turn: slow, and kept for what tensors have no op for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import method
from jitgrad.ops.creation.from_data import tensor

__all__: list[str] = []


def _overwritten(name: str, self: Tensor, others: tuple[Any, ...], function: Callable[..., Any]) -> Tensor:
    """``self`` with each element set to the function of it and of those of ``others`` in the same place."""
    if not callable(function):
        raise TypeError(f"'{type(function).__name__}' object is not callable")
    if any(isinstance(x, Tensor) and x.requires_grad for x in (self, *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    for title, other in zip(("'other'",) if len(others) == 1 else ("argument 'x'", "argument 'y'"), others):
        if not isinstance(other, Tensor):
            raise TypeError(f"{name}(): {title} must be Tensor, not {type(other).__name__}")
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for {title} (got {other.type()})")
    with no_grad():
        columns = [x.expand(self.shape).reshape(-1).tolist() for x in (self, *others)]
        values = [function(*at) for at in zip(*columns, strict=True)]
        return self.copy_(tensor(values, dtype=self.dtype).view(self.shape))


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Set each element to ``callable(element)``. For tensors on the CPU that do not require grad."""
    return _overwritten("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Set each element to ``callable(element, other)``, with that of ``tensor``, which broadcasts and has the dtype."""
    return _overwritten("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Set each element to ``callable(element, of_x, of_y)``; ``x`` and ``y`` broadcast and have the dtype."""
    return _overwritten("map2_", self, (x, y), callable)


for _function in (apply_, map_, map2_):
    method(_function)
