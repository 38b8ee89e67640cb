"""Calls of compiled kernels from Python, by one piece of machine code instead of a dispatcher and a wrapper for each.

Numba finds the types of a call's arguments, looks for what is compiled for them, and calls that by a C function, its
wrapper, which takes the arguments out of Python's objects, calls the kernel, and raises its error. In a small kernel
the wrapper is a third of the time to compile and half of the machine code. Kernels differ only in their addresses and
in the kinds of their arguments. Here those are data, the descriptions of a `CallTable`: each function of kernels has a
built-in function of its own, whose ``self`` is that table, and all of these run `call_kernel`, which reads it.
"""
# mypy: ignore-errors

from __future__ import annotations

import ctypes
import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from jitgrad.kernels.argument_kinds import ALIGNED, WRITEABLE, ArrayKind, C, F, Kind
from jitgrad.kernels.builtin_function import METH_FASTCALL, builtin_function, function_address, item_place
from jitgrad.kernels.machine_words import INT, WORD, compiled_words
from jitgrad.kernels.native_entry import entry, raise_error
from jitgrad.kernels.number_words import check_layout
from jitgrad.kernels.pool_code import DATA, SIZES, STRIDES, TYPE

__all__ = ["CallTable", "are_found", "is_callable"]

# The fields of a table, by their offsets in bytes. FIRST: the address of the first description, or 0. OTHER: Python's
# function for calls that no description fits. RAISE, NONE: two objects of Python's. ITEMS: from a tuple's address to
# its first item. Then the addresses of these functions of its C interface.
FIRST, OTHER, RAISE, NONE, ITEMS, FUNCTIONS = range(0, 48, 8)
_FUNCTIONS = (
    "PyObject_Vectorcall", "PyErr_Clear", "PyLong_AsLongLong", "PyErr_Occurred", "PyObject_IsTrue",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLongLong", "PyObject_CallOneArg", "Py_DecRef", "Py_NewRef",
)  # fmt: skip
VECTORCALL, CLEAR, AS_WORD, HAS_ERROR, IS_TRUE, RELEASE, ACQUIRE, FROM_WORD, CALL, DROP, SHARE = range(
    FUNCTIONS, FUNCTIONS + 88, 8
)  # fmt: skip
TABLE_WORDS = len(_FUNCTIONS) + FUNCTIONS // 8
# Those of a description. NEXT: the address of the next one, or 0. FUNCTION: Python's function to call, or 0. KERNEL:
# the kernel's address. ENTRY: that of its entry (native_entry.py), which takes BYTES of words. COUNT: of arguments,
# whose records begin at ARGUMENTS.
NEXT, FUNCTION, KERNEL, ENTRY, BYTES, COUNT, ARGUMENTS = range(0, 56, 8)
# Of a record: the offset of the argument's words among the entry's, how they are made, the types of Python's objects
# that it may be; of an array the word of its dtype, its number of dims, which flags decide and what they are, itemsize.
PLACE, HOW, ONE_TYPE, OTHER_TYPE, CODE, DIMS, MASK, FLAGS_SET, ITEM, RECORD = range(0, 80, 8)
ARRAY, INT64, BOOL, FLOAT64, COMPLEX128 = range(5)
_NUMBERS = {
    "int64": (INT64, int, np.int64), "bool": (BOOL, bool, np.bool_), "float64": (FLOAT64, float, np.float64),
    "complex128": (COMPLEX128, complex, np.complex128),
}  # fmt: skip
# Where NumPy's array object has these, behind the address of its numbers; its C headers publish the order of its
# fields. Of a dtype's object the word that tells its kind, byte order and number.
NDIM, DTYPE, FLAGS, DTYPE_CODE = DATA + 8, DATA + 40, DATA + 48, object.__basicsize__ + 8
LOW = (1 << 32) - 1  # of a word that has an int of 32 bits, and padding behind it


def fits(about, arguments, count):
    """Whether the arguments are of the kinds of a description."""
    if count != read(about + COUNT):
        return 0
    at = about + ARGUMENTS
    for k in range(count):
        given = read(arguments + 8 * k)
        if read(given + TYPE) != read(at + ONE_TYPE):
            if read(given + TYPE) != read(at + OTHER_TYPE):
                return 0
        if read(at + HOW) == ARRAY:
            if read(read(given + DTYPE) + DTYPE_CODE) != read(at + CODE):
                return 0
            if (read(given + NDIM) & LOW) != read(at + DIMS):
                return 0
            if (read(given + FLAGS) & read(at + MASK)) != read(at + FLAGS_SET):
                return 0
        at += RECORD
    return 1


