"""Hooks of all modules: called for each, before the module's own.

They are few and rare, so all of a kind's users share one dictionary, which costs a module's call one
look while it is empty.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from jitgrad.core.handles import RemovableHandle, add_hook

__all__ = [
    "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip


class Hook(NamedTuple):
    """A user's hook and how it wants to be called; of those of all modules also when."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False
    kind: str = ""


call_hooks: OrderedDict[int, Hook] = OrderedDict()
# By handle number, as every module has them: which forward hooks want keyword arguments, or to be called always.
forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_full_backward: list[bool] = []  # which kind of backward hooks was chosen, once one was


def of_all(kind: str) -> list[Hook]:
    """The hooks of one kind, in the order of their registration."""
    return [
        Hook(hook.call, key in forward_hooks_with_kwargs, key in forward_hooks_always_called, kind)
        for key, hook in call_hooks.items()
        if hook.kind == kind
    ]  # fmt: skip


def backward_hooks() -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """The backward hooks: full ones, and those of the older kind."""
    return [hook.call for hook in of_all("full_backward")], [hook.call for hook in of_all("backward")]


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What takes the place of a parameter, buffer or module that is being registered."""
    for hook in tuple(registration_hooks.values()):
        if hook.kind == kind:
            changed = hook.call(module, name, value)
            value = value if changed is None else changed
    return value


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module; it may return other arguments."""
    return add_hook(call_hooks, Hook(hook, kind="forward_pre"))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module; it may return another output.

    ``with_kwargs``: ``hook(module, args, kwargs, output)``. ``always_call``: also when forward raised.
    """
    marks = [(forward_hooks_with_kwargs, with_kwargs), (forward_hooks_always_called, always_call)]
    return add_hook(call_hooks, Hook(hook, kind="forward"), marks=marks)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before gradients go back through a module."""
    return add_hook(call_hooks, Hook(hook, kind="full_backward_pre"))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` for every module; it may return another grad_input.

    RuntimeError once a hook of the older kind was registered for all modules.
    """
    _choose_backward(full=True)
    return add_hook(call_hooks, Hook(hook, kind="full_backward"))


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older ``register_module_full_backward_hook``: sees only the last node that a module's forward made."""
    _choose_backward(full=False)
    return add_hook(call_hooks, Hook(hook, kind="backward"))


def _choose_backward(full: bool) -> None:
    if _full_backward and _full_backward[0] is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _full_backward[:] = [full]


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when any module gets a parameter; it may return another."""
    return add_hook(registration_hooks, Hook(hook, kind="parameter"))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when any module gets a buffer; it may return another."""
    return add_hook(registration_hooks, Hook(hook, kind="buffer"))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when any module gets a child; it may return another."""
    return add_hook(registration_hooks, Hook(hook, kind="module"))
