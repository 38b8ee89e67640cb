"""What a call costs the interpreter, counted instead of timed: the same on every machine, however busy."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .workloads import Work

__all__ = ["blocks_kept", "function_calls", "instructions", "peak_bytes"]


@contextmanager
def _settled(work: Work) -> Iterator[None]:
    """After first uses, and without the collector, whose passes come when they like."""
    for _ in range(3):
        work()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _counted(work: Work, install: Callable[[Any], None], counts: Callable[[Any, str], bool]) -> int:
    found = 0

    def see(frame: Any, event: str, arg: Any) -> Any:
        nonlocal found
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        found += counts(frame, event)
        return see

    with _settled(work):
        install(see)
        try:
            work()
        finally:
            install(None)
    return found


def instructions(work: Work) -> int:
    """Bytecode instructions of Python functions."""
    return _counted(work, sys.settrace, lambda frame, event: event == "opcode")


def function_calls(work: Work) -> int:
    """Calls of functions, in Python and in C."""
    return _counted(work, sys.setprofile, lambda frame, event: event in ("call", "c_call"))


def blocks_kept(work: Work) -> int:
    """Blocks of Python's memory that live as long as the call's result: an op's tensor, node and what they save."""
    with _settled(work):
        before = sys.getallocatedblocks()
        result = work()
        kept = sys.getallocatedblocks() - before
        del result
    return kept


def peak_bytes(work: Work) -> int:
    """Bytes in use at most while the call runs, arrays included, beyond those before it."""
    with _settled(work):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            work()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
