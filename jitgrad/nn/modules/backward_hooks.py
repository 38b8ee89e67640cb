"""Backward hooks of modules: nodes round a module's ops that call them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.autograd.function import Function
from jitgrad.core.grad_mode import is_grad_enabled
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level

__all__ = ["BackwardWatch", "watch_one_node"]


class BackwardHookFunction(Function):
    """The same tensors, seen together by backward: gradients of all arrive at one node, zeros where none does."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Hand the tensors on."""
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Hand the gradients on."""
        return grads


class BackwardWatch:
    """The two nodes round a module's ops that call its backward hooks."""

    def __init__(self, module: Any, hooks: Sequence[Callable[..., Any]], pre_hooks: Sequence[Callable[..., Any]]):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
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
                stacklevel=user_level(),
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
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no "
            "inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=user_level(),
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
    linked = BackwardHookFunction.apply(*[args[k] for k in places])
    node = next(t.grad_fn for t in linked if t.grad_fn is not None)
    replaced = dict(zip(places, linked, strict=True))
    changed = [replaced.get(k, a) for k, a in enumerate(args)]
    return tuple(changed) if type(args) is tuple else type(args)(*changed), places, node  # or a named tuple


def _spread(values: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    full = [None] * count
    for place, value in zip(places, values, strict=True):
        full[place] = value
    return tuple(full)


# -- the older kind, which sees one node only ---------------------------------------------------------

_OLD = "Using {} is deprecated and will be removed in future versions. This hook will be missing some {}."
_INSTEAD = " Please use register_full_backward_hook to get the documented behavior."
_NOT_OUTPUT = _OLD.format(
    "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors",
    "of the grad_output",
)
_NOT_INPUT = _OLD.format(
    "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors",
    "of the grad_input",
)
_NESTED = _OLD.format(
    "a non-full backward hook when outputs are nested in python data structure", "grad_output"
)
_SEVERAL = _OLD.format(
    "a non-full backward hook when outputs are generated by different autograd Nodes", "grad_output"
)
_MULTIPLE = _OLD.format(
    "a non-full backward hook when the forward contains multiple autograd Nodes", "grad_input"
)


def watch_one_node(module: Any, hooks: Sequence[Callable[..., Any]], args: tuple[Any, ...], result: Any) -> None:
    """Call ``hook(module, grad_input, grad_output)`` when the node that made the result has run.

    A FutureWarning says what such hooks miss of this module's gradients.
    """
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.partial(hook, module))
    warning = _what_is_missing(args, result, node)
    if warning:
        warnings.warn(warning, FutureWarning, stacklevel=5)


def _what_is_missing(args: tuple[Any, ...], result: Any, node: Any) -> str:
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in results):
        return _NOT_OUTPUT + _INSTEAD
    if not all(isinstance(a, Tensor) for a in args):
        return _NOT_INPUT + _INSTEAD
    nodes = {r.grad_fn for r in results if r.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and node not in nodes):
        return _NESTED
    if len(nodes) > 1:
        return _SEVERAL + _INSTEAD
    made_inputs = {a.grad_fn for a in args if a.grad_fn is not None}
    if made_inputs != {below for below, _ in node.next_functions}:
        return _MULTIPLE + _INSTEAD
    return ""
