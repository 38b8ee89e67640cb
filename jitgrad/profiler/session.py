"""The profiler's public classes: ``profile``, its steps and schedules, and ``record_function`` for named blocks."""

from __future__ import annotations

import enum
import functools
import json
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.profiler import instrument, memory, recording  # noqa: F401  two of them register with the third
from jitgrad.profiler.events import EventList
from jitgrad.profiler.recording import USER, Options, Window
from jitgrad.profiler.trace import write_trace

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities"]


class ProfilerActivity(enum.Enum):
    """What can be profiled. Ops and kernels of every device are recorded under CPU, where they are started."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a schedule has the profiler do in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_NONE, _WARMUP, _RECORD, _SAVE = ProfilerAction
_RECORDING = (_RECORD, _SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """What can be profiled on this machine."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule for ``profile``: after ``skip_first`` steps, cycles of ``wait``, ``warmup`` and ``active`` steps.

    ``repeat`` cycles, or without end if 0. ``skip_first_wait``: the first cycle does not wait. AssertionError for
    negative numbers and ``active=0``.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return _NONE
        step += (wait if skip_first_wait else 0) - skip_first
        if repeat > 0 and step >= repeat * cycle:
            return _NONE
        place = step % cycle
        if place < wait + warmup:
            return _NONE if place < wait else _WARMUP
        return _RECORD if place < cycle - 1 else _SAVE  # the last step of a cycle also hands the events out

    return action


class record_function:
    """A block, or as a decorator a function, that shows up under ``name``. Costs next to nothing without a profiler."""

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._open: list[Any] = []

    def __enter__(self) -> record_function:
        self._open.append(recording.begin(self.name, USER) if recording.is_on() else None)
        return self

    def __exit__(self, *error: Any) -> None:
        record = self._open.pop()
        if record is not None:
            recording.end(record)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return recorded


class profile:
    """Records every op, node and kernel that runs inside, in every thread, with its time.

    activities: accepted as PyTorch's. schedule: which steps are recorded; ``step()`` ends a step. on_trace_ready:
    called with the profiler at the end of each cycle. record_shapes: also the shapes of inputs. profile_memory:
    also what tensors allocate and free. with_stack: also the lines of the program that ran. acc_events: keep the
    events of earlier cycles. with_flops: count the operations of products, mul and add. with_modules and
    experimental_config are accepted and do nothing.
    """

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None, post_processing_timeout_s: float | None = None,
    ):  # fmt: skip
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2
            )
        self.activities = supported_activities() if activities is None else set(_named(activities))
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.options = Options(record_shapes or with_flops, profile_memory, with_stack)
        self.record_shapes, self.profile_memory, self.with_stack = self.options
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.schedule = schedule or (lambda step: _RECORD)
        self.record_steps = schedule is not None
        self.on_trace_ready, self.custom_trace_id_callback = on_trace_ready, custom_trace_id_callback
        self.step_num, self.current_action = 0, self.schedule(0)
        self._step: record_function | None = None
        self._window: Window | None = None
        self._events: EventList | None = None
        self._metadata: dict[str, Any] = {}
        self._trace_id: str | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    # -- steps --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with step 0."""
        self._change(_NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End the last step, and the cycle."""
        if self._events is None and self.current_action is not _NONE:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self._end_step()
        self._change(self.current_action, None)

    def step(self) -> None:
        """The next step begins."""
        self._end_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _change(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Close the window and hand out events if a cycle ends, open a window if recording begins.

        after: the next step's action, None when the profiler stops.
        """
        if before is not _NONE and before is not _SAVE and after is _NONE:
            warnings.warn(f"Incorrect schedule: {before.name} followed by NONE", stacklevel=3)
        if before is _RECORD and after is _WARMUP:
            warnings.warn("Incorrect schedule: RECORD followed by WARMUP", stacklevel=3)
        if self._window is not None and (before is _SAVE or after not in _RECORDING):
            self._finish()
            if before is _SAVE or after is None:
                self._ready()
        if after in (*_RECORDING, _WARMUP):
            self._prepare()
        if after in _RECORDING and self._window is None:
            self._window = Window(self.options)
            self._window.open()

    def _prepare(self) -> None:
        if self._window is None:  # a new cycle: its trace gets a name, its events a list
            give = self.custom_trace_id_callback or (lambda: uuid.uuid4().hex.upper())
            self._trace_id = give()
            if self._events is None or not self.acc_events:
                self._events = EventList((), self.profile_memory, self.with_flops)

    def _finish(self) -> None:
        window, self._window = self._window, None
        if window is not None:
            window.close()
            kinds = self.profile_memory, self.with_flops
            found = EventList.of_records(window.records, window.begin, *kinds)
            self._events = EventList([*(self._events or ()), *found], *kinds)

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # -- results ------------------------------------------------------------------------------

    def _found(self, purpose: str) -> EventList:
        if self._events is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self._events

    def events(self) -> EventList:
        """Every run of every function, in order of time. AssertionError before the profiler has run."""
        return self._found("accessing events")

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Runs of one name together; see ``EventList.key_averages``."""
        events = self._found("getting key averages")
        return events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace file for chrome://tracing, Perfetto or TensorBoard, compressed if it ends in ``.gz``."""
        options = {name: int(on) for name, on in zip(("record_shapes", "profile_memory", "with_stack"), self.options)}
        known = {k: v for k, v in options.items() if v} | {"trace_id": self._trace_id} | self._metadata
        write_trace(path, self._found("exporting chrome trace"), known)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks that ``with_stack`` noted; see ``EventList.export_stacks``. AssertionError without it."""
        events = self._found("exporting stacks")
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a string beside the events of the trace file."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put what ``value`` says in JSON beside the events of the trace file."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> str | None:
        """The name of the present cycle's trace."""
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let ``callback()`` name the traces to come."""
        self.custom_trace_id_callback = callback


def _named(activities: Iterable[Any]) -> Iterable[ProfilerActivity]:
    """The activities; a dict has activities as keys, and details as values, which make no difference here."""
    for item in activities:
        yield from item if isinstance(item, dict) else (item,)
