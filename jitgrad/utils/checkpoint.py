"""Checkpointing: intermediate results of a region are not kept for backward, which computes them anew.

``use_reentrant=False`` records the region with hooks on saved tensors that keep a numbered slot in place of the
tensor (``autograd/checkpoint_regions.py``). ``use_reentrant=True`` is PyTorch's older way: one node for the whole
region, whose backward records the region and runs backward inside backward.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jitgrad.amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from jitgrad.autograd import Function, backward
from jitgrad.autograd.checkpoint_regions import CheckpointError, GraphExecGroup, Region, within_full_backward
from jitgrad.core.grad_mode import enable_grad, is_grad_enabled, no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.profiler.session import profile
from jitgrad.random import fork_rng, get_rng_state, set_rng_state
from jitgrad.utils.selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "GraphExecGroup", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]  # fmt: skip

Contexts = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]

_SUPPRESSED = (
    "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during the "
    "checkpointed forward. This is not supported because checkpoint cannot return a value for a failed forward."
)
_EXPLICIT = (
    "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
    "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to "
    "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
    "differences between the two variants."
)
_EXPLICIT_SEQUENTIAL = (
    "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In "
    "version 2.9 we will raise an exception if use_reentrant is not passed. use_reentrant=False is recommended, "
    "but if you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for "
    "more details on the differences between the two variants."
)

# What users set for all checkpoints at once, None to leave it to each.
_early_stop: bool | None = None
_debug: bool | None = None


def noop_context_fn() -> Contexts:
    """The default ``context_fn``: two context managers that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool | None) -> Iterator[None]:
    """A block in which this counts for all checkpoints, whatever their ``early_stop``."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """A block in which this counts for all checkpoints, whatever their ``debug``; None leaves it to them."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def _casting_as_now() -> autocast:
    """A region in which ops are cast as they are here: the second run has to save what the first has."""
    dtype, cached = get_autocast_dtype("cpu"), is_autocast_cache_enabled()
    return autocast("cpu", dtype, is_autocast_enabled("cpu"), cached)


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn, determinism_check: str = "default", debug: bool = False,
    early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return ``function(*args, **kwargs)``, whose intermediate results backward computes anew instead of keeping them.

    use_reentrant: False is the better choice: it supports ``grad``, ``inputs=``, keyword arguments, structures of
    tensors. True runs forward unrecorded, and a backward within backward. preserve_rng_state (default True): the
    second run draws the same random numbers. context_fn: returns two context managers, for forward and for the
    recomputation. determinism_check: "default" compares shapes, dtypes and devices of what both runs save, "none"
    does not. debug: errors list the ops of both runs. early_stop: the second run ends when nothing is missed.

    ValueError for options that ``use_reentrant=True`` does not have; CheckpointError in backward if both runs differ.
    """
    if use_reentrant is None:
        warnings.warn(_EXPLICIT, stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        early_stop = early_stop if _early_stop is None else _early_stop
        debug = debug if _debug is None else _debug
        return _Call(function, args, kwargs, preserve, early_stop).run(context_fn, determinism_check, debug)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:  # fmt: skip
    """Apply ``functions`` (a Sequential, or a list) one after the other, in ``segments`` checkpointed parts.

    The last part is not checkpointed. use_reentrant, preserve_rng_state: as for ``checkpoint``.
    """
    if use_reentrant is None:
        warnings.warn(_EXPLICIT_SEQUENTIAL, stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments
    for begin in range(0, size * (segments - 1), size):
        part = _in_turn(steps[begin : begin + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return _in_turn(steps[size * (segments - 1) :])(input)


def _in_turn(steps: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return apply


# -- use_reentrant=False --------------------------------------------------------------------------------


def _facts(tensor: Tensor) -> Any:
    """What has to agree between a tensor that forward saved and the one that the second run puts in its place."""
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_CHECKS: dict[str, Callable[[Tensor], Any]] = {"default": _facts, "none": lambda tensor: None}


class _Call:
    """One call of ``checkpoint(use_reentrant=False)``: what it takes to run the function again."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], preserve: bool,
                 early_stop: bool):  # fmt: skip
        self.function, self.args, self.kwargs, self.early_stop = function, args, kwargs, early_stop
        self.random = get_rng_state() if preserve else None
        self.casting = _casting_as_now()

    def run(self, context_fn: Callable[[], Contexts], determinism_check: str, debug: bool) -> Any:
        logs = None
        if debug:
            if context_fn is not noop_context_fn:
                raise ValueError("debug=True is incompatible with non-default context_fn")
            logs = _Logs()
            context_fn = logs.contexts
        if determinism_check not in _CHECKS:
            raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
        forward_context, self.context = context_fn()
        if not is_grad_enabled():
            return self.function(*self.args, **self.kwargs)
        explain = logs.explain if logs else None
        region = Region(self.args, self.rerun, self.early_stop, _CHECKS[determinism_check], explain)
        args, self.args = self.args, ()  # the region keeps them, as long as its graph lives
        with region.recorded(), forward_context:
            result = self.function(*args, **self.kwargs)
            region.complete = True
        if not region.complete:  # the context manager of forward swallowed an exception
            raise RuntimeError(_SUPPRESSED)
        return result

    def rerun(self, *args: Any) -> None:
        """Run the function once more, with the random numbers and the autocast of the first time."""
        with fork_rng(enabled=self.random is not None):
            if self.random is not None:
                set_rng_state(self.random)
            with self.casting, self.context:
                self.function(*args, **self.kwargs)


