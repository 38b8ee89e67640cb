"""Reading and writing elements of blocks (outer, n, inner), each named by an element of an index (outer, m, inner).

But for `gather` and the writes to copies, kernels do not check indices, which are int64; see `indexing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.kernels.launch import Loop, loop
from jitgrad.kernels.loops.indexing import (
    AHEAD,
    FAR_BYTES,
    add,
    multiply,
    put,
    read_part,
    read_pieces,
)
from jitgrad.kernels.words.vocabulary import T, prefetch

__all__ = [
    "WRITE_COPIES", "gather", "scatter", "scatter_add", "scatter_fill", "scatter_multiply", "spread_elements",
]  # fmt: skip


def outside(places, n):
    """Whether any of some places is not in 0 .. n - 1."""
    furthest = np.uint64(0)
    for k in range(places.size):
        # Unsigned, so that what is below 0 is far above n; without a branch, for vectors.
        furthest = max(furthest, np.uint64(places[k]))
    return furthest >= np.uint64(n)


CHECKED = 4096  # indices at a time, if blocks are small: they stay in the cache between the check and the read


@loop(pieces=read_pieces)
def gather(x, index, out, begin, end):
    """out[o, j, i] = x[o, index[o, j, i], i]. IndexError, and no more is read, for an index outside of 0 .. n - 1."""
    n, inner, m = x.shape[1], x.shape[2], index.shape[1]
    first, last, low, high = read_part(x.shape[0], m, begin, end)
    source, target, places = x.reshape(x.size), out.reshape(out.size), index.reshape(index.size)
    # Counted without signs, as the indices are once they are checked: Numba then leaves out its test for negative ones.
    columns, width, group = np.uint64(inner), np.uint64((high - low) * inner), max(1, CHECKED // max(m * inner, 1))
    for start in range(first, last, group):
        stop = min(start + group, last)
        if outside(places[(start * m + low) * inner : ((stop - 1) * m + high) * inner], n):
            raise IndexError("an index is out of bounds")
        for o in range(start, stop):
            block, at = np.uint64(o * n * inner), np.uint64((o * m + low) * inner)
            if inner == 1:
                for k in range(width):
                    target[at + k] = source[block + np.uint64(places[at + k])]
                continue
            end_of_block = at + width
            while at < end_of_block:
                for i in range(columns):
                    target[at + i] = source[block + np.uint64(places[at + i]) * columns + i]
                at += columns


def write_pieces(x, index, out):
    """(number of blocks, of how many elements) of a write. A block is one thread's: see NARROW_ROWS in indexing.py."""
    return out.shape[0], max(x.size, index.size)


def fill_pieces(index, out, value):
    """``write_pieces`` of a number."""
    return out.shape[0], index.size


