"""The older names of the profiler (``with jitgrad.autograd.profiler.profile() as prof``); see jitgrad/profiler/."""

from __future__ import annotations

from typing import Any

from jitgrad.profiler.events import EventList, FunctionEventAvg
from jitgrad.profiler.recording import Options, Window
from jitgrad.profiler.recording import is_on as _profiler_enabled  # noqa: F401  (PyTorch's name for it)
from jitgrad.profiler.session import record_function
from jitgrad.profiler.trace import write_trace

__all__ = ["emit_itt", "emit_nvtx", "profile", "record_function"]


class profile:
    """Record every op, node and kernel that runs inside; ``jitgrad.profiler.profile`` offers more.

    enabled: False records nothing. record_shapes, profile_memory, with_stack and with_flops are as there. PyTorch's
    other options are accepted without effect.
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True, **options: Any,
    ):  # fmt: skip
        self.enabled, self.with_flops = enabled, with_flops
        self.options = Options(record_shapes or with_flops, profile_memory, with_stack)
        self.entered = False
        self.function_events: EventList | None = None

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered, self._window = True, Window(self.options)
        self._window.open()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.enabled:
            self._window.close()
            records, begin = self._window.records, self._window.begin
            self.function_events = EventList.of_records(records, begin, self.options.memory, self.with_flops)

    def _found(self) -> EventList:
        return EventList() if self.function_events is None else self.function_events

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else str(self.function_events)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each without its children, in microseconds."""
        return self._found().self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The events as a table; see ``EventList.table``."""
        return self._found().table(sort_by, row_limit, **options)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Runs of one name together."""
        return self._found().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        return self._found().total_average()

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace file for chrome://tracing or Perfetto."""
        write_trace(path, self._found(), {})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks that ``with_stack`` noted; an AssertionError without it."""
        if not self.options.stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._found().export_stacks(path, metric)


class _Emitter:
    """Base of PyTorch's context managers that emit marks for another profiler; none is supported."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False):
        self.enabled = enabled

    def __enter__(self) -> Any:
        return self if self.enabled else None

    def __exit__(self, *error: Any) -> None:
        """Nothing to undo."""


class emit_nvtx(_Emitter):
    """AssertionError: there are no NVTX marks. ``enabled=False`` does nothing."""

    def __enter__(self) -> Any:
        if self.enabled:
            raise AssertionError("Torch not compiled with CUDA enabled")
        return None


class emit_itt(_Emitter):
    """Accepted: there are no ITT marks."""
