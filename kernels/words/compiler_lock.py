"""The locks of those who compile, parse and link: one thread at a time does each.

Some versions of Python count the depth of the tree that they build in one number for all threads, and fail with
"SystemError: AST constructor recursion depth mismatch" where two parse at once (CPython issue 106905). Numba parses,
too, while it compiles, so where it is imported the lock is Numba's own. All are reentrant: the garbage collector may
run a finalizer within a block.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from llvmlite.binding.ffi import lib as llvm_library

__all__ = ["compiler_lock", "linker_lock"]

_without_numba = threading.RLock()
linker_lock = threading.RLock()  # held while machine code is linked; whoever holds it takes no other lock but LLVM's
_llvm_lock = getattr(llvm_library, "_lock", threading.RLock())
_held_for_fork: list[Any] = []


def compiler_lock() -> Any:
    """The lock to hold while compiling or parsing."""
    return getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", _without_numba)


def _hold_compilers() -> None:
    """Wait until no thread compiles: in a forked child its locks would never be released, nor LLVM's state be whole.

    LLVM is called without Numba's lock too, where the garbage collector frees what was compiled.
    """
    held = [_without_numba, linker_lock]
    if compiler_lock() is not _without_numba:
        held.insert(1, compiler_lock())
    for lock in held:
        lock.acquire()
    _llvm_lock.__enter__()
    _held_for_fork.append(held)


def _release_compilers() -> None:
    _llvm_lock.__exit__(None, None, None)
    for lock in reversed(_held_for_fork.pop()):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_compilers, after_in_parent=_release_compilers, after_in_child=_release_compilers
    )  # fmt: skip
