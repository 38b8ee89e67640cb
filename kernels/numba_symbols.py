"""Numba's functions in C, which its machine code calls, known to LLVM without importing Numba.

They are in extension modules that need nothing of the package around them: what reshapes arrays and raises errors, and
what counts references to arrays that kernels make. Numba gives LLVM the same addresses under the same names.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from llvmlite import binding

__all__ = ["add_numba_symbols", "set_environment"]

_HELPERS, _RUNTIME, _FUNCTIONS = "numba._helperlib", "numba.core.runtime._nrt_python", "numba._dynfunc"


@functools.cache
def add_numba_symbols() -> None:
    """Let LLVM know them."""
    for module, start in ((_HELPERS, "numba_"), (_RUNTIME, "NRT_")):
        for name, address in _extension(module).c_helpers.items():
            # A name with an underscore in front is one as it is.
            binding.add_symbol(name if name.startswith("_") and start == "NRT_" else start + name, address)
    if "numba" not in sys.modules:
        binding.add_symbol("numba_unpickle", ctypes.cast(_unpickle, ctypes.c_void_p).value)


_unpickled: dict[tuple[int, bytes], Any] = {}


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def _unpickle(place: int, size: int, digest: int) -> Any:
    """An object whose pickle machine code holds, such as the class of an exception; Numba's own would import Numba."""
    found = ctypes.string_at(place, size)
    if (place, found) not in _unpickled:
        _unpickled[place, found] = pickle.loads(found)
    return _unpickled[place, found]


_environments: list[Any] = []  # machine code is never freed: another library may have taken the same variable


def set_environment(place: int, constants: Sequence[Any]) -> None:
    """Write the address of a new environment of Numba's with these constants to a place in memory."""
    made = _extension(_FUNCTIONS).Environment({})
    made.consts[:] = constants
    _environments.append(made)
    ctypes.c_void_p.from_address(place).value = id(made)


@functools.cache
def _extension(name: str) -> Any:
    """The extension module of that name, without the packages that it is in."""
    if "numba" not in sys.modules:
        with suppress(Exception):  # another Numba
            package, *folders = name.split(".")
            spec = find_spec(package)
            assert spec is not None and spec.origin is not None
            stem = Path(spec.origin).parent.joinpath(*folders)
            path = next(p for suffix in EXTENSION_SUFFIXES if (p := stem.with_name(stem.name + suffix)).exists())
            found = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
            assert found is not None and found.loader is not None
            made = module_from_spec(found)
            found.loader.exec_module(made)
            # Loading some kinds of extensions enters them in ``sys.modules``. Taken out again, they are bound to their
            # package when Numba is imported.
            sys.modules.pop(name, None)
            return made
    return importlib.import_module(name)
