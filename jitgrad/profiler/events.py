"""A profiler's results as lists of events: single runs of functions, or sums over runs of one name."""

from __future__ import annotations

import enum
import math
from typing import Any

from jitgrad.profiler.event_table import build_table, time_text
from jitgrad.profiler.recording import BACKWARD, FUNCTION, USER, Record
from jitgrad.profiler.trace import write_trace

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class DeviceType(enum.Enum):
    """Where an event took place."""

    CPU = 0
    CUDA = 1


class Interval:
    """From ``start`` to ``end``, in microseconds since the profiler was started."""

    def __init__(self, start: float, end: float):
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long that is."""
        return self.end - self.start


def _text_of(name: str) -> Any:
    return property(lambda self: time_text(getattr(self, name)), doc=f"``{name}`` with its unit.")


class _Timed:
    """The times that single events and sums have in common.

    Kernels on devices have no times of their own, so the attributes that PyTorch has for them are constants.
    """

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    overload_name = ""
    node_id = -1
    use_device: str | None = None
    device_type = DeviceType.CPU
    is_async = is_remote = is_legacy = False
    flops = 0
    device_time_total = self_device_time_total = device_time = 0.0
    device_memory_usage = self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """The average time of a run, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    cpu_time_str, cpu_time_total_str = _text_of("cpu_time"), _text_of("cpu_time_total")
    self_cpu_time_total_str = _text_of("self_cpu_time_total")
    device_time_str, device_time_total_str = _text_of("device_time"), _text_of("device_time_total")
    self_device_time_total_str = _text_of("self_device_time_total")


def flops_of(name: str, shapes: list[Any]) -> int:
    """The multiplications and additions of products and of the commonest elementwise ops; 0 for any other op.

    A product of (n, k) and (k, m) counts 2 n k m; ``shapes`` are those of the op's arguments.
    """
    if name in ("aten::mul", "aten::add") and shapes:
        return math.prod(shapes[0])
    if name in ("aten::mm", "aten::bmm"):
        return 2 * math.prod(shapes[0]) * shapes[1][-1]
    if name in ("aten::addmm", "aten::baddbmm"):
        return 2 * math.prod(shapes[1]) * shapes[2][-1]
    return 0


