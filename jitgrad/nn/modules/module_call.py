"""Calling a module: ``forward``, with the hooks that users registered around it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.core.any_signature import any_signature
from jitgrad.core.handles import RemovableHandle, add_hook
from jitgrad.nn.modules.backward_hooks import BackwardWatch, watch_one_node
from jitgrad.nn.modules.global_hooks import Hook, backward_hooks, call_hooks, of_all
from jitgrad.nn.modules.module_attributes import ModuleAttributes

__all__ = ["ModuleCall"]

_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
)


class ModuleCall(ModuleAttributes):
    """The part of Module that runs ``forward`` and calls hooks.

    The order is PyTorch's: pre-hooks, forward, hooks, those of all modules before the module's own. With backward hooks
    the inputs pass one node before ``forward`` and the outputs another one after it.
    """

    _is_full_backward_hook: bool | None = None  # which kind of backward hooks this module has, once there are any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and the hooks."""
        if (
            call_hooks or self._forward_hooks or self._forward_pre_hooks or self._backward_hooks
            or self._backward_pre_hooks
        ):  # fmt: skip
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    _call_impl = _wrapped_call_impl = __call__  # PyTorch's names, which programs that replace the call look for

    @any_signature
    def forward(self, *input: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run ``forward`` and all hooks; where one of them raises, also the hooks with ``always_call`` still due."""
        hooks = [*of_all("forward"), *self._own_forward_hooks()]
        pending = [hook for hook in hooks if hook.always]
        result = None
        try:
            for hook in (*of_all("forward_pre"), *self._own_pre_hooks()):
                args, kwargs = self._before(hook, args, kwargs)
            watch, legacy = self._watched()
            args = watch.inputs(args) if watch else args
            result = self.forward(*args, **kwargs)
            for hook in hooks:
                pending = [h for h in pending if h is not hook]
                result = self._after(hook, args, kwargs, result)
            result = watch.outputs(result) if watch else result
            if legacy:
                watch_one_node(self, legacy, args, result)
            return result
        except Exception:
            for hook in pending:  # the first error is the one that users see: later ones become warnings
                try:
                    result = self._after(hook, args, kwargs, result)
                except Exception as error:
                    whose = "global " if hook.kind else ""
                    warnings.warn(
                        f"{whose}module forward hook with ``always_call=True`` raised an exception that was silenced "
                        f"as another error was raised in forward: {error}",
                        stacklevel=3,
                    )
            raise

    def _own_pre_hooks(self) -> list[Hook]:
        marks = self._forward_pre_hooks_with_kwargs
        return [Hook(call, key in marks) for key, call in self._forward_pre_hooks.items()]

    def _own_forward_hooks(self) -> list[Hook]:
        kwargs, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        return [Hook(call, key in kwargs, key in always) for key, call in self._forward_hooks.items()]

    def _watched(self) -> tuple[BackwardWatch | None, list[Callable[..., Any]]]:
        """(what calls the full backward hooks, None without any; the hooks of the older kind)."""
        own = list(self._backward_hooks.values())
        full, legacy = backward_hooks()
        if self._is_full_backward_hook is False:
            legacy = [*legacy, *own]
        else:
            full = [*full, *own]
        pre = [*(hook.call for hook in of_all("full_backward_pre")), *self._backward_pre_hooks.values()]
        return (BackwardWatch(self, full, pre) if full or pre else None), legacy

    def _before(self, hook: Hook, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any]:
        if not hook.with_kwargs:
            changed = hook.call(self, args)
            return args if changed is None else changed if isinstance(changed, tuple) else (changed,), kwargs
        changed = hook.call(self, args, kwargs)
        if changed is None:
            return args, kwargs
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
            )
        return changed

    def _after(self, hook: Hook, args: tuple[Any, ...], kwargs: Any, result: Any) -> Any:
        changed = hook.call(self, args, kwargs, result) if hook.with_kwargs else hook.call(self, args, result)
        return result if changed is None else changed

    # -- registering --------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; it may return other arguments.

        ``with_kwargs``: ``hook(module, args, kwargs)``, which may return (args, kwargs).
        """
        marks = [(self._forward_pre_hooks_with_kwargs, with_kwargs)]
        return add_hook(self._forward_pre_hooks, hook, prepend, marks)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``; it may return another output.

        ``with_kwargs``: ``hook(module, args, kwargs, output)``. ``always_call``: also when forward raised.
        """
        marks = [
            (self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call),
        ]  # fmt: skip
        return add_hook(self._forward_hooks, hook, prepend, marks)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before gradients go back through the module."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when both are known; it may return another
        grad_input. Both are tuples with None for what is no tensor. RuntimeError beside hooks of the older kind."""
        self._choose_backward(full=True)
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older ``register_full_backward_hook``: sees only the last node that the module's forward made."""
        self._choose_backward(full=False)
        return add_hook(self._backward_hooks, hook)

    def _choose_backward(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = full