def put_array(given, place, item):
    """Write the words of an array."""
    sizes, strides, dims, size = read(given + SIZES), read(given + STRIDES), read(given + NDIM) & LOW, 1
    for k in range(dims):
        size = size * read(sizes + 8 * k)
        write(place + 40 + 8 * k, read(sizes + 8 * k))
        write(place + 40 + 8 * dims + 8 * k, read(strides + 8 * k))
    write(place, 0)  # two owners, of which a kernel needs none
    write(place + 8, 0)
    write(place + 16, size)
    write(place + 24, item)
    write(place + 32, read(given + DATA))


def put_words(table, about, arguments, words):
    """Write the words of all arguments; returns 0 for an int that no word holds."""
    at = about + ARGUMENTS
    for k in range(read(about + COUNT)):
        given, place, how = read(arguments + 8 * k), words + read(at + PLACE), read(at + HOW)
        if how == ARRAY:
            put_array(given, place, read(at + ITEM))
        if how == INT64:
            word = ask(read(table + AS_WORD), given)
            if word == -1:
                if ask(read(table + HAS_ERROR), 0):
                    call(read(table + CLEAR), 0)
                    return 0
            write(place, word)
        if how == BOOL:
            write(place, ask(read(table + IS_TRUE), given) & 1)
        if how >= FLOAT64:
            write(place, read(given + DATA))
        if how == COMPLEX128:
            write(place + 8, read(given + DATA + 8))
        at += RECORD
    return 1


def call_kernel(owner, arguments, count):
    """Call the kernel that is compiled for such arguments, without the GIL, and return None or raise its error."""
    table = read(owner + DATA)
    about = read(table + FIRST)
    while about != 0 and fits(about, arguments, count) == 0:
        about = read(about + NEXT)
    if about != 0:
        if read(about + FUNCTION):
            return ask_python(read(table + VECTORCALL), read(about + FUNCTION), arguments, count, 0)
        words = room(read(about + BYTES))
        write(words, read(about + KERNEL))
        if put_words(table, about, arguments, words):
            state = ask(read(table + RELEASE), 0)
            call(read(about + ENTRY), words)
            call(read(table + ACQUIRE), state)
            if read(words + 8):
                error = ask(read(table + FROM_WORD), read(words + 8))
                ask_both(read(table + CALL), read(table + RAISE), error)
                call(read(table + DROP), error)
                return 0
            return ask(read(table + SHARE), read(table + NONE))
    return ask_python(read(table + VECTORCALL), read(table + OTHER), arguments, count, 0)


def call_with_tuple(owner, arguments, keywords):
    """The same in the other convention of calls: the arguments are a tuple."""
    table = read(owner + DATA)
    return call_kernel(owner, arguments + read(table + ITEMS), read(arguments + DATA))


def _room(builder: ir.IRBuilder, size: Any) -> Any:
    """``room(bytes)``: the address of new memory on the stack, which is freed when the function returns."""
    return builder.ptrtoint(builder.alloca(WORD, builder.lshr(size, WORD(3))), WORD)


def _ask_both(builder: ir.IRBuilder, function: Any, first: Any, second: Any) -> Any:
    """``ask_both(function, word, word)``: calls a C function int(intptr_t, intptr_t)."""
    kind = ir.FunctionType(INT, [WORD, WORD]).as_pointer()
    return builder.sext(builder.call(builder.inttoptr(function, kind), [first, second]), WORD)


def _ask_python(builder: ir.IRBuilder, function: Any, *words: Any) -> Any:
    """``ask_python(function, ...)``: calls a C function intptr_t(intptr_t, intptr_t, intptr_t, intptr_t)."""
    kind = ir.FunctionType(WORD, [WORD] * 4).as_pointer()
    return builder.call(builder.inttoptr(function, kind), words)


@functools.cache
def _call_kernel() -> dict[str, int]:
    """The addresses of `call_kernel` and `call_with_tuple`; an error if objects are laid out in another way."""
    check_layout()
    _check_arrays()
    operations = {"room": _room, "ask_both": _ask_both, "ask_python": _ask_python}
    text = "".join(map(inspect.getsource, operations.values()))
    helpers = [fits, put_array, put_words]
    return compiled_words("python_call", [call_kernel, call_with_tuple], helpers, lambda: operations, text)