def write_elements(name: str, combine: Callable[..., Any]) -> Loop:
    """Make the kernel of out[o, k, i] = combine(out[o, k, i], x[o, j, i]), k = index[o, j, i], in the order of j."""

    def elements(x, index, out, begin, end):
        n, inner, m = out.shape[1], out.shape[2], index.shape[1]
        source, target, places = x.reshape(x.size), out.reshape(out.size), index.reshape(index.size)
        # Without signs, as in `gather`.
        columns, far = np.uint64(inner), n * inner * out.itemsize > FAR_BYTES
        for o in range(begin, end):
            block, at = np.uint64(o * n * inner), np.uint64(o * m * inner)
            if inner == 1:
                for k in range(np.uint64(m)):
                    if far:
                        prefetch(target, np.int64(block) + places[at + np.uint64(min(np.int64(k) + AHEAD, m - 1))])
                    place = block + np.uint64(places[at + k])
                    target[place] = combine(target[place], source[at + k])
                continue
            for j in range(m):
                later = at + np.uint64(min(max(AHEAD // inner, 1), m - 1 - j)) * columns
                for i in range(columns):
                    if far:
                        prefetch(target, np.int64(block + np.uint64(places[later + i]) * columns + i))
                    place = block + np.uint64(places[at + i]) * columns + i
                    target[place] = combine(target[place], source[at + i])
                at += columns

    elements.__name__ = name
    return loop(elements, pieces=write_pieces)


scatter = write_elements("scatter", put)
scatter_add = write_elements("scatter_add", add)
scatter_multiply = write_elements("scatter_multiply", multiply)


def copy_pieces(before, x, index, out):
    """(number of blocks, of how many elements) of a write into a copy."""
    return out.shape[0], out.size


def write_copies(name: str, combine: Callable[..., Any]) -> Loop:
    """Make the kernel of `write_elements` for an ``out`` that is made a copy of ``before`` first.

    Each block is checked, copied and written to before the next one, while a core's cache has it. IndexError for an
    index outside of 0 .. n - 1.
    """

    def copies(before, x, index, out, begin, end):
        n, inner, m = out.shape[1], out.shape[2], index.shape[1]
        size, kept, written = n * inner, before.reshape(out.size), out.reshape(out.size)
        source, places, columns = x.reshape(x.size), index.reshape(index.size), np.uint64(inner)
        for o in range(begin, end):
            at = np.uint64(o * m * inner)
            if outside(places[o * m * inner : (o + 1) * m * inner], n):
                raise IndexError("an index is out of bounds")
            row, target = kept[o * size : (o + 1) * size], written[o * size : (o + 1) * size]
            for k in range(size):
                target[k] = row[k]
            if inner == 1:
                for k in range(np.uint64(m)):
                    place = np.uint64(places[at + k])
                    target[place] = combine(target[place], source[at + k])
                continue
            for _ in range(m):
                for i in range(columns):
                    place = np.uint64(places[at + i]) * columns + i
                    target[place] = combine(target[place], source[at + i])
                at += columns

    copies.__name__ = name
    return loop(copies, pieces=copy_pieces)


# {kernel that writes to an array: kernel of the same write to a copy}.
WRITE_COPIES = {scatter: write_copies("scatter_copy", put), scatter_add: write_copies("scatter_add_copy", add)}


def spread_pieces(x, index, out):
    """(number of blocks, of how many elements) of sums at the places of an index."""
    return out.shape[0], out.size


@loop(pieces=spread_pieces)
def spread_elements(x, index, out, begin, end):
    """out[o, k, i] = the sum of x[o, j, i] where k = index[o, j, i], in the order of j.

    Each block is cleared and added to before the next one, while a core's cache has it.
    """
    n, inner, m = out.shape[1], out.shape[2], index.shape[1]
    source, target, places = x.reshape(x.size), out.reshape(out.size), index.reshape(index.size)
    columns, size = np.uint64(inner), np.uint64(n * inner)
    for o in range(begin, end):
        block, at = np.uint64(o * n * inner), np.uint64(o * m * inner)
        for k in range(size):
            target[block + k] = T(0)
        # Without signs: a place below 0 is far beyond the block.
        if inner == 1:
            for k in range(np.uint64(m)):
                place = np.uint64(places[at + k])
                if place < size:
                    target[block + place] += source[at + k]
            continue
        for _ in range(m):
            for i in range(columns):
                place = np.uint64(places[at + i]) * columns + i
                if place < size:
                    target[block + place] += source[at + i]
            at += columns


@loop(pieces=fill_pieces, dtype_from="out")
def scatter_fill(index, out, value, begin, end):
    """out[o, index[o, j, i], i] = value."""
    n, inner, m = out.shape[1], out.shape[2], index.shape[1]
    target, places = out.reshape(out.size), index.reshape(index.size)
    columns = np.uint64(inner)
    for o in range(begin, end):
        block, at = np.uint64(o * n * inner), np.uint64(o * m * inner)
        for _ in range(m):
            for i in range(columns):
                target[block + np.uint64(places[at + i]) * columns + i] = value
            at += columns
