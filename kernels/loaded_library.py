"""Compiled libraries from the disk cache: their object files are given to LLVM's JIT linker directly.

Numba builds two LLVM modules for each library that it loads: an empty one, whose compilation is answered by the cached
object file, and one parsed from bitcode, so that other functions can inline the library's. That takes longer than the
linking, and nothing inlines jitgrad's kernels. Here the bitcode is parsed only when it is asked for.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core.codegen import CodeLibrary, JITCodeLibrary

__all__ = ["load_library", "stored_library"]


def stored_library(library: Any, serialized: Any = None) -> tuple[str, bytes, bytes, tuple[str, ...]]:
    """What `load_library` needs of a library with object caching: name, object file, bitcode, symbols it defines.

    serialized: the library as Numba stores it, where that is known.
    """
    name, _, (code, bitcode) = serialized or library.serialize_using_object_code()
    shared = library._get_module_for_linking()
    symbols = [v.name for values in (shared.functions, shared.global_variables) for v in values if not v.is_declaration]
    return name, code, bitcode, tuple(symbols)


def load_library(codegen: Any, stored: tuple[str, bytes, bytes, tuple[str, ...]]) -> Any:
    """The library of what `stored_library` returned, ready to be called."""
    return _LoadedLibrary(codegen, *stored)


class _LoadedLibrary(JITCodeLibrary):
    """A finalized library with the interface of Numba's, so that other functions can be linked with it."""

    def __init__(self, codegen: Any, name: str, code: bytes, bitcode: bytes, symbols: tuple[str, ...]):
        CodeLibrary.__init__(self, codegen, name)  # not that of JITCodeLibrary, which makes a module
        self._bitcode, self._module = bitcode, None
        engine = codegen._engine
        engine._ee.add_object_file(binding.ObjectFileRef.from_data(code))
        engine._defined_symbols.update(symbols)
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
