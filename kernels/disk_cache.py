"""Compiled kernels on disk.

A kernel is kept as one file for each combination of argument types. Its name is made of a hash of the kernel's text,
the types, the CPU and the versions of Python and Numba; a file that exists is therefore never stale. Processes that
need the same kernel at once compile it once between them: ``cache_lock.py``. Numba's own ``cache=True`` is not used:
its key misses options, constants and callees, and its index file has no lock.
"""

from __future__ import annotations

import pickle
import time
import warnings
from pathlib import Path
from typing import Any

from numba.core import types
from numba.core.compiler import CompileResult

from jitgrad.kernels.argument_kinds import kinds_of_types
from jitgrad.kernels.cache_files import cache_directory, kernel_file, read_checked, write_atomically, write_checked
from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.compile_ahead import begin
from jitgrad.kernels.loaded_code import unpickled
from jitgrad.kernels.loaded_library import stored_library
from jitgrad.kernels.numba_context import loading_context
from jitgrad.kernels.numba_library import initialize_runtime
from jitgrad.kernels.python_call import is_callable
from jitgrad.kernels.statistics import statistics
from jitgrad.kernels.stored_kernel import StoredKernel

__all__ = ["DiskCache", "is_called"]


class DiskCache:
    """Numba's cache protocol for one kernel: a checked file per overload, written by rename."""

    warned = False
    cache_path = None

    def __init__(self, stem: str, text: str):
        self.stem, self.text = stem, text
        self.lock: CacheLock | None = None

    def _path(self, signature: Any) -> Path:
        return kernel_file(self.stem, getattr(signature, "args", signature))

    def load_overload(self, signature: Any, target_context: Any) -> CompileResult | None:
        path = self._path(signature)
        result = _load(path)
        if result is None:
            # Held until this process has compiled and saved the kernel: `unlock`.
            self.lock = CacheLock(path)
            # Another process may have saved it since this one looked.
            result = _load(path)
            if result is None:
                begin()
        return result

    def unlock(self) -> None:
        """Let other processes go on, whether the kernel was saved or could not be compiled."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        serialized, *others = result._reduce()
        library = stored_library(result.library, serialized)
        wrapper, loaded = result.fndesc.llvm_cpython_wrapper_name, not result.reload_init
        reads = wrapper in library.exported or ("raise " in self.text and _reads_environment(result))
        environments = [result.environment, *result._find_referenced_environments()] if reads else []
        constants = {e.env_name: list(e.consts) for e in environments if e.env_name in library.exported}
        stored = StoredKernel(
            result.fndesc.llvm_func_name if loaded else "", loaded and is_called(result),
            wrapper if loaded and wrapper in library.exported else "", pickle.dumps(constants), library,
            pickle.dumps(others),
        )  # fmt: skip
        payload = pickle.dumps(stored)
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


def _reads_environment(result: CompileResult) -> bool:
    """Whether a kernel reads Numba's environment of it, an object of Python's, to make the arguments of an exception.

    Wrappers for Python read it always.
    """
    bodies = [f for f in result.library._get_module_for_linking().functions if not f.is_declaration]
    return any(_ENVIRONMENT in str(f) for f in bodies)


_ENVIRONMENT = "NumbaEnv"  # part of the names of global variables of machine code that have the address of one


def is_called(result: CompileResult) -> bool:
    """Whether Python can call a kernel by its address (`python_call`)."""
    try:
        kinds = kinds_of_types(result.signature.args)
    except NotImplementedError:
        return False
    return result.signature.return_type == types.none and is_callable(kinds)


def _load(path: Path) -> CompileResult | None:
    """The kernel that a file holds; None if it isn't there, is damaged, or was written under another name."""
    start = time.perf_counter()
    try:
        payload = read_checked(path)
        if payload is None:
            return None
        # Numba's own cache calls `refresh`, which imports everything that compiling needs, SciPy's linear algebra among
        # it, and takes 0.2 s.
        initialize_runtime()
        stored: StoredKernel = pickle.loads(payload)
        result = CompileResult._rebuild(loading_context(), stored.library, *unpickled(stored.rest))
    except Exception:  # whatever lies in the file, compiling afresh is right
        return None
    statistics.loaded += 1
    statistics.load_seconds += time.perf_counter() - start
    return result
