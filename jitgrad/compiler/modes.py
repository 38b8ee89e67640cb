"""Guards of what kernels and Python code depend on that no object of the function holds."""

from __future__ import annotations

from jitgrad.autograd import anomaly
from jitgrad.compiler.guards import Guards, Names
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
    depends(vars(threads), f"{name(threads)}.get_num_threads() == {threads.get_num_threads()}")
    depends(vars(dtypes), f"{name(dtypes)}.get_default_dtype() is {name(dtypes.get_default_dtype())}")
    depends(vars(anomaly._mode), f"not {name(anomaly._mode)}.enabled")
    for those in (launch.observers, node_observers, task.observers):
        depends(those, f"not {name(those)}")
    depends(tensor_observers, f"not {name(_observed)}()")
    if cast_to() is None:  # nor in another thread
        depends(vars(regions), f"not {name(regions)}.count")
    else:
        guards.always.append(f"{name(cast_to)}() == {name(cast_to())}")


def _observed() -> bool:
    """Whether new tensors have to be announced. In inference mode those of a program are what they were recorded as."""
    return any(observer is not mark_inference for observer in tensor_observers)
