"""What profilers found, under the older name of the module: ``jitgrad.autograd.profiler_util.EventList``."""

from jitgrad.profiler.events import DeviceType, EventList, FunctionEvent, FunctionEventAvg, Interval

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]
