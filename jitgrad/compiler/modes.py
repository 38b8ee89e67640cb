"""Guards of what kernels and Python code depend on that no object of the function holds."""

from __future__ import annotations

from collections.abc import Callable
from operator import not_
from typing import Any

from jitgrad.autograd import anomaly
from jitgrad.compiler.guards import Attributes, Call, Guards, Names
from jitgrad.core import dtypes
from jitgrad.core.casting import cast_to, regions
from jitgrad.core.inference import mark_inference
from jitgrad.core.node import node_observers
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.engine import task
from jitgrad.kernels import launch, threads

__all__ = ["depend_on_modes"]


def depend_on_modes(guards: Guards, name: Names) -> None:
    """Add what is the same for all threads, and what this one's ops are cast to."""
    depends = guards.depends
    for module, ask in ((threads, threads.get_num_threads), (dtypes, dtypes.get_default_dtype)):
        depends(vars(module), Call(_returns, (ask, ask())))
    depends(vars(anomaly._mode), Attributes(anomaly._mode, ("enabled",), (False,)))
    for those in (launch.observers, node_observers, task.observers):
        depends(those, Call(not_, (those,)))
    depends(tensor_observers, Call(_unobserved, ()))
    if cast_to() is None:  # nor in another thread
        depends(vars(regions), Attributes(regions, ("count",), (0,)))
    else:
        guards.always.append(f"{name(cast_to)}() == {name(cast_to())}")


def _returns(function: Callable[[], Any], value: Any) -> bool:
    return bool(function() == value)


def _unobserved() -> bool:
    """Whether no new tensor is announced; in inference mode those of a program are what they were recorded as."""
    return all(observer is mark_inference for observer in tensor_observers)
