"""Profiler: which ops, nodes and kernels run, for how long, on what shapes, with how much memory."""

from . import instrument, memory  # who takes the notes
from ..autograd import profiler as _older_names, profiler_util as _older_util
from .events import DeviceType, EventList, FunctionEvent, FunctionEventAvg
from .session import ProfilerAction, ProfilerActivity, profile, record_function, schedule, supported_activities
from .trace import tensorboard_trace_handler

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip
