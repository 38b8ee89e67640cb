"""Libraries of machine code that come from disk: linked into the process as they are, with nothing made of LLVM's.

Numba gives each such library two modules of LLVM's, an empty one, which the code generator is to find the code of, and
that of the library's bitcode, for others to inline. To make them takes longer than all else, and of jitgrad's kernels
and words nobody asks for either. Here a library is its object file; the bitcode is read if somebody asks.
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
    """One of Numba's libraries, finalized; compiled functions that are linked with it find it as they find others."""

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
        return self._final_module  # its symbols are weak already, as those of modules for linking are
