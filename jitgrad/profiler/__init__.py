"""Profiler: which ops, nodes and kernels run, for how long, on what shapes, with how much memory."""

from jitgrad.profiler import instrument, memory  # who takes the notes
from jitgrad.profiler.events import DeviceType, EventList, FunctionEvent, FunctionEventAvg
from jitgrad.profiler.session import (
    profile, ProfilerAction, ProfilerActivity, record_function, schedule, supported_activities,
)  # fmt: skip
from jitgrad.profiler.trace import tensorboard_trace_handler

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip
