"""Kernels as they lie on disk, and in memory when they are linked."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NamedTuple

from jitgrad.kernels.builtin_function import METH_VARARGS_KEYWORDS, builtin_function
from jitgrad.kernels.cache_files import read_checked
from jitgrad.kernels.loaded_library import StoredLibrary, load_library
from jitgrad.kernels.mersenne_twister import SYMBOL, add_generator
from jitgrad.kernels.numba_symbols import set_environment

__all__ = ["Overload", "StoredKernel", "load_kernel"]


class StoredKernel(NamedTuple):
    """What a kernel's file holds.

    function: its symbol; "" for one that only Numba can load. called: whether Python calls it by its address
    (`is_callable`). wrapper: the symbol of Numba's function that Python calls otherwise, or "". environments: constants
    by the name of the variable that has the address of Numba's environment, if the kernel reads it, pickled. rest: the
    other parts of Numba's ``CompileResult``, pickled.
    """

    function: str
    called: bool
    wrapper: str
    environments: bytes
    library: StoredLibrary
    rest: bytes


class Overload(NamedTuple):
    """Machine code for one combination of argument kinds.

    address: of the kernel; called: as in `StoredKernel`. function: that which Python calls otherwise, or None.
    library: keeps it in memory.
    """

    address: int
    called: bool
    function: Any
    library: Any


def load_kernel(path: Path) -> Overload | None:
    """What a file holds, linked; None if it is damaged, or only Numba can call it."""
    if (payload := read_checked(path)) is None:
        return None
    stored: StoredKernel = pickle.loads(payload)
    if not stored.function:
        return None
    environments, wrapper = pickle.loads(stored.environments), "" if stored.called else stored.wrapper
    if SYMBOL in stored.library.foreign:
        add_generator()
    library = load_library(stored.library, [stored.function, *environments, *filter(None, [wrapper])])
    for name, constants in environments.items():
        set_environment(library.get_pointer_to_function(name), constants)
    address, function = library.get_pointer_to_function(stored.function), None
    if wrapper:
        place = library.get_pointer_to_function(wrapper)
        function = builtin_function(path.name.partition("-")[0], place, None, METH_VARARGS_KEYWORDS)
    return Overload(address, stored.called, function, library)
