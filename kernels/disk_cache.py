"""Compiled kernels on disk, and the folder that holds them.

A kernel is kept as one file for each combination of argument types. Its name is made of a hash of the kernel's text,
the types, the CPU and the versions of Python and Numba; a file that exists is therefore never stale. Processes that
need the same kernel at once compile it once between them: ``cache_lock.py``. Numba's own ``cache=True`` is not used:
its key misses options, constants and callees, and its index file has no lock.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.gathers import NO_GATHERS
from jitgrad.kernels.loaded_code import unpickled
from jitgrad.kernels.processor import processor
from jitgrad.kernels.statistics import statistics

__all__ = ["DiskCache", "cache_directory", "kept_library", "read_checked", "write_checked"]


def _user_cache() -> Path:
    if os.environ.get("JITGRAD_CACHE_DIR"):
        return Path(os.environ["JITGRAD_CACHE_DIR"])
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "jitgrad" / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "jitgrad"


def _stamp() -> str:
    """Names everything outside the kernel's text that its machine code depends on."""
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k == "NUMBA_OPT")
    host = processor()
    cpu, features = os.environ.get("NUMBA_CPU_NAME") or host[0], os.environ.get("NUMBA_CPU_FEATURES") or host[1]
    digest = hashlib.sha256(repr((features, NO_GATHERS, settings, llvm.get_process_triple())).encode()).hexdigest()[:12]
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    return f"numba{numba.__version__}-{python}-{cpu}-{digest}"


def cache_directory() -> Path:
    """The folder that holds compiled kernels: ``$JITGRAD_CACHE_DIR``, else the user's cache."""
    try:
        return _user_cache() / _stamp()
    except RuntimeError:  # no home directory
        return _temporary_cache() / _stamp()


@functools.cache
def _temporary_cache() -> Path:
    """A folder for this process alone, where the user has no home.

    Not one that other processes would find: what lies in the cache is unpickled, and anybody may write to the folder
    of temporary files.
    """
    folder, process = tempfile.mkdtemp(prefix="jitgrad-"), os.getpid()  # readable and writable by this user only

    @atexit.register
    def remove() -> None:
        if os.getpid() == process:  # a forked child uses its parent's folder
            shutil.rmtree(folder, ignore_errors=True)

    warnings.warn(
        f"jitgrad found no home directory and keeps compiled kernels in {folder} until this process ends; every "
        "process will compile them again. Set JITGRAD_CACHE_DIR to a writable folder.",
        stacklevel=3,
    )
    return Path(folder)


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
        return result

    def unlock(self) -> None:
        """Let other processes go on, whether the kernel was saved or could not be compiled."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        payload = pickle.dumps(result._reduce())
        try:
            path = self._path(signature)
            write_checked(path, payload)
            # For who wants to read a kernel: `Kernel.origin` names this file.
            source = path.parent / f"{self.stem}.py"
            if not source.exists():
                _write(source, self.text.encode())
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


def _checksum(path: Path, payload: bytes) -> bytes:
    """32 bytes of SHA-256 that come first in a file. They cover its name: a kernel copied to another's is not taken."""
    return hashlib.sha256(f"{path.parent.name}/{path.name}".encode() + payload).digest()


def read_checked(path: Path) -> bytes | None:
    """What `write_checked` has written; None if it is damaged or was written under another name."""
    blob = path.read_bytes()
    return blob[32:] if _checksum(path, blob[32:]) == blob[:32] else None


def write_checked(path: Path, payload: bytes) -> None:
    """Write a file of the cache that `read_checked` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, _checksum(path, payload) + payload)


def kept_library(name: str, text: str, compile_library: Callable[[], Any]) -> Any:
    """The library of a module of LLVM's, from disk; else what ``compile_library`` makes, which is then kept there.

    text: the module's, or what else alone decides the machine code. The library must have object caching enabled.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_directory() / f"{name}-{digest}.library"
    if (library := _kept(path)) is not None:
        return library
    lock = CacheLock(path)
    try:
        # Another process may have saved it since this one looked.
        if (library := _kept(path)) is not None:
            return library
        library = compile_library()
        with suppress(Exception):  # a folder that can't be written to, another Numba: every process compiles it again
            write_checked(path, pickle.dumps(library.serialize_using_object_code()))
        return library
    finally:
        lock.release()


def _kept(path: Path) -> Any:
    """The library that a file holds; None if there is none to be had."""
    with suppress(Exception):  # it isn't there, or whatever lies in the file: compiling afresh is right
        if (payload := read_checked(path)) is not None:
            return cpu_target.target_context.codegen().unserialize_library(pickle.loads(payload))


def _load(path: Path, target_context: Any) -> CompileResult | None:
    """The kernel that a file holds; None if it isn't there, is damaged, or was written under another name."""
    start = time.perf_counter()
    try:
        payload = read_checked(path)
        if payload is None:
            return None
        # All that running a compiled kernel needs. Numba's own cache calls `refresh`, which imports everything that
        # compiling needs, SciPy's linear algebra among it, and takes 0.2 s.
        rtsys.initialize(target_context)
        result = CompileResult._rebuild(target_context, *unpickled(payload))
    except Exception:  # whatever lies in the file, compiling afresh is right
        return None
    statistics.loaded += 1
    statistics.load_seconds += time.perf_counter() - start
    return result


def _write(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # Atomic: another process sees the whole file or none.
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
