"""Compiled kernels as functions of Python's, with one piece of machine code for all of them.

Numba compiles a function for each kernel that takes Python's arguments apart, calls it and raises its error: a third of
the time that a small kernel takes to compile, and half of its machine code. Two of these differ in the kernel that they
call, and in the types of its arguments. Both are words here, which `call_kernel` reads.
"""
# mypy: ignore-errors

from __future__ import annotations

import copy
import ctypes
import functools
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import _helperlib
from numba.core import types

from jitgrad.kernels.builtin_function import builtin_function, function_address, item_place
from jitgrad.kernels.machine_words import INT, WORD, compiled_words
from jitgrad.kernels.native_entry import entry, raise_error

__all__ = ["context_with_calls", "is_served"]

# Where an array has the address of its numbers, and a float or complex number (NumPy's, too) its own.
DATA = object.__basicsize__
# Where a kernel's words have what, in bytes: the kernel, its entry, the bytes that this takes, how many arguments there
# are and where a tuple has the first; the functions below; where words for arguments begin (place, kind).
KERNEL, ENTRY, BYTES, COUNT, ITEMS, ADAPT, RAISE, NONE, FUNCTIONS = range(0, 72, 8)
_FUNCTIONS = (
    "PyErr_BadArgument", "PyLong_AsLongLong", "PyErr_Occurred", "PyObject_IsTrue", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyLong_FromLongLong", "PyObject_CallOneArg", "Py_DecRef", "Py_NewRef",
)  # fmt: skip
BAD_ARGUMENT, AS_WORD, HAS_ERROR, IS_TRUE, RELEASE, ACQUIRE, FROM_WORD, CALL, DROP, SHARE = range(FUNCTIONS, 144, 8)
ARGUMENTS = 144
ARRAY, WHOLE, TRUTH, REAL, COMPLEX = range(5)  # kinds of arguments
_KINDS = {types.int64: WHOLE, types.boolean: TRUTH, types.float64: REAL, types.complex128: COMPLEX}


def call_kernel(owner, arguments, keywords):
    """Read the arguments, call the kernel without the GIL, and return None or raise its error."""
    about = read(owner + DATA)
    words = room(read(about + BYTES))
    write(words, read(about + KERNEL))
    given, at = arguments + read(about + ITEMS), about + ARGUMENTS
    for k in range(read(about + COUNT)):
        argument, place, kind = read(given + 8 * k), words + read(at), read(at + 8)
        if kind == ARRAY:
            if ask_both(read(about + ADAPT), argument, place):
                return ask(read(about + BAD_ARGUMENT), 0)
        if kind == WHOLE:
            write(place, ask(read(about + AS_WORD), argument))
            if read(place) == -1:
                if ask(read(about + HAS_ERROR), 0):
                    return 0
        if kind == TRUTH:
            write(place, ask(read(about + IS_TRUE), argument))
        if kind >= REAL:
            write(place, read(argument + DATA))
        if kind == COMPLEX:
            write(place + 8, read(argument + DATA + 8))
        at += 16
    state = ask(read(about + RELEASE), 0)
    call(read(about + ENTRY), words)
    call(read(about + ACQUIRE), state)
    if read(words + 8):
        error = ask(read(about + FROM_WORD), read(words + 8))
        ask_both(read(about + CALL), read(about + RAISE), error)
        call(read(about + DROP), error)
        return 0
    return ask(read(about + SHARE), read(about + NONE))


def _room(builder: ir.IRBuilder, size: Any) -> Any:
    """The address of so many bytes of the stack, which are given back when the function returns."""
    return builder.ptrtoint(builder.alloca(WORD, builder.lshr(size, WORD(3))), WORD)


def _ask_both(builder: ir.IRBuilder, function: Any, first: Any, second: Any) -> Any:
    """Calls a C function int(intptr_t, intptr_t), or one that returns a pointer that nobody needs."""
    kind = ir.FunctionType(INT, [WORD, WORD]).as_pointer()
    return builder.sext(builder.call(builder.inttoptr(function, kind), [first, second]), WORD)


@functools.cache
def _call_kernel() -> int:
    """The address of `call_kernel`; an error where Python lays out numbers or tuples in another way, say."""
    numbers = (1.25, 0), (np.float64(1.25), 0), (1.25j, 8), (np.complex128(1.25j), 8)
    if any(ctypes.c_double.from_address(id(number) + DATA + at).value != 1.25 for number, at in numbers):
        raise NotImplementedError
    item_place(), _adapt()
    operations = {"room": _room, "ask_both": _ask_both}
    text = "".join(map(inspect.getsource, operations.values()))
    return compiled_words("python_call", [call_kernel], operations=operations, emitters=text)["call_kernel"]


def _adapt() -> int:
    """The address of Numba's function that writes an array's fields, as kernels take them, to an address."""
    return _helperlib.c_helpers["adapt_ndarray"]


def is_served(arguments: Sequence[Any], result: Any) -> bool:
    """Whether kernels of these Numba types can do without a function of their own."""
    if result != types.none or not all(type(t) is types.Array or t in _KINDS for t in arguments):
        return False
    try:
        _call_kernel()
        entry(arguments)
    except Exception:  # this rests on Numba's and Python's insides, which may change: Numba makes its own function then
        return False
    return True


def context_with_calls(context: Any) -> Any:
    """A copy of Numba's context that makes functions of Python's of kernels which have none of their own."""
    made = copy.copy(context)
    made.get_executable = functools.partial(_function, context)
    return made


def _function(context: Any, library: Any, description: Any, environment: Any) -> Any:
    if library.get_pointer_to_function(description.llvm_cpython_wrapper_name):
        return context.get_executable(library, description, environment)
    library.codegen.set_env(context.get_env_name(description), environment)  # for the kernel's own code
    words = _words(library.get_pointer_to_function(description.llvm_func_name), description.argtypes)
    return builtin_function(description.qualname.rpartition(".")[2], _call_kernel(), words, keywords=True)


def _words(kernel: int, arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
    address, count = entry(arguments)
    found = [kernel, address, 8 * count, len(arguments), item_place(), _adapt(), id(raise_error), id(None)]
    found += map(function_address, _FUNCTIONS)
    place = 16
    for t in arguments:
        found += place, _KINDS.get(t, ARRAY)
        # Two owners, size, itemsize, address, shape, strides; a complex number has two words, others one.
        place += 8 * (5 + 2 * t.ndim if isinstance(t, types.Array) else 1 + (t == types.complex128))
    return np.array(found, np.int64)
