"""Python's ``multiprocessing``, with tensors that processes share, under PyTorch's names.

Everything of ``multiprocessing`` is here. Once this package is imported, a tensor that is sent to another process,
among the arguments of a Process or through a Queue, moves to shared memory: both processes see what either writes.
``reductions.py`` does that, ``spawn.py`` starts several processes and reports what became of them. The memory has no
name in the file system, whatever ``set_sharing_strategy`` is told, so that none is left when processes are killed.
A process has to live until what it has put into a queue was received. On Windows tensors are copied.
"""

import multiprocessing
import sys
from multiprocessing import *  # noqa: F403
from typing import Any

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.multiprocessing import reductions
from jitgrad.multiprocessing.spawn import (
    ProcessContext, ProcessException, ProcessExitedException, ProcessRaisedException, spawn, SpawnContext,
    start_processes,
)  # fmt: skip

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
__all__ += multiprocessing.__all__

_strategies = {"file_system"} if sys.platform in ("darwin", "win32") else {"file_descriptor", "file_system"}
_strategy = min(_strategies)


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept one of ``get_all_sharing_strategies()``, AssertionError for others: there is one way here."""
    global _strategy
    if new_strategy not in _strategies:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {_strategies}")
    _strategy = new_strategy


def get_sharing_strategy() -> str:
    """The strategy that was set."""
    return _strategy


def get_all_sharing_strategies() -> set[str]:
    """The strategies that PyTorch has on this system."""
    return _strategies


reductions.init_reductions()
explain_missing_names(__name__)


def __dir__() -> list[Any]:
    return sorted({*globals(), *__all__})
