"""Hooks on tensors: functions that see, and may replace, gradients on their way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..hooks import RemovableHandle, add_hook
from ..tensor import Tensor, method

__all__ = ["register_hook", "register_post_accumulate_grad_hook"]


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever this tensor's gradient has been computed.

    A tensor that it returns takes the gradient's place. Returns a handle with ``remove()``.
    RuntimeError if the tensor requires no grad.
    """
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._edge is None:
        if self._leaf_hooks is None:
            self._leaf_hooks = OrderedDict()
        return add_hook(self._leaf_hooks, hook)
    node, number = self._edge
    if node.tensor_hooks is None:
        node.tensor_hooks = {}
    node.special = True
    return add_hook(node.tensor_hooks.setdefault(number, OrderedDict()), hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call ``hook(tensor)`` after a gradient has been added to this leaf's ``.grad``.

    RuntimeError for tensors that are no leaves or require no grad.
    """
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._edge is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(self.__dict__.setdefault("_post_accumulate_hooks", OrderedDict()), hook)
