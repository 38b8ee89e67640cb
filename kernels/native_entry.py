"""Compiled kernels by address: one C function ``void(intptr_t words)`` for all kernels of the same argument types.

The words: the kernel's address, a word for its error (0: none), then its arguments, each the fields of Numba's struct
in turn, an array's owners, size, itemsize, address, shape and strides. So a table of such pairs (entry, words) can be
run by compiled code, on any thread, without Python. An entry takes 6 ms to make, 1 ms from disk, and serves all kernels
whose arguments have the same machine types; of arrays the number of dims decides, not the dtype.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llvmlite import ir

from jitgrad.kernels.argument_kinds import Kind, machine_types
from jitgrad.kernels.machine_words import WORD
from jitgrad.kernels.native_library import new_library

__all__ = ["HEAD", "entry", "raise_error"]

HEAD = 2  # words before the arguments
OK, NONE, RAISED = 0, -2, 1  # what Numba's functions return: they have ended, with or without a value; from 1 on raised


def entry(arguments: Sequence[Kind]) -> tuple[int, int]:
    """(address, number of words) of the entry to kernels that take arguments of these kinds."""
    types = machine_types(arguments)  # pointers are words as well, so what they point to need not be told apart
    return _entry(types), HEAD + len(types)


_TYPES = {"word": WORD, "double": ir.DoubleType(), "float": ir.FloatType()}


@functools.cache
def _entry(kinds: tuple[str, ...]) -> int:
    result = error = WORD
    given = [_TYPES.get(k) or ir.IntType(int(k.removeprefix("i"))) for k in kinds]
    kernel = ir.FunctionType(ir.IntType(32), [result.as_pointer(), error.as_pointer(), *given]).as_pointer()

    def build(module: ir.Module) -> None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD]), "entry")
        builder = ir.IRBuilder(function.append_basic_block())

        def place(k: int, kind: Any = WORD) -> Any:
            address = builder.add(function.args[0], WORD(8 * k))
            return builder.inttoptr(address, kind.as_pointer())

        values = [builder.load(place(HEAD + k, kind)) for k, kind in enumerate(given)]
        places = builder.alloca(result), builder.alloca(error)
        code = builder.call(builder.inttoptr(builder.load(place(0)), kernel), [*places, *values])
        # Of an exception Numba gives the address of a description; 1 stands for any other error.
        ok, none, raised = map(code.type, (OK, NONE, RAISED))
        fine = builder.or_(builder.icmp_signed("==", code, ok), builder.icmp_signed("==", code, none))
        why = builder.select(builder.icmp_signed(">=", code, raised), builder.load(places[1]), WORD(1))
        builder.store(builder.select(fine, WORD(0), why), place(1))
        builder.ret_void()

    library = new_library("entry", build, f"{_text()}\n{kinds}")
    _kept.append(library)
    return library.get_pointer_to_function("entry")


@functools.cache
def _text() -> str:
    """What decides, with the kinds of its arguments, what an entry is."""
    return Path(__file__).read_text()


_kept: list[Any] = []  # machine code lives as long as its library


def raise_error(error: int) -> None:
    """Raise the exception that a kernel left in the word for its error."""
    if error == 1:
        raise SystemError("a kernel failed without saying why")
    _raiser()(error)


@functools.cache
def _raiser() -> Any:
    """The function that makes Python's exception from Numba's description, as Numba's own wrappers do it."""

    def build(module: ir.Module) -> None:
        from jitgrad.kernels.native_compilation import build_raiser  # which imports Numba

        build_raiser(module)

    library = new_library("raise_error", build, _text())
    _kept.append(library)
    address = library.get_pointer_to_function("raise_error")
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_ssize_t)(address)
