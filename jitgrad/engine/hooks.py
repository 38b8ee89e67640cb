"""Hooks on tensors and nodes: a user's functions that see gradients during backward, and may replace them.

The hooks of a non-leaf are kept by its node and output number: a hook registered before an inplace op so stays with
the value before it. First in this file is how users register hooks, then how the engine calls them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.handles import RemovableHandle, add_hook
from jitgrad.core.node import Node, edge_pair, leaf_hooks, node_of, number_of
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
    """``tensor._backward_hooks``: {number of a handle: hook}; None without any."""
    if self._edge is not None:
        return (node_of(self._edge).tensor_hooks or {}).get(number_of(self._edge))
    return self._leaf_hooks.before if self._leaf_hooks is not None else None


def _replace(self: Tensor, hooks: Any) -> None:
    """Set ``tensor._backward_hooks``. On a tensor that requires no grad they are kept until it does."""
    if not self._requires_grad:
        leaf_hooks(self).before = OrderedDict() if hooks is None else hooks
        return
    for number in list(_registered(self) or ()):
        _registered(self).pop(number)
    for hook in (hooks or {}).values():
        register_hook(self, hook)


def _refuse(self: Tensor) -> None:
    raise RuntimeError("Deletion of _backwards_hooks not allowed!")


Tensor._backward_hooks = property(_registered, _replace, _refuse)  # type: ignore[method-assign, assignment]


# -- called by the engine: over a copy, since a hook may remove itself or others -----------------------


def call_tensor_hooks(hooks: Hooks, grad: Tensor | None) -> Tensor | None:
    """The gradient after the hooks of one tensor; None, where no gradient has arrived, is passed to them too."""
    for hook in list(hooks.values()):
        result = hook(grad)
        if result is not None:
            grad = _checked(hook, result, grad)
    return grad


def call_node_hooks(hooks: Hooks, grads: Gradients, *others: Any) -> Gradients:
    """The gradients of a node's inputs (post hooks) or outputs (pre hooks) after its hooks.

    ``others``: the further arguments of the hooks; post hooks also get the gradients of the outputs.
    """
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


def call_post_hooks(node: Node, hooks: Any, results: Gradients, grads: Gradients) -> Gradients:
    """The gradients of a node's edges after its post hooks.

    Hooks see a gradient per entry of ``next_functions``, as in PyTorch. There Python numbers count as inputs, too,
    which have no edge here; their gradients are None.
    """
    places: list[int] = []
    count = 0
    for pair in node.next_functions:
        is_edge = count < len(node.edges) and pair == edge_pair(node.edges[count])
        places.append(count if is_edge else -1)
        count += is_edge
    seen = [results[k] if k >= 0 else None for k in places]
    found = call_node_hooks(hooks, seen, grads)
    by_edge = {k: g for k, g in zip(places, found, strict=True) if k >= 0}
    return [by_edge.get(k) for k in range(len(node.edges))]


def call_after_hooks(hooks: Hooks, leaf: Tensor) -> None:
    """Call the hooks that wait until a gradient has been added to ``leaf.grad``."""
    for hook in list(hooks.values()):
        result = hook(leaf)
        if isinstance(result, Tensor):
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        if result is not None:
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


def _checked(hook: Any, result: Any, grad: Tensor | None) -> Tensor:
    """What a hook returned, which must be a tensor with the dtype, device and shape of ``grad``."""
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
    title = scalar_type(tensor.dtype)
    place = "" if tensor._layout.device == "cpu" else f"{tensor.device.type}."
    return f"CPU{title}Type" if tensor.dtype.is_complex else f"torch.{place}{title}Tensor"
