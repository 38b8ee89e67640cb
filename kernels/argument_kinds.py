"""The kinds of arguments by which kernels are compiled and found: they stand for Numba's types, which only Numba has.

The kind of a number is the name of its type: "int64", "bool", "float64", "complex128". That of an array is an
`ArrayKind`. Both print as Numba's types do, so a tuple of kinds names a kernel's file on disk whoever asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.lazy_array import LazyArray, Unresolved

__all__ = ["ArrayKind", "Kind", "kind_of", "kinds_of", "kinds_of_types", "machine_types", "numba_types", "plain"]


class ArrayKind(NamedTuple):
    """An array's element type and number of dims; layout: "C", "F" or "A", any other."""

    dtype: str
    ndim: int
    layout: str
    readonly: bool
    aligned: bool

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {self.ndim}, {self.layout!r}, {self.readonly}, aligned={self.aligned})"


Kind = str | ArrayKind

# By the name that NumPy and Numba have for it: the machine types of a number as an argument of compiled code.
_MACHINE = {
    "bool": ("i8",), "int8": ("i8",), "uint8": ("i8",), "int16": ("i16",), "uint16": ("i16",), "int32": ("i32",),
    "uint32": ("i32",), "int64": ("word",), "uint64": ("word",), "float32": ("float",), "float64": ("double",),
    "complex64": ("float", "float"), "complex128": ("double", "double"),
}  # fmt: skip
_PYTHON = {bool: "bool", float: "float64", complex: "complex128"}
C, F, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400  # flags of NumPy's arrays
_DECIDING = C | F | ALIGNED | WRITEABLE
_arrays: dict[Any, ArrayKind] = {}  # the kinds met so far, by dtype, number of dims and flags


def kind_of(value: Any) -> Kind:
    """The kind of an argument; NotImplementedError for what only Numba may know a type of."""
    if type(value) is np.ndarray:
        key = value.dtype, value.ndim, value.flags.num & _DECIDING
        return _arrays.get(key) or _new_array_kind(*key)
    if type(value) is int:
        return _kind_of_int(value)
    if type(value) in _PYTHON:
        return _PYTHON[type(value)]
    return _kind_of_other(value)


def kinds_of(args: Sequence[Any]) -> tuple[Kind, ...]:
    """The kinds of all arguments."""
    return tuple([kind_of(a) for a in args])


def _new_array_kind(dtype: np.dtype[Any], ndim: int, flags: int) -> ArrayKind:
    if dtype.name not in _MACHINE or not dtype.isnative:
        raise NotImplementedError(dtype)
    layout = "C" if flags & C else "F" if flags & F else "A"
    made = ArrayKind(dtype.name, ndim, layout, not flags & WRITEABLE, bool(flags & ALIGNED))
    return _arrays.setdefault((dtype, ndim, flags), made)


def _kind_of_int(value: int) -> str:
    if -(1 << 63) <= value < 1 << 63:
        return "int64"
    if 0 <= value < 1 << 64:
        return "uint64"
    raise NotImplementedError(value)


def _kind_of_other(value: Any) -> Kind:
    if isinstance(value, LazyArray):
        raise Unresolved  # else Numba would compile the kernel for a Python object, and fail some milliseconds later
    if isinstance(value, np.generic) and value.dtype.name in _MACHINE:
        return value.dtype.name
    if isinstance(value, np.ndarray) and not _is_masked(value):
        return kind_of(value.view(np.ndarray))
    if isinstance(value, _NUMBERS):  # of a class derived from these
        return kind_of(plain(value))
    raise NotImplementedError(type(value))


def _is_masked(value: Any) -> bool:
    """Whether it is one of NumPy's masked arrays, whose module is not imported unless somebody has done so."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(value, module.MaskedArray)


def plain(value: Any) -> Any:
    """An argument of a known kind as compiled code takes it: a subclass's array as NumPy's, a scalar as a number.

    Of two dtypes of one kind, such as C's long and long long of 64 bits, it takes that which NumPy calls by the name.
    """
    if isinstance(value, np.ndarray):
        dtype = np.dtype(value.dtype.name)
        usual = value.dtype.num == dtype.num and value.dtype.byteorder == dtype.byteorder
        return value if usual and type(value) is np.ndarray else value.view(dtype, np.ndarray)
    if isinstance(value, np.generic):
        return value.item()
    return value if type(value) in _PLAIN else next((m(value) for m in _NUMBERS if isinstance(value, m)), value)


_NUMBERS: tuple[Any, ...] = (int, float, complex)
_PLAIN = (bool, *_NUMBERS)


def machine_types(kinds: Sequence[Kind]) -> tuple[str, ...]:
    """The machine types of such arguments: of an array two owners, size, itemsize, address, shape, strides."""
    found: list[str] = []
    for kind in kinds:
        found += ("word",) * (5 + 2 * kind.ndim) if isinstance(kind, ArrayKind) else _MACHINE[kind]
    return tuple(found)


def kinds_of_types(types: Sequence[Any]) -> tuple[Kind, ...]:
    """The kinds that Numba's types stand for; NotImplementedError where there is none."""

    def kind(t: Any) -> Kind:
        if hasattr(t, "layout") and str(t.dtype) in _MACHINE:
            return ArrayKind(str(t.dtype), t.ndim, t.layout, not t.mutable, t.aligned)
        if str(t) not in _MACHINE:
            raise NotImplementedError(t)
        return str(t)

    return tuple(map(kind, types))


def numba_types(kinds: Sequence[Kind]) -> tuple[Any, ...]:
    """Numba's types of these kinds."""
    from numba import types  # here, as importing Numba takes longer than all that a program from disk needs

    def numba_type(kind: Kind) -> Any:
        if isinstance(kind, ArrayKind):
            number = numba_type(kind.dtype)
            return types.Array(number, kind.ndim, kind.layout, readonly=kind.readonly, aligned=kind.aligned)
        return types.boolean if kind == "bool" else getattr(types, kind)

    return tuple(map(numba_type, kinds))
