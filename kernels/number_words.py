"""Numbers as words of 64 bits."""

from __future__ import annotations

import struct
from typing import Any

from numba.core import types

__all__ = ["bits", "words_of_number"]


def bits(form: str, value: Any) -> int:
    """A number, packed in a form of `struct`, as a word."""
    return int.from_bytes(struct.pack("=" + form, value).ljust(8, b"\0"), "little", signed=True)


def words_of_number(value: Any, kind: Any) -> list[int]:
    """The words of a number of a Numba type; NotImplementedError for floats of 16 bits."""
    if isinstance(kind, types.Complex):
        form = "d" if kind.bitwidth == 128 else "f"
        return [bits(form, value.real), bits(form, value.imag)]
    if isinstance(kind, types.Float):
        if kind.bitwidth < 32:
            raise NotImplementedError
        return [bits("d" if kind.bitwidth == 64 else "f", value)]
    number = int(value)
    return [number - (1 << 64) if number >= 1 << 63 else number]
