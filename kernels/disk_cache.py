"""Compiled kernels on disk.

A kernel is kept as one file for each combination of argument types. Its name is made of a hash of the kernel's text,
the types, the CPU and the versions of Python and Numba; a file that exists is therefore never stale. Processes that
need the same kernel at once compile it once between them: ``cache_lock.py``. Numba's own ``cache=True`` is not used:
its key misses options, constants and callees, and its index file has no lock.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

from numba.core.compiler import CompileResult

from jitgrad.kernels.cache_files import cache_directory, read_checked, write_atomically, write_checked
from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.compile_ahead import begin
from jitgrad.kernels.loaded_code import unpickled
from jitgrad.kernels.loaded_library import stored_library
from jitgrad.kernels.native_library import initialize_runtime
from jitgrad.kernels.python_call import context_with_calls
from jitgrad.kernels.statistics import statistics

__all__ = ["DiskCache"]


class DiskCache:
    """Numba's cache protocol for one kernel: a checked file per overload, written by rename."""

    warned = False
    cache_path = None

    def __init__(self, stem: str, text: str):
        self.stem, self.text = stem, text
        self.lock: CacheLock | None = None

    def _path(self, signature: Any) -> Path:
        # repr, since the hash of Numba's types differs from process to process.
        types_hash = hashlib.sha256(repr(tuple(getattr(signature, "args", signature))).encode()).hexdigest()[:16]
        return cache_directory() / f"{self.stem}-{types_hash}.kernel"

    def load_overload(self, signature: Any, target_context: Any) -> CompileResult | None:
        path = self._path(signature)
        result = _load(path, target_context)
        if result is None:
            # Held until this process has compiled and saved the kernel: `unlock`.
            self.lock = CacheLock(path)
            # Another process may have saved it since this one looked.
            result = _load(path, target_context)
            if result is None:
                begin()
        return result

    def in_work(self, signature: Any) -> bool:
        """Whether another process compiles the kernel for these types."""
        lock = CacheLock(self._path(signature), 0)
        lock.release()
        return not lock.held

    def unlock(self) -> None:
        """Let other processes go on, whether the kernel was saved or could not be compiled."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        serialized, *others = result._reduce()
        payload = pickle.dumps((stored_library(result.library, serialized), *others))
        try:
            path = self._path(signature)
            write_checked(path, payload)
            # For who wants to read a kernel: `Kernel.origin` names this file.
            source = path.parent / f"{self.stem}.py"
            if not source.exists():
                write_atomically(source, self.text.encode())
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not DiskCache.warned:
            DiskCache.warned = True
            warnings.warn(
                f"jitgrad cannot keep compiled kernels in {cache_directory()} ({error}); "
                "every process will compile them again. Set JITGRAD_CACHE_DIR to a writable folder.",
                stacklevel=2,
            )

    def flush(self) -> None:
        """Part of Numba's protocol; files are only removed by ``python -m jitgrad cache``."""


def _load(path: Path, target_context: Any) -> CompileResult | None:
    """The kernel that a file holds; None if it isn't there, is damaged, or was written under another name."""
    start = time.perf_counter()
    try:
        payload = read_checked(path)
        if payload is None:
            return None
        # Numba's own cache calls `refresh`, which imports everything that compiling needs, SciPy's linear algebra among
        # it, and takes 0.2 s.
        initialize_runtime(target_context)
        result = CompileResult._rebuild(context_with_calls(), *unpickled(payload))
    except Exception:  # whatever lies in the file, compiling afresh is right
        return None
    statistics.loaded += 1
    statistics.load_seconds += time.perf_counter() - start
    return result
