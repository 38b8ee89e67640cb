"""Compiled words as a built-in function of Python's, which a call reaches in 40 ns; by ctypes it takes 300 to 500.

The function has one of three calling conventions of C extensions: METH_O, ``PyObject *(PyObject *self, PyObject
*argument)``; METH_FASTCALL, ``PyObject *(PyObject *self, PyObject *const *arguments, Py_ssize_t count)``; and
METH_VARARGS | METH_KEYWORDS, ``PyObject *(PyObject *self, PyObject *tuple, PyObject *dict)``. It is called with the GIL
held, borrows all references and returns a new one.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

__all__ = [
    "METH_FASTCALL", "METH_O", "METH_VARARGS_KEYWORDS", "builtin_function", "function_address", "item_place", "new_int",
]  # fmt: skip

METH_VARARGS_KEYWORDS, METH_O, METH_FASTCALL = 0x0001 | 0x0002, 0x0008, 0x0080


class _Definition(ctypes.Structure):
    """PyMethodDef of Python's stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


@functools.cache  # and kept, since Python does not copy definitions
def _definition(name: str, address: int, flags: int) -> _Definition:
    return _Definition(name.encode(), address, flags, None)


def builtin_function(name: str, address: int, owner: Any, convention: int = METH_O) -> Callable[..., Any]:
    """The C function at ``address`` as one of Python's; ``owner`` is its ``self``, which it keeps alive."""
    definition = _definition(name, address, convention)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = make(ctypes.addressof(definition), owner, None)
    return made


@functools.cache
def function_address(name: str) -> int:
    """The address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def new_int() -> int:
    """The address of Python's function that makes an int of a word."""
    return function_address("PyLong_FromSsize_t")


@functools.cache
def item_place() -> int:
    """How many bytes behind the start of a tuple the address of its first item stands."""
    tried = (object(), object())
    for place in range(object.__basicsize__, tuple.__basicsize__ + 1, 8):
        words = [ctypes.c_ssize_t.from_address(id(tried) + place + 8 * k).value for k in range(2)]
        if words == [id(t) for t in tried]:
            return place
    raise NotImplementedError("this Python lays out tuples in another way")
