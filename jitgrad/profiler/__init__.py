"""Profiler: which ops, nodes and kernels run, for how long, on what shapes, with how much memory."""

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
_SUBMODULES = ("events", "instrument", "memory", "session", "table", "trace")
__getattr__, __dir__ = lazy_attributes(
    __name__,
    dict.fromkeys(__all__, "jitgrad.profiler.session")
    | dict.fromkeys(_EVENTS, "jitgrad.profiler.events")
    | {"tensorboard_trace_handler": "jitgrad.profiler.trace"}
    | {name: f"jitgrad.profiler.{name}" for name in _SUBMODULES},
)
