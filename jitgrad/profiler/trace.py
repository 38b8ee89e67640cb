"""Events as a file that trace viewers show: the JSON format of chrome://tracing and Perfetto."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.profiler.recording import KERNEL, USER

__all__ = ["tensorboard_trace_handler", "write_trace"]


def write_trace(path: str, events: Iterable[Any], metadata: dict[str, Any]) -> None:
    """Write a trace file, compressed if its name ends in ``.gz``. ``metadata`` goes beside the events."""
    trace = {
        "schemaVersion": 1, "deviceProperties": [], **metadata, "host_name": socket.gethostname(),
        "displayTimeUnit": "ms", "traceName": str(path), "traceEvents": _lines(list(events)),
    }  # fmt: skip
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(trace, file)


def _lines(events: list[Any]) -> list[dict[str, Any]]:
    pid = os.getpid()
    lines = [_label("process_name", pid, 0, {"name": "python"}), _label("process_labels", pid, 0, {"labels": "CPU"})]
    for thread in sorted({event.native for event in events}):  # the system's number, as other tools show it
        lines.append(_label("thread_name", pid, thread, {"name": f"thread {thread} (python)"}))
    for number, event in enumerate(events):
        lines.append(_complete(event, pid, number))
    return lines


def _label(name: str, pid: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "ts": 0, "pid": pid, "tid": thread, "args": args}


def _complete(event: Any, pid: int, number: int) -> dict[str, Any]:
    """An event with its begin and its duration, in microseconds."""
    args: dict[str, Any] = {"External id": event.id, "Ev Idx": number}
    if event.sequence_nr >= 0:
        args["Sequence number"] = event.sequence_nr
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    if event.self_cpu_memory_usage:
        args["Bytes"] = event.self_cpu_memory_usage
    category = {USER: "user_annotation", KERNEL: "kernel"}.get(event.scope, "cpu_op")
    return {
        "ph": "X", "cat": category, "name": event.trace_name, "pid": pid, "tid": event.native,
        "ts": event.time_range.start, "dur": event.time_range.elapsed_us(), "args": args,
    }  # fmt: skip


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """An ``on_trace_ready`` that writes each trace to a file of its own in ``dir_name``.

    ``worker_name`` begins the files' names, by default the host's name and the process's number.
    """

    def handle(profiler: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        profiler.export_chrome_trace(os.path.join(dir_name, name + (".gz" if use_gzip else "")))

    return handle
