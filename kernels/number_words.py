"""Numbers as words of 64 bits, and where objects of Python's and NumPy's have them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from jitgrad.kernels.pool_code import DATA

__all__ = ["bits", "check_layout", "words_of_number"]


def check_layout() -> None:
    """NotImplementedError unless floats and complex numbers, Python's and NumPy's, have their own fields at DATA."""
    for number, place in ((1.25, 0), (np.float64(1.25), 0), (1.25j, 8), (np.complex128(1.25j), 8)):
        if ctypes.c_double.from_address(id(number) + DATA + place).value != 1.25:
            raise NotImplementedError


def bits(form: str, value: Any) -> int:
    """A number, packed in a form of `struct`, as a word."""
    return int.from_bytes(struct.pack("=" + form, value).ljust(8, b"\0"), "little", signed=True)


_FORMS = {"float32": "f", "float64": "d", "complex64": "f", "complex128": "d"}


def words_of_number(value: Any, kind: str) -> list[int]:
    """The words of a number of a kind (argument_kinds.py)."""
    if kind in _FORMS:
        parts = (value.real, value.imag) if kind.startswith("complex") else (value,)
        return [bits(_FORMS[kind], part) for part in parts]
    number = int(value)
    return [number - (1 << 64) if number >= 1 << 63 else number]
