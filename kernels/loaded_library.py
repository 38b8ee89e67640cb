"""Machine code from disk, given to LLVM's JIT linker, without Numba.

Numba would build two LLVM modules for each library that it loads: an empty one, whose compilation is answered by the
cached object file, and one parsed from bitcode, so that other functions can inline the library's. That takes longer
than the linking, and to import Numba takes longer than all else that a program does whose kernels are on disk.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import binding

from jitgrad.kernels.numba_symbols import add_numba_symbols
from jitgrad.kernels.processor import processor
from jitgrad.kernels.words.compiler_lock import linker_lock

__all__ = ["Library", "StoredLibrary", "load_library", "stored_library"]

class StoredLibrary(NamedTuple):
    """What is kept on disk of a library: its name, object file, bitcode, and names.

    symbols: all that it defines. exported: those of them that may be looked up. foreign: functions of Numba's and of
    jitgrad's that it calls, whose addresses LLVM has to be told.
    """

    name: str
    code: bytes
    bitcode: bytes
    symbols: tuple[str, ...]
    exported: tuple[str, ...]
    foreign: tuple[str, ...]


def stored_library(library: Any, serialized: Any = None) -> StoredLibrary:
    """What `load_library` needs of a library of Numba's with object caching.

    serialized: the library as Numba stores it, where that is known.
    """
    name, _, (code, bitcode) = serialized or library.serialize_using_object_code()
    shared = library._get_module_for_linking()
    values = [*shared.functions, *shared.global_variables]
    symbols = [v.name for v in values if not v.is_declaration]
    exported = [v.name for v in values if not v.is_declaration and v.linkage not in _PRIVATE]
    foreign = [v.name for v in values if v.is_declaration and v.name.startswith((*_NUMBAS, "jitgrad."))]
    return StoredLibrary(name, code, bitcode, tuple(symbols), tuple(exported), tuple(foreign))


class Library:
    """Linked machine code. addresses: of what it exports, looked up once, as libraries may use the same names."""

    def __init__(self, addresses: dict[str, int]):
        self.addresses = addresses

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function or a variable."""
        return self.addresses[name]


def load_library(stored: StoredLibrary, names: Sequence[str] | None = None) -> Library:
    """The library of what `stored_library` returned, ready to be called.

    LLVM must know what it calls of jitgrad's already. names: what will be asked for, by default all that it exports;
    each takes LLVM's linker some microseconds.
    """
    if any(name.startswith(_NUMBAS) for name in stored.foreign):
        add_numba_symbols()
    with linker_lock:
        engine = _engine()
        engine.add_object_file(binding.ObjectFileRef.from_data(stored.code))
        engine.finalize_object()
        return Library({name: engine.get_global_value_address(name) for name in names or stored.exported})


@functools.cache
def _engine() -> Any:
    """LLVM's linker, set up as Numba does it."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target, (cpu, features) = binding.Target.from_default_triple(), processor()
    relocation = "static" if target.name.startswith("x86") else "pic" if target.name.startswith("ppc") else "default"
    machine = target.create_target_machine(
        cpu=cpu, features=features, reloc=relocation, codemodel="jitdefault", jit=True
    )
    module = binding.parse_assembly(f'target triple = "{binding.get_process_triple()}"\n')
    return binding.create_mcjit_compiler(module, machine)


_PRIVATE = binding.Linkage.internal, binding.Linkage.private  # of LLVM's kinds of values, those without a symbol
_NUMBAS = "NRT_", "numba_"  # how the names of Numba's functions in C begin
