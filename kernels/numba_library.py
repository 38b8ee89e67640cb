"""Machine code from disk as a library of Numba's, for functions that Numba itself calls or links with others, and what
these need when they run."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import binding
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod, rtsys

from jitgrad.kernels.loaded_library import StoredLibrary
from jitgrad.kernels.native_library import kept_library

__all__ = ["initialize_runtime", "numba_library"]


def numba_library(codegen: Any, stored: StoredLibrary) -> Any:
    """The library of what `stored_library` returned, linked by Numba's own linker."""
    return _LoadedLibrary(codegen, stored)


class _LoadedLibrary(JITCodeLibrary):
    """A finalized library with the interface of Numba's; its bitcode is parsed only when it is asked for."""

    def __init__(self, codegen: Any, stored: StoredLibrary):
        CodeLibrary.__init__(self, codegen, stored.name)  # not that of JITCodeLibrary, which makes a module
        self._bitcode, self._module = stored.bitcode, None
        engine = codegen._engine
        engine._ee.add_object_file(binding.ObjectFileRef.from_data(stored.code))
        engine._defined_symbols.update(stored.symbols)
        engine.finalize_object()
        self._finalized = True

    @property
    def _final_module(self) -> Any:
        if self._module is None:
            self._module = binding.parse_bitcode(self._bitcode)
        return self._module

    @property
    def _shared_module(self) -> Any:
        return self._final_module  # what was stored is the module for linking, whose functions are linkonce_odr


@global_compiler_lock
def initialize_runtime() -> None:
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
            load = functools.partial(numba_library, context.codegen())
            return kept_library("numba-runtime", "", compile_library, load)
        except Exception:  # another Numba
            return compile_functions(context)

    try:
        nrtdynmod.compile_nrt_functions = kept
        rtsys.initialize(cpu_target.target_context)
    finally:
        nrtdynmod.compile_nrt_functions = compile_functions
