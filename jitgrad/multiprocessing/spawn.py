"""Several processes that run one function, and what became of them."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn

from jitgrad.core.user_frame import user_level

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn",
    "start_processes",
]  # fmt: skip

_log = logging.getLogger(__name__)


class ProcessException(Exception):
    """A process has failed: its text, number and id."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """An exception ended the process, whose traceback is the text."""


class ProcessExitedException(ProcessException):
    """A signal ended the process, or it ended itself with a code other than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _wrap(fn: Callable[..., Any], i: int, args: tuple[Any, ...], error_file: str) -> None:
    """What a process does: call the function, and leave a traceback in a file if it raises."""
    _end_with_parent()
    try:
        fn(i, *args)
    except KeyboardInterrupt:  # the parent has got it, too
        pass
    except Exception:
        Path(error_file).write_bytes(pickle.dumps(traceback.format_exc()))
        sys.exit(1)


def _end_with_parent() -> None:
    """Have Linux send Ctrl-C to this process when its parent is gone: it need not be a daemon."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: k for k, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends, at most ``timeout`` seconds; True when all have ended.

        If one has failed, the others are ended, after ``grace_period`` seconds in which they may end by themselves, and
        ProcessRaisedException or ProcessExitedException says how.
        """
        for sentinel in wait(list(self.sentinels), timeout) if self.sentinels else ():
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                self._end_all(grace_period)
                self._report(index)
        return not self.sentinels

    def _end_all(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._join_all(grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._join_all(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning(
                    "Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL", process.pid
                )
                process.kill()
            process.join()

    def _join_all(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def _report(self, index: int) -> NoReturn:
        process, error_file = self.processes[index], Path(self.error_files[index])
        if error_file.exists():
            text = pickle.loads(error_file.read_bytes())
            error_file.unlink()
            head = f"\n\n-- Process {index} terminated with the following error:\n"
            raise ProcessRaisedException(head + text, index, process.pid)
        code, name = process.exitcode, None
        what = f"exit code {code}"
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            what = f"signal {name}"
        raise ProcessExitedException(f"process {index} terminated with {what}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The former name of ProcessContext."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]):
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=user_level())
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Call ``fn(i, *args)`` in ``nprocs`` processes made by ``start_method``, i from 0 on.

    join: wait for all, and raise if one fails (see ``ProcessContext.join``); else return their ProcessContext.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for i in range(nprocs):
        # A name that nobody else has: a process that raises makes the file, one that is killed does not.
        descriptor, error_file = tempfile.mkstemp(prefix="jitgrad-errorfile-", suffix=".pickle")
        os.close(descriptor)
        os.unlink(error_file)
        process = context.Process(target=_wrap, args=(fn, i, args, error_file), daemon=daemon)
        process.start()
        processes.append(process)
        error_files.append(error_file)
    made = ProcessContext(processes, error_files)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """``start_processes`` with the start method "spawn", whatever else is given (FutureWarning)."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method use:"
            "\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=user_level(),
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