class FunctionEvent(_Timed):
    """One run of a function. Times are microseconds, memory is in bytes, "self" leaves out the children.

    fwd_thread: of what a node runs, the thread of the op that made the node; else 0. sequence_nr: the same number
    for both; -1 for all else. kernels, device_index and device_resource_id are those of devices, which have
    no times of their own. What is not recorded is None.
    """

    count = 1
    device_index = 0
    is_python_function = False
    concrete_inputs = kwinputs = metadata_json = event_metadata = structured_input_strides = None

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, overload_name: str = "",
        fwd_thread: int | None = None, input_shapes: Any = None, stack: Any = None, scope: int = FUNCTION,
        sequence_nr: int = -1, node_id: int = -1,
    ):  # fmt: skip
        self.id, self.trace_name, self.node_id = id, name, node_id
        self.fwd_thread, self.overload_name = fwd_thread, overload_name
        self.device_resource_id, self.kernels = thread, []  # type: ignore[var-annotated]
        self.name = self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.time_range = Interval(start_us, end_us)
        self.thread = self.native = thread
        self.scope, self.is_user_annotation = scope, scope == USER
        self.input_shapes, self.stack, self.sequence_nr = input_shapes, stack or [], sequence_nr
        self.self_cpu_memory_usage = self.flops = 0
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @classmethod
    def of_record(cls, number: int, record: Record, origin: int, with_flops: bool) -> FunctionEvent:
        """The event of what was recorded, its times counted from ``origin``."""
        start, end = (record.begin - origin) / 1e3, (record.end - origin) / 1e3
        event = cls(number, record.name, record.thread, start, end, fwd_thread=0, input_shapes=record.shapes,
                    stack=record.stack, scope=record.scope, sequence_nr=record.sequence)  # fmt: skip
        event.native, event.self_cpu_memory_usage = record.native, record.memory
        event.flops = flops_of(record.name, record.shapes) if with_flops else 0
        return event

    @property
    def cpu_time_total(self) -> float:
        """How long it ran."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """How long it ran itself."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def structured_input_shapes(self) -> Any:
        """The shapes of the inputs."""
        return self.input_shapes

    @property
    def cpu_memory_usage(self) -> int:
        """The bytes allocated less those freed, children included."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


def _join_threads(events: list[FunctionEvent]) -> None:
    """Set ``fwd_thread`` of what nodes ran: the thread of the op that made the node, which has its sequence number."""
    nodes = {id(event.cpu_parent) for event in events if event.scope == BACKWARD}
    nodes |= {id(event) for event in events if event.scope == BACKWARD}
    made: dict[int, int] = {}
    for event in events:
        if event.sequence_nr >= 0 and id(event) not in nodes:
            made.setdefault(event.sequence_nr, event.thread)
    for event in events:
        if id(event) in nodes:
            event.fwd_thread = made.get(event.sequence_nr, 0)


class FunctionEventAvg(_Timed):
    """The sum over runs that have a key in common, and by ``cpu_time`` their average."""

    def __init__(self) -> None:
        self.key: Any = None
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.input_shapes: Any = None
        self.stack: list[str] = []
        self.scope = FUNCTION
        self.is_user_annotation = False
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: Any) -> FunctionEventAvg:
        """Add a run, or an average of others; an AssertionError if it goes by another key."""
        if self.key is not None and other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        if self.key is None:
            self.key, self.node_id, self.input_shapes = other.key, other.node_id, other.input_shapes
            self.stack, self.scope = other.stack, other.scope
            self.is_user_annotation = other.is_user_annotation
            self.cpu_children, self.cpu_parent = other.cpu_children, other.cpu_parent
        for name in (
            "count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time=0.000us cuda_time=0.000us input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage=0>"
        )


class EventList(list[Any]):
    """A list of events that can be printed as a table, averaged and exported."""

    def __init__(self, events: Any = (), profile_memory: bool = False, with_flops: bool = False):
        super().__init__(events)
        self._profile_memory, self._with_flops = profile_memory, with_flops

    @classmethod
    def of_records(
        cls, records: list[Record], origin: int, profile_memory: bool = False, with_flops: bool = False
    ) -> EventList:
        """The events of what was recorded since ``origin``, each with its parent and children."""
        events = [FunctionEvent.of_record(k, record, origin, with_flops) for k, record in enumerate(records, 1)]
        by_record = {id(record): event for record, event in zip(records, events, strict=True)}
        for record, event in zip(records, events, strict=True):
            parent = by_record.get(id(record.parent)) if record.parent is not None else None
            if parent is not None:
                event.cpu_parent = parent
                parent.cpu_children.append(event)
        _join_threads(events)
        return cls(events, profile_memory, with_flops)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each without its children."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55, max_shapes_column_width: int | None = 80, header: str | None = None,
        top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The events as a table.

        sort_by: an attribute of events, the largest first (``cpu_time_total``, ``self_cpu_memory_usage``, ``count``,
        ...); without it in the order in which they began. row_limit: so many rows at most, -1 for all. time_unit:
        "s", "ms" or "us" for all times. Empty for an empty list.
        """
        events: list[Any] = self
        if sort_by is not None:
            name = sort_by.replace("cuda", "device").replace("xpu", "device")
            events = sorted(self, key=lambda event: getattr(event, name), reverse=True)
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        return build_table(
            events, row_limit, widths, header, self._profile_memory, top_level_events_only, time_unit, self._with_flops
        )

    def __str__(self) -> str:
        return self.table()

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Events of one name together, if asked for only those of the same input shapes or the same callers."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            key = event.key, event.is_user_annotation, shapes, tuple(event.stack[:group_by_stack_n])
            groups.setdefault(key, FunctionEventAvg()).add(event)
        for group in groups.values():
            group.stack = group.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                group.input_shapes = ""
        return EventList(groups.values(), self._profile_memory, self._with_flops)

    def total_average(self) -> FunctionEventAvg:
        """All events as one, whose key is "Total"."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None  # no key yet: ``add`` then takes any event, whatever its name
            total.add(event)
        total.key = "Total"
        return total

    def supported_export_stacks_metrics(self) -> list[str]:
        """What ``export_stacks`` can write."""
        return [f"self_{device}_time_total" for device in ("cpu", "cuda", "xpu", "privateuse1")]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line for each event with a stack: its callers, outermost first, and the metric in microseconds.

        That is what flame graph tools read. ValueError for another metric.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        blanks = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(event.self_cpu_time_total) if metric == "self_cpu_time_total" else 0
                if event.stack and value > 0:
                    file.write(";".join(s.translate(blanks) for s in reversed(event.stack)) + f" {value}\n")

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as JSON that chrome://tracing and Perfetto show."""
        write_trace(path, self, {})
