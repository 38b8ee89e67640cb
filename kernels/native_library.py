"""Machine code of LLVM modules that jitgrad builds without Numba's front end, kept on disk."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from llvmlite import ir

from jitgrad.kernels.cache_files import cache_directory, read_checked, write_checked
from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.loaded_library import StoredLibrary, load_library, stored_library
from jitgrad.kernels.words.compiler_lock import compiler_lock

__all__ = ["kept_library", "new_library"]


def new_library(name: str, build: Callable[[ir.Module], None], decided_by: str | None = None) -> Any:
    """Machine code of the module that ``build`` fills.

    decided_by: what alone decides what that is; where machine code of it lies on disk, ``build`` isn't called, and
    Numba isn't imported.
    """
    if decided_by is None:
        made = ir.Module(name)
        build(made)
        decided_by = str(made)

    def compile_library() -> Any:
        from jitgrad.kernels.native_compilation import compiled_module  # which imports Numba

        return compiled_module(name, build)

    return kept_library(name.replace(".", "-"), decided_by, compile_library)


def kept_library(
    name: str, text: str, compile_library: Callable[[], Any], load: Callable[[StoredLibrary], Any] = load_library
) -> Any:
    """The library of a module of LLVM's, from disk; else what ``compile_library`` makes, which is then kept there.

    text: the module's, or what else alone decides the machine code. The library must have object caching enabled.
    load: what makes one of what is on disk.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_directory() / f"{name}-{digest}.library"
    if (library := _kept(path, load)) is not None:
        return library
    with compiler_lock():
        lock = CacheLock(path)
        try:
            # Another process may have saved it since this one looked.
            if (library := _kept(path, load)) is not None:
                return library
            library = compile_library()
            with suppress(Exception):  # a folder that can't be written to, another Numba: every process compiles it
                write_checked(path, pickle.dumps(stored_library(library)))
            return library
        finally:
            lock.release()


def _kept(path: Path, load: Callable[[StoredLibrary], Any]) -> Any:
    """The library that a file holds; None if there is none to be had."""
    with suppress(Exception):  # it isn't there, or whatever lies in the file: compiling afresh is right
        if (payload := read_checked(path)) is not None:
            return load(pickle.loads(payload))
