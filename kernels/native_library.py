"""Machine code of LLVM modules that jitgrad builds without Numba's front end, kept on disk."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod, rtsys

from jitgrad.kernels.cache_files import cache_directory, read_checked, write_checked
from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.loaded_library import load_library, stored_library

__all__ = ["initialize_runtime", "new_library", "numba_setting"]


@contextmanager
def numba_setting(name: str, value: Any) -> Iterator[None]:
    """A setting of Numba's for the time of a compilation.

    NUMBA_BOUNDSCHECK and NUMBA_DISABLE_JIT are for loops that users debug. jitgrad's strided kernels index beyond
    arrays of one element on purpose, so both would break them.
    """
    # Numba compiles under this lock (it is reentrant), so no other thread compiles with the changed setting.
    with global_compiler_lock:
        before = getattr(config, name)
        setattr(config, name, value)
        try:
            yield
        finally:
            setattr(config, name, before)


@global_compiler_lock
def new_library(name: str, build: Callable[[ir.Module], None], decided_by: str | None = None) -> Any:
    """Machine code of the module that ``build`` fills.

    decided_by: what alone decides what that is; where machine code of it lies on disk, ``build`` isn't called.
    """

    def module() -> ir.Module:
        made = cpu_target.target_context.create_module(name)
        build(made)
        return made

    file = name.replace(".", "-")
    if decided_by is not None:
        return _kept_library(file, decided_by, lambda: _compiled(name, module()))
    made = module()
    return _kept_library(file, str(made), lambda: _compiled(name, made))


@global_compiler_lock
def initialize_runtime(context: Any) -> None:
    """``rtsys.initialize(context)``, which is all that running a compiled kernel needs.

    Numba's functions that count references are kept on disk; otherwise each process would compile them.
    """
    compile_functions = nrtdynmod.compile_nrt_functions

    def kept(context: Any) -> Any:
        def compile_library() -> Any:
            module, library = nrtdynmod.create_nrt_module(context)
            library.enable_object_caching()
            library.add_ir_module(module)
            library.finalize()
            return library

        try:
            return _kept_library("numba-runtime", "", compile_library)
        except Exception:  # another Numba
            return compile_functions(context)

    try:
        nrtdynmod.compile_nrt_functions = kept
        rtsys.initialize(context)
    finally:
        nrtdynmod.compile_nrt_functions = compile_functions


def _compiled(name: str, module: ir.Module) -> Any:
    library = cpu_target.target_context.codegen().create_library(name)
    library.enable_object_caching()
    # LLVM's simple passes, function by function, put variables into registers. All that it has for whole modules takes
    # twice the time, and these functions, which wait for memory and for one another, are no quicker for it.
    level = type(config.OPT)
    with numba_setting("OPT", level(1)):
        library.add_ir_module(module)
    with numba_setting("OPT", level(0)), numba_setting("LOOP_VECTORIZE", 0):
        library.finalize()
    return library


def _kept_library(name: str, text: str, compile_library: Callable[[], Any]) -> Any:
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
            write_checked(path, pickle.dumps(stored_library(library)))
        return library
    finally:
        lock.release()


def _kept(path: Path) -> Any:
    """The library that a file holds; None if there is none to be had."""
    with suppress(Exception):  # it isn't there, or whatever lies in the file: compiling afresh is right
        if (payload := read_checked(path)) is not None:
            return load_library(cpu_target.target_context.codegen(), pickle.loads(payload))
