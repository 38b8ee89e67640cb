"""Hooks on tensors and nodes: functions that see, and may replace, gradients on their way.

A tensor's hooks belong to the node that made it, so that what is registered before a write in place
stays with the value before it. Below, how users register hooks; then how the engine calls them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.core.dtypes import TITLES
from jitgrad.core.handles import RemovableHandle, add_hook
from jitgrad.core.node import leaf_hooks, node_of, number_of
from jitgrad.core.tensor import Tensor, method

__all__ = ["call_node_hooks", "call_tensor_hooks", "register_hook", "register_post_accumulate_grad_hook"]

Hooks = Mapping[int, Callable[..., Any]]
Gradients = Sequence[Tensor | None]


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever this tensor's gradient has been computed.

    A tensor that it returns takes the gradient's place. Returns a handle with ``remove()``.
    RuntimeError if the tensor requires no grad.
    """
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._edge is None:
        return add_hook(leaf_hooks(self).before, hook)
    node, number = node_of(self._edge), number_of(self._edge)
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
    return add_hook(leaf_hooks(self).after, hook)


def _registered(self: Tensor) -> Any:
    """The hooks of ``register_hook`` by the numbers of their handles; None without any."""
    if self._edge is not None:
        return (node_of(self._edge).tensor_hooks or {}).get(number_of(self._edge))
    return self._leaf_hooks.before if self._leaf_hooks is not None else None


def _replace(self: Tensor, hooks: Any) -> None:
    """Have these hooks instead; on a tensor that requires no grad they wait until it does."""
    if not self._requires_grad:
        leaf_hooks(self).before = OrderedDict() if hooks is None else hooks
        return
    for number in list(_registered(self) or ()):
        _registered(self).pop(number)
    for hook in (hooks or {}).values():
        register_hook(self, hook)


def _refuse(self: Tensor) -> None:
    raise RuntimeError("Deletion of _backwards_hooks not allowed!")


Tensor._backward_hooks = property(_registered, _replace, _refuse)  # type: ignore[attr-defined]


# -- called by the engine: over a copy, since a hook may remove itself or others -----------------------


def call_tensor_hooks(hooks: Hooks, grad: Tensor | None) -> Tensor | None:
    """The gradient as the hooks of one tensor leave it; None (no gradient) is shown to them too."""
    for hook in list(hooks.values()):
        result = hook(grad)
        if result is not None:
            grad = _checked(hook, result, grad)
    return grad


def call_node_hooks(hooks: Hooks, grads: Gradients, *others: Any) -> Gradients:
    """The gradients of all inputs (or outputs) of a node as its hooks leave them."""
    for hook in list(hooks.values()):
        results = hook(tuple(grads), *others)
        if results is None:
            continue
        if not isinstance(results, tuple):
            raise TypeError(f"expected tuple, but hook returned '{type(results).__name__}'")
        if len(results) != len(grads):
            raise RuntimeError(
                f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(results)}, but expected "
                f"{len(grads)})"
            )
        grads = [None if r is None else _checked(hook, r, g) for r, g in zip(results, grads, strict=True)]
    return grads


def call_after_hooks(hooks: Hooks, leaf: Tensor) -> None:
    """Tell that a gradient has been added to ``leaf.grad``."""
    for hook in list(hooks.values()):
        result = hook(leaf)
        if isinstance(result, Tensor):
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        if result is not None:
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


def _checked(hook: Any, result: Any, grad: Tensor | None) -> Tensor:
    """What a hook returned in place of ``grad``, which it must resemble."""
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if grad is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    new, old = result._layout, grad._layout
    if new.dtype is not old.dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {_type(grad)} got {_type(result)})"
        )
    if new.device != old.device:
        raise RuntimeError(f"hook '{_name(hook)}' has moved value to a different device")
    if new.shape != old.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return result


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


def _type(tensor: Tensor) -> str:
    """A tensor's type as hooks' errors print it: complex ones have no name in PyTorch's old style."""
    title = TITLES[tensor.dtype.name]
    place = "" if tensor._layout.device == "cpu" else f"{tensor.device.type}."
    return f"CPU{title}Type" if tensor.dtype.is_complex else f"torch.{place}{title}Tensor"
