"""Calls of compiled kernels from Python, by one piece of machine code instead of a wrapper for each kernel.

Numba compiles a wrapper for each kernel: a C function that takes the arguments out of Python's objects, calls the
kernel, and raises its error. In a small kernel that is a third of the time to compile and half of the machine code.
Wrappers differ only in the kernel's address and in the types of its arguments. Here those are data: each kernel has a
built-in function of its own, whose ``self`` is an array of int64, the description, and all of these functions run
`call_kernel`, which reads it.
"""
# mypy: ignore-errors

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import _helperlib
from numba.core import types
from numba.core.registry import cpu_target

from jitgrad.kernels.builtin_function import (
    METH_VARARGS_KEYWORDS,
    builtin_function,
    function_address,
    item_place,
)  # fmt: skip
from jitgrad.kernels.loaded_library import load_library
from jitgrad.kernels.machine_words import INT, WORD, compiled_words
from jitgrad.kernels.native_entry import entry, raise_error
from jitgrad.kernels.number_words import check_layout
from jitgrad.kernels.pool_code import DATA

__all__ = ["context_with_calls", "is_callable", "python_function"]

# The fields of a description, by their offsets in bytes. KERNEL: the kernel's address. ENTRY: that of its entry
# (native_entry.py), which takes BYTES of words. COUNT: of arguments. ITEMS: from a tuple's address to its first item.
# ADAPT: Numba's function that writes an array's fields as kernels take them. RAISE, NONE: two objects of Python's.
KERNEL, ENTRY, BYTES, COUNT, ITEMS, ADAPT, RAISE, NONE, FUNCTIONS = range(0, 72, 8)
# Then the addresses of these functions of Python's C interface, and for each argument the offset of its words among
# the entry's, and its kind.
_FUNCTIONS = (
    "PyErr_BadArgument", "PyLong_AsLongLong", "PyErr_Occurred", "PyObject_IsTrue", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyLong_FromLongLong", "PyObject_CallOneArg", "Py_DecRef", "Py_NewRef",
)  # fmt: skip
BAD_ARGUMENT, AS_WORD, HAS_ERROR, IS_TRUE, RELEASE, ACQUIRE, FROM_WORD, CALL, DROP, SHARE = range(FUNCTIONS, 144, 8)
ARGUMENTS = 144
ARRAY, INT64, BOOL, FLOAT64, COMPLEX128 = range(5)
_KINDS = {types.int64: INT64, types.boolean: BOOL, types.float64: FLOAT64, types.complex128: COMPLEX128}


def call_kernel(owner, arguments, keywords):
    """Unbox the arguments, call the kernel without the GIL, and return None or raise its error."""
    about = read(owner + DATA)
    words = room(read(about + BYTES))
    write(words, read(about + KERNEL))
    given, at = arguments + read(about + ITEMS), about + ARGUMENTS
    for k in range(read(about + COUNT)):
        argument, place, kind = read(given + 8 * k), words + read(at), read(at + 8)
        if kind == ARRAY:
            if ask_both(read(about + ADAPT), argument, place):
                return ask(read(about + BAD_ARGUMENT), 0)
        if kind == INT64:
            write(place, ask(read(about + AS_WORD), argument))
            if read(place) == -1:
                if ask(read(about + HAS_ERROR), 0):
                    return 0
        if kind == BOOL:
            write(place, ask(read(about + IS_TRUE), argument))
        if kind >= FLOAT64:
            write(place, read(argument + DATA))
        if kind == COMPLEX128:
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
    """``room(bytes)``: the address of new memory on the stack, which is freed when the function returns."""
    return builder.ptrtoint(builder.alloca(WORD, builder.lshr(size, WORD(3))), WORD)


def _ask_both(builder: ir.IRBuilder, function: Any, first: Any, second: Any) -> Any:
    """``ask_both(function, word, word)``: calls a C function int(intptr_t, intptr_t)."""
    kind = ir.FunctionType(INT, [WORD, WORD]).as_pointer()
    return builder.sext(builder.call(builder.inttoptr(function, kind), [first, second]), WORD)


@functools.cache
def _call_kernel() -> int:
    """The address of `call_kernel`; an error where Python's objects are laid out in another way, say."""
    check_layout()
    item_place(), _adapt()
    operations = {"room": _room, "ask_both": _ask_both}
    text = "".join(map(inspect.getsource, operations.values()))
    return compiled_words("python_call", [call_kernel], operations=operations, emitters=text)["call_kernel"]


def _adapt() -> int:
    return _helperlib.c_helpers["adapt_ndarray"]


def is_callable(arguments: Sequence[Any], result: Any) -> bool:
    """Whether `python_function` can call kernels of these Numba types: arrays and Python's numbers, no result."""
    if result != types.none or not all(type(t) is types.Array or t in _KINDS for t in arguments):
        return False
    try:
        _call_kernel()
        entry(arguments)
    except Exception:  # this rests on insides of Numba and Python, which may change: then Numba makes its wrappers
        return False
    return True


def python_function(library: Any, description: Any, environment: Any) -> Any:
    """The built-in function that calls a kernel; in place of ``get_executable`` of Numba's contexts."""
    context = cpu_target.target_context
    if library.get_pointer_to_function(description.llvm_cpython_wrapper_name):
        return context.get_executable(library, description, environment)
    library.codegen.set_env(context.get_env_name(description), environment)  # a global variable of the kernel's code
    words = _description(library.get_pointer_to_function(description.llvm_func_name), description.argtypes)
    name = description.qualname.rpartition(".")[2]
    return builtin_function(name, _call_kernel(), words, METH_VARARGS_KEYWORDS)


@functools.cache
def context_with_calls() -> Any:
    """Numba's context for loading kernels: libraries are read by `load_library`, not as Numba stores them, and kernels
    without a wrapper get a `python_function`.
    """
    made = copy.copy(cpu_target.target_context)
    made.get_executable = python_function
    codegen = made.codegen()
    loading = copy.copy(codegen)
    loading.unserialize_library = functools.partial(load_library, codegen)
    made.codegen = lambda: loading
    return made


def _description(kernel: int, arguments: Sequence[Any]) -> np.ndarray[Any, Any]:
    address, count = entry(arguments)
    found = [kernel, address, 8 * count, len(arguments), item_place(), _adapt(), id(raise_error), id(None)]
    found += map(function_address, _FUNCTIONS)
    place = 16
    for t in arguments:
        found += place, _KINDS.get(t, ARRAY)
        # Two owners, size, itemsize, address, shape, strides; a complex number has two words, others one.
        place += 8 * (5 + 2 * t.ndim if isinstance(t, types.Array) else 1 + (t == types.complex128))
    return np.array(found, np.int64)