def _check_arrays() -> None:
    """NotImplementedError unless NumPy's arrays have their fields where they are read."""
    array = np.zeros((3, 5), np.float32)[::2]

    def word(place: int) -> int:
        return ctypes.c_int64.from_address(place).value

    at = id(array)
    fields = array.ctypes.data, id(array.dtype), array.ndim, array.flags.num & _KNOWN
    found = word(at + DATA), word(at + DTYPE), word(at + NDIM) & LOW, word(at + FLAGS) & _KNOWN
    shape = [word(word(at + SIZES) + 8 * k) for k in range(2)]
    strides = [word(word(at + STRIDES) + 8 * k) for k in range(2)]
    number = word(id(array.dtype) + DTYPE_CODE) >> 32
    if (fields, [2, 5], [40, 4], array.dtype.num) != (found, shape, strides, number):
        raise NotImplementedError("this NumPy lays out arrays in another way")


_KNOWN = C | F | ALIGNED | WRITEABLE


def are_found(kinds: Sequence[Kind]) -> bool:
    """Whether `fits` can recognise arguments of these kinds."""
    return all(isinstance(kind, ArrayKind) or kind in _NUMBERS for kind in kinds)


def is_callable(kinds: Sequence[Kind]) -> bool:
    """Whether `call_kernel` can call kernels that take arguments of these kinds and return nothing."""
    if not are_found(kinds):
        return False
    try:
        _call_kernel()
        entry(kinds)
    except Exception:  # this rests on insides of NumPy and Python, which may change: then Numba calls its kernels
        return False
    return True


class CallTable:
    """The kernels that a built-in function, ``function``, calls: which, the kinds of its arguments decide.

    other: what it calls with arguments of other kinds, and with ints of more than 64 bits. convention: METH_FASTCALL or
    METH_VARARGS_KEYWORDS, in which Numba's dispatchers call.
    """

    def __init__(self, name: str, other: Callable[..., Any], convention: int = METH_FASTCALL):
        self.table = np.zeros(TABLE_WORDS, np.int64)
        self.table[RAISE // 8 : FUNCTIONS // 8] = id(raise_error), id(None), item_place()
        self.table[FUNCTIONS // 8 :] = list(map(function_address, _FUNCTIONS))
        self.descriptions, self.others = list[np.ndarray[Any, Any]](), list[Callable[..., Any]]()
        self.lock = threading.Lock()
        self.set_other(other)
        try:
            address = _call_kernel()["call_kernel" if convention == METH_FASTCALL else "call_with_tuple"]
            self.function = builtin_function(name, address, self.table, convention)
        except Exception:  # see `is_callable`
            self.function = other

    def set_other(self, other: Callable[..., Any]) -> None:
        """Replace ``other``."""
        self.others.append(other)  # those before are kept: one may be running
        self.table[OTHER // 8] = id(other)

    def add(self, kernel: int, kinds: Sequence[Kind], function: Any = None) -> None:
        """Let the kernel at an address, or a function of Python's, be called with arguments of such kinds."""
        made = _description(kernel, kinds)
        if function is not None:
            self.others.append(function)
            made[FUNCTION // 8] = id(function)
        with self.lock:
            # The description is whole before anybody finds it.
            last = self.descriptions[-1][NEXT // 8 :] if self.descriptions else self.table[FIRST // 8 :]
            self.descriptions.append(made)
            last[0] = made.ctypes.data


def _description(kernel: int, kinds: Sequence[Kind]) -> np.ndarray[Any, Any]:
    address, count = entry(kinds)
    found = [0, 0, kernel, address, 8 * count, len(kinds)]
    place = 16
    for kind in kinds:
        if isinstance(kind, ArrayKind):
            dtype = np.dtype(kind.dtype)
            code = ctypes.c_int64.from_address(id(dtype) + DTYPE_CODE).value
            found += [place, ARRAY, id(np.ndarray), id(np.ndarray), code, kind.ndim, *_flags(kind), dtype.itemsize]
            place += 8 * (5 + 2 * kind.ndim)
        else:
            how, one, other = _NUMBERS[kind]
            found += [place, how, id(one), id(other), 0, 0, 0, 0, 0]
            place += 8 * (1 + (how == COMPLEX128))
    return np.array(found, np.int64)


def _flags(kind: ArrayKind) -> tuple[int, int]:
    """(which of its flags decide whether an array is of a kind, what they are)."""
    layout = {"C": (C, C), "F": (C | F, F), "A": (C | F, 0)}[kind.layout]
    further = WRITEABLE * (not kind.readonly) | ALIGNED * kind.aligned
    return layout[0] | ALIGNED | WRITEABLE, layout[1] | further
