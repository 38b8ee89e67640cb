"""Guards of what kernels and Python code depend on that no object of the function holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from operator import not_
from typing import Any

from jitgrad.autograd import anomaly
from jitgrad.autograd.graph import saved_tensors_hooks
from jitgrad.compiler.guards import Attributes, Call, Guards, Item, Names, NotReplayable
from jitgrad.core import casting, device, dtypes, program_flags, saved_tensors
from jitgrad.core.casting import cast_to, regions
from jitgrad.core.inference import mark_inference
from jitgrad.core.node import node_observers
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.engine import task
from jitgrad.kernels import launch, threads

__all__ = ["depend_on_modes", "modes_of", "modes_read_by"]

_AUTOCAST = "jitgrad.amp.autocast_mode"
_FLAGS: tuple[Callable[[], Any], ...] = (
    program_flags.get_float32_matmul_precision, program_flags.get_deterministic_debug_mode,
)  # fmt: skip


def depend_on_modes(guards: Guards, name: Names) -> None:
    """Add what is the same for all threads, and what this one's ops are cast to."""
    depends = guards.depends
    for module, ask in ((threads, threads.get_num_threads), (dtypes, dtypes.get_default_dtype)):
        depends(vars(module), Call(_returns, (ask, ask())))
    for flag in _FLAGS:
        depends(vars(program_flags._flags), Call(_returns, (flag, flag())))
    depends(device._default, Item(device._default, 0, device._default[0]))
    if distribution := sys.modules.get("jitgrad.distributions.distribution"):
        kind: Any = distribution.Distribution
        depends(kind, Attributes(kind, ("_validate_args",), (kind._validate_args,)))
    if parametrize := sys.modules.get("jitgrad.nn.utils.parametrize"):
        if parametrize._cache_enabled:
            raise NotReplayable("parametrizations are cached around it")
        depends(vars(parametrize), Item(vars(parametrize), "_cache_enabled", 0))
    depends(vars(anomaly._mode), Attributes(anomaly._mode, ("enabled",), (False,)))
    for those in (launch.observers, node_observers, task.observers):
        depends(those, Call(not_, (those,)))
    depends(tensor_observers, Call(_unobserved, ()))
    if cast_to() is None:  # nor in another thread
        depends(vars(regions), Attributes(regions, ("count",), (0,)))
    else:
        guards.always.append(f"{name(cast_to)}() == {name(cast_to())}")


def modes_of() -> tuple[Any, ...]:
    """The process-wide settings, such as the default device, that a function may leave changed; not the grad modes."""
    return device._default[0], *(ask() for ask in _FLAGS)


def modes_read_by(function: Any) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The calls by which one of jitgrad's functions, or classes, asks for modes of a thread that few depend on."""
    kinds = function.__mro__ if isinstance(function, type) else ()
    if any(getattr(made, "__module__", None) == _AUTOCAST for made in (function, *kinds)):
        yield _autocast_dtype, ()
    if saved_tensors_hooks in kinds:
        yield _refusal_of_hooks, ()


def _autocast_dtype() -> Any:
    return casting.state.dtype["cpu"]


def _refusal_of_hooks() -> str | None:
    return saved_tensors.thread.disabled


def _returns(function: Callable[[], Any], value: Any) -> bool:
    return bool(function() == value)


def _unobserved() -> bool:
    """Whether no new tensor is announced; in inference mode those of a program are what they were recorded as."""
    return all(observer is mark_inference for observer in tensor_observers)
