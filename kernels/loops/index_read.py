"""Elements and rows named by several short index arrays, read in one call of compiled code.

Numba's kernels take 0.2 us and more for a call, and need the indices folded into one before (see `indexing`). This one
finds the arrays by Python's addresses of them, as `join` does, so that it serves all dtypes, ranks and numbers of
indices, and a read of a few elements takes a third of the time.
"""
# mypy: disable-error-code="name-defined"

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.lazy_array import Unresolved
from jitgrad.kernels.machine_words import compiled_words
from jitgrad.kernels.pool_code import DATA, TYPE

__all__ = ["IndexRead", "compiled_read", "index_read"]

HEAD, ROW = 32, 16  # bytes of the table: its head, and what it has of an index


class IndexRead:
    """out[j] = x[i0[j], i1[j], ...], of so many ``places``, each ``run`` bytes that lie together.

    dims: (size, stride in bytes) of the dims that are indexed, by int64 arrays. A table that compiled code reads:
    ``pack(address, id(out), id(x), *map(id, indices))``.
    """

    __slots__ = ("address", "pack", "table")

    def __init__(self, places: int, run: int, dims: Sequence[tuple[int, int]]):
        words = [id(np.ndarray), places, len(dims), run, *(w for dim in dims for w in dim)]
        self.table = np.array(words, np.int64)
        self.address = self.table.ctypes.data
        # "n" is a word, as "q" is, and takes half the time.
        self.pack = struct.Struct(f"@{len(dims) + 3}n").pack


def read_places(packed):
    """Copy the places to ``out``. Returns 1 if an array is not NumPy's, 2 if an index is outside of its dim."""
    table, x, given = read(packed), read(packed + 16), packed + 24
    kind, places, count, run = read(table), read(table + 8), read(table + 16), read(table + 24)
    for k in range(count):
        if read(read(given + 8 * k) + TYPE) != kind:
            return 1
    if read(x + TYPE) != kind:
        return 1
    to = read(read(packed + 8) + DATA)
    for place in range(places):
        at, row = read(x + DATA), table + HEAD
        for k in range(count):
            value, size = read(read(read(given + 8 * k) + DATA) + 8 * place), read(row)
            if value < 0:
                value += size
            if value < 0 or value >= size:
                return 2
            at, row = at + value * read(row + 8), row + ROW
        copy(to, at, run)
        to += run
    return 0


@functools.cache
def compiled_read() -> Callable[[bytes], int]:
    """``read_places`` as machine code."""
    code = compiled_words("index_read", [read_places])
    return ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.c_char_p)(code["read_places"])


def _read(out: Any, how: IndexRead, x: Any, *indices: Any) -> None:
    failed = compiled_read()(how.pack(how.address, id(out), id(x), *map(id, indices)))
    if failed == 1:
        raise Unresolved
    if failed:
        raise IndexError("an index is out of bounds")


index_read = Kernel("index_read", _read, (0,))