class _Logs:
    """Profiles of both runs of a region, for ``debug=True``."""

    def __init__(self) -> None:
        self.runs = profile(record_shapes=True, with_stack=True), profile(record_shapes=True, with_stack=True)

    def contexts(self) -> Contexts:
        return self.runs

    def explain(self, error: CheckpointError) -> None:
        forward, again = (_listed(run) for run in self.runs)
        raise CheckpointError(
            "An error happened while unpacking tensors; dumping logs of latest computation because you passed "
            "`debug=True` to `torch.utils.checkpoint.checkpoint()`.\n\nOperations executed during the original forward:"
            f"\n\n{forward}\n\nOperations executed during recomputation:\n\n{again}\n\n"
            "ERROR: Detected non-determinism while running activation checkpointing\n\n"
            "You are seeing this error because you passed `debug=True` to checkpoint and tensors to be saved during "
            "the original forward and differ between those saved during recomputation. This can happen if different "
            "operators were ran in the original forward and in the recomputation: compare the two lists above."
        ) from error


def _listed(run: profile) -> str:
    """An op a line, with the shapes of its operands and the line of the program that it comes from."""
    ops = [e for e in run.events() if e.name.startswith("aten::") and e.cpu_parent is None]
    return "\n".join(f"{e.name} {e.input_shapes}  {e.stack[0] if e.stack else ''}" for e in ops) or "(none)"


# -- use_reentrant=True -------------------------------------------------------------------------------


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad: then nothing that was computed does."""
    if not any(t.requires_grad for t in inputs if isinstance(t, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def detach_variable(inputs: Any) -> tuple[Any, ...]:
    """The inputs outside of their graph, as leaves that require grad where they did. RuntimeError for no tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs)


class CheckpointFunction(Function):
    """Runs a function without recording it; backward runs it again, recorded, and then backward through that graph."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Compute the result alone; inputs are kept."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random = get_rng_state() if preserve_rng_state else None
        ctx.casting = _casting_as_now()
        # Tensors are saved as every op saves its own, so that writes to them are noticed; the rest is kept as it is.
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*[args[k] for k in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Compute it again, and the gradients of the inputs."""
        if not within_full_backward():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        detached = detach_variable(tuple(inputs))
        with fork_rng(enabled=ctx.random is not None):
            if ctx.random is not None:
                set_rng_state(ctx.random)
            with enable_grad(), ctx.casting:
                outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        wanted = [(o, g) for o, g in zip(outputs, grads, strict=False) if isinstance(o, Tensor) and o.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in wanted], [g for _, g in wanted])
        return (None, None, *(t.grad if isinstance(t, Tensor) else None for t in detached))
