"""Profiler: which ops, nodes and kernels run, for how long, on what shapes, with how much memory.

``recording.py`` keeps the records of what runs; it is all that other packages need (optimisers ask it whether a
profiler is on). ``instrument.py`` and ``memory.py`` make the records, ``session.py`` is what users call,
``events.py``, ``event_table.py`` and ``trace.py`` present the results. Read ``recording.py`` first. Nothing here
changes what an op computes, and no op, kernel or node knows of profilers: they are observed.

While no profiler is on, nothing of it is in place and no op tests for one: calls of ops are seen through
``dispatch/op_calls.py``, kernels and nodes through the observers of ``launch`` and of the engine, which are there
anyway. Profilers may be nested: each gets all that ran while it was on, where PyTorch's outer one ends empty.
"""

from typing import TYPE_CHECKING

from jitgrad.core.lazy_import import lazy_attributes

if TYPE_CHECKING:
    from jitgrad.profiler.events import DeviceType, EventList, FunctionEvent, FunctionEventAvg
    from jitgrad.profiler.session import (
        profile, ProfilerAction, ProfilerActivity, record_function, schedule, supported_activities,
    )  # fmt: skip
    from jitgrad.profiler.trace import tensorboard_trace_handler

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

# Every program imports this package, for ``recording``, which optimisers ask whether a profiler is on. Few profile.
_EVENTS = ("DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg")
_SUBMODULES = ("events", "instrument", "memory", "event_table", "session", "trace")
__getattr__, __dir__ = lazy_attributes(
    __name__,
    dict.fromkeys(__all__, "jitgrad.profiler.session")
    | dict.fromkeys(_EVENTS, "jitgrad.profiler.events")
    | {"tensorboard_trace_handler": "jitgrad.profiler.trace"}
    | {name: f"jitgrad.profiler.{name}" for name in _SUBMODULES},
)
