"""Calling a module: ``forward``, with the hooks that users put round it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ..autograd.grad_mode import is_grad_enabled
from ..hooks import RemovableHandle, add_hook
from ..ops.part import zeros_of
from ..ops.structured import Structured, view_of
from ..tensor import Tensor
from .registration import Owner

__all__ = ["Caller"]


class _Hook(NamedTuple):
    """A user's hook and how it wants to be called."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False


class Caller(Owner):
    """The part of Module that runs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and the hooks."""
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pending = [hook for hook in self._forward_hooks.values() if hook.always]
        result = None
        try:
            for hook in tuple(self._forward_pre_hooks.values()):
                args, kwargs = self._before(hook, args, kwargs)
            watch = _BackwardWatch(self) if self._backward_hooks or self._backward_pre_hooks else None
            result = self.forward(*(watch.inputs(args) if watch else args), **kwargs)
            for hook in tuple(self._forward_hooks.values()):
                pending = [h for h in pending if h is not hook]
                result = self._after(hook, args, kwargs, result)
            return watch.outputs(result) if watch else result
        except Exception:
            for hook in pending:
                try:
                    self._after(hook, args, kwargs, result)
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}",
                        stacklevel=3,
                    )
            raise

    def _before(self, hook: _Hook, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any]:
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

    def _after(self, hook: _Hook, args: tuple[Any, ...], kwargs: Any, result: Any) -> Any:
        changed = hook.call(self, args, kwargs, result) if hook.with_kwargs else hook.call(self, args, result)
        return result if changed is None else changed

    # -- registering --------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; it may return other arguments.

        ``with_kwargs``: ``hook(module, args, kwargs)``, which may return (args, kwargs).
        """
        return add_hook(self._forward_pre_hooks, _Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``; it may return another output.

        ``with_kwargs``: ``hook(module, args, kwargs, output)``. ``always_call``: also when forward raised.
        """
        return add_hook(self._forward_hooks, _Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before gradients go back through the module."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when both are known; it may return another
        grad_input. Both are tuples with None for what is no tensor."""
        return add_hook(self._backward_hooks, hook, prepend)


class BackwardHookFunction(Structured, listed=False):
    """The same tensors, seen together by backward: gradients of all arrive at one node.

    Where none arrives, zeros go on, as from PyTorch's node of this name. Not listed: it computes
    nothing, and its results share their inputs' memory only until the module has been called.
    """

    name, grad_name, function, method = "backward_hook_function", "BackwardHookFunctionBackward", False, False
    several, fresh = True, False

    def forward(tensors: list) -> tuple[Tensor, ...]:  # type: ignore[misc]
        return tuple(view_of(t, t._data, t._layout) for t in tensors)

    def grad_tensors(g, tensors_layout):
        return [zeros_of(layout) if grad is None else grad for grad, layout in zip(g, tensors_layout, strict=True)]


class _BackwardWatch:
    """The two nodes round a module's ops that call its backward hooks."""

    def __init__(self, module: Caller):
        self.module = module
        self.hooks = tuple(module._backward_hooks.values())
        self.pre_hooks = tuple(module._backward_pre_hooks.values())
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_count = 0
        self.input_places: list[int] | None = None
        self.output_places: list[int] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.input_count = len(args)
        args, self.input_places, node = _through_one_node(args)
        if node is not None:
            node.register_hook(self._inputs_done)
        return args

    def outputs(self, result: Any) -> Any:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=5,
            )
            return result
        results, self.output_places, node = _through_one_node(result if isinstance(result, tuple) else (result,))
        if node is not None:
            self.output_count = len(results)
            node.register_prehook(self._outputs_arrived)
        return results if isinstance(result, tuple) else results[0]

    def _outputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        places = self.output_places or []
        given = _spread(grads, places, self.output_count)
        for hook in self.pre_hooks:
            changed = hook(self.module, given)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(given):
                    raise RuntimeError(
                        "Backward pre hook returned an invalid number of grad_output, "
                        f"got {len(changed)}, but expected {len(given)}"
                    )
                given = changed
        self.grad_outputs = given
        if self.input_places is None:
            self._call_without_inputs()
        return tuple(given[p] for p in places)

    def _call_without_inputs(self) -> None:
        """No input requires grad: the hooks see None for each."""
        grad_outputs, self.grad_outputs = self.grad_outputs, None
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook for more details.",
                stacklevel=5,
            )
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.input_count, grad_outputs)
            if changed is not None and any(c is not None for c in changed):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )

    def _inputs_done(self, results: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        if self.grad_outputs is None:  # the gradient came some other way than through the output
            return None
        places = self.input_places or []
        given = _spread(results, places, self.input_count)
        for hook in self.hooks:
            changed = hook(self.module, given, self.grad_outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(given):
                    raise RuntimeError(
                        "Backward hook returned an invalid number of grad_input, "
                        f"got {len(changed)}, but expected {len(given)}"
                    )
                given = changed
        self.grad_outputs = None
        return tuple(given[p] for p in places)


def _through_one_node(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int] | None, Any]:
    """Lead the tensors among ``args`` through one node: (args, their places, the node).

    Places and node are None where nothing is recorded.
    """
    places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
    if not (is_grad_enabled() and any(args[k].requires_grad for k in places)):
        return args, None, None
    linked = BackwardHookFunction.apply([args[k] for k in places])
    replaced = {k: new for k, new in zip(places, linked, strict=True) if args[k].requires_grad}
    node = next(t.grad_fn for t in linked if t.grad_fn is not None)
    return tuple(replaced.get(k, a) for k, a in enumerate(args)), places, node


def _spread(values: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    full = [None] * count
    for place, value in zip(places, values, strict=True):
        full[place] = value
    return tuple(full)
