"""Gather and scatter: reading, writing and adding at places that an array names.

Index arrays are int64. Kernels that take them do not check, but for `gather`: `first_outside` and `fold_index` do,
and leave what they found for the caller to raise. Data is seen as (outer, n, inner), where ``n`` is the
dimension that is indexed, and an index for every element (`elements`) as (outer, m, inner).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.kernels.launch import Loop, loop
from jitgrad.kernels.past_caches import STREAMED_BYTES, STREAMED_ROW
from jitgrad.kernels.words.vocabulary import T, drain, prefetch, stream

__all__ = [
    "add_rows",
    "add_strided",
    "embed",
    "embed_large",
    "fill_rows",
    "first_outside",
    "fold_index",
    "put_rows",
    "read_strided",
    "take_folded",
    "take_rows",
]


# -- how work is cut for threads ----------------------------------------------------------------------
#
# Blocks (the outer dim) are independent of each other. A single block is cut along the index where elements are read.
# Where they are written, places may repeat, and what is added to one of them has to be added in the order of the index
# for any number of threads: so what is cut is the rows of the result, or their columns, and each thread goes through
# all of the index. The arrays are read as flat ones, where LLVM knows that neighbours in the last dim are neighbours:
# by ``reshape``, for ``ravel`` may copy, and whatever makes an array counts references, which takes time in each call.

_AHEAD = 8  # a row is prefetched so many rows before it is used
# Columns from which a thread takes half of them. Processors fetch the neighbours of a cache line as well, so that
# threads with halves of narrow rows take lines from one another: to add 4096 rows of 64 so takes 230 us, cut by the
# result's rows 40, on one thread 62.
WIDE_ROWS = 1024
# Columns below which one thread writes all rows. Several would each test every index for rows of their own, a branch
# that is mispredicted half of the time: to add 2,000,000 numbers takes 2 ms on one thread, 11 on two; rows of 16, 0.7
# and 1.0.
NARROW_ROWS = 128
# Targets of more bytes than a second-level cache has are prefetched, so many elements ahead: to add 4,000,000 numbers
# at random places takes 14 ms then, 25 otherwise.
FAR_BYTES, AHEAD = 1 << 20, 64


def read_pieces(x, index, out):
    """(number of pieces, of how many elements) of a read: blocks, or of a single one the rows of the result."""
    return (out.shape[0] if out.shape[0] > 1 else out.shape[1]), out.size


def read_part(outer, m, begin, end):
    """The pieces from ``begin`` to ``end``: (first block, its end, first row, its end)."""
    return (begin, end, 0, m) if outer > 1 else (0, outer, begin, end)


def _row_pieces(n, outer, inner):
    if outer > 1:
        return outer
    return inner if inner >= WIDE_ROWS else n if inner >= NARROW_ROWS else 1


def row_pieces(x, index, out):
    """(number of pieces, of how many elements) of a write of rows: blocks, or of a single one the columns, or rows."""
    outer, n, inner = out.shape
    return _row_pieces(n, outer, inner), max(x.size, index.size)


def filled_row_pieces(index, out, value):
    """``row_pieces`` of a number."""
    outer, n, inner = out.shape
    return _row_pieces(n, outer, inner), index.size * inner


def row_part(outer, n, inner, begin, end):
    """The pieces from ``begin`` to ``end`` of these: (block, its end, row of the result, its end, column, its end)."""
    if outer > 1:
        return begin, end, 0, n, 0, inner
    if inner < NARROW_ROWS:
        return 0, outer, 0, n, 0, inner
    return (0, outer, 0, n, begin, end) if inner >= WIDE_ROWS else (0, outer, begin, end, 0, inner)


# -- rows named by one index array --------------------------------------------------------------------


@loop(pieces=read_pieces)
def take_rows(x, index, out, begin, end):
    """out[o, j] = x[o, index[j]]: x (outer, n, inner), out (outer, m, inner)."""
    n, inner, m = x.shape[1], x.shape[2], index.size
    first, last, low, high = read_part(x.shape[0], m, begin, end)
    source, target, places = x.reshape(x.size), out.reshape(out.size), index[low:high]
    for o in range(first, last):
        if inner == 1:
            row, part = source[o * n : (o + 1) * n], target[o * m + low : o * m + high]
            for j in range(part.size):
                # Unsigned, as checked before: Numba then leaves out its test for negative indices.
                part[j] = row[np.uint64(places[j])]
        else:
            # As many bytes are read as written.
            past = 2 * out.size * x.itemsize >= STREAMED_BYTES and inner * x.itemsize >= STREAMED_ROW
            for j in range(places.size):
                if j + _AHEAD < places.size:
                    prefetch(source, (o * n + places[j + _AHEAD]) * inner)
                at, to = (o * n + places[j]) * inner, (o * m + low + j) * inner
                row, part = source[at : at + inner], target[to : to + inner]
                if past:
                    stream(part, row)
                else:
                    for i in range(part.size):
                        part[i] = row[i]
            if past:
                drain()


def put(old, new):
    return new


def add(old, new):
    return old + new


def multiply(old, new):
    return old * new


def write_rows(name: str, combine: Callable[..., Any]) -> Loop:
    """Make the kernel of out[o, k] = combine(out[o, k], x[o, j]) where k = index[j], in the order of j."""

    def rows(x, index, out, begin, end):
        n, inner, m = out.shape[1], out.shape[2], index.size
        first, last, low, high, left, right = row_part(out.shape[0], n, inner, begin, end)
        source, target, far = x.reshape(x.size), out.reshape(out.size), n * inner * out.itemsize > FAR_BYTES
        for o in range(first, last):
            if inner == 1:
                block, at = np.uint64(o * n), np.uint64(o * m)
                for j in range(np.uint64(m)):
                    if far:
                        prefetch(target, o * n + index[min(np.int64(j) + AHEAD, m - 1)])
                    k = block + np.uint64(index[j])
                    target[k] = combine(target[k], source[at + j])
                continue
            for j in range(m):
                place = index[j]
                if place < low or place >= high:
                    continue
                # Not where threads share the rows: those of another one are not to leave its cache.
                if low == 0 and high == n and j + _AHEAD < m:
                    prefetch(target, (o * n + index[j + _AHEAD]) * inner + left)
                at, to = (o * m + j) * inner, (o * n + place) * inner
                row, part = source[at + left : at + right], target[to + left : to + right]
                for i in range(part.size):
                    part[i] = combine(part[i], row[i])

    rows.__name__ = name  # a kernel is known, and cached, by its name and text
    return loop(rows, pieces=row_pieces)


put_rows = write_rows("put_rows", put)  # the last of several wins
add_rows = write_rows("add_rows", add)


@loop(pieces=filled_row_pieces, dtype_from="out")
def fill_rows(index, out, value, begin, end):
    """out[o, index[j]] = value: out (outer, n, inner)."""
    n, inner = out.shape[1], out.shape[2]
    first, last, low, high, left, right = row_part(out.shape[0], n, inner, begin, end)
    target = out.reshape(out.size)
    for o in range(first, last):
        for j in range(index.size):
            place = index[j]
            if low <= place < high:
                to = (o * n + place) * inner
                target[to + left : to + right] = value


@loop(split=("x", "out"))
def embed(x, out, start, step, inner):
    """Blocks with zeros around them: x (outer, m, length) to out (outer, n), the first at ``start * inner``.

    Each next one begins ``step * inner`` later. A negative ``start`` counts from the end.
    """
    first = np.uint64(start * inner + (out.shape[1] if start < 0 else 0))
    stride = np.uint64(step * inner)
    for o in range(x.shape[0]):
        # Unsigned, as in `take_rows`.
        at, begin = np.uint64(0), first
        if x.shape[2] == 1:  # zeros by vectors, not one between each two elements
            row, blocks = out[o], x[o]
            for i in range(row.size):
                row[i] = T(0)
            for j in range(np.uint64(blocks.shape[0])):
                row[first + j * stride] = blocks[j, 0]
            continue
        for j in range(x.shape[1]):
            for i in range(at, begin):
                out[o, i] = T(0)
            for i in range(np.uint64(x.shape[2])):
                out[o, begin + i] = x[o, j, i]
            at = begin + np.uint64(x.shape[2])
            begin += stride
        for i in range(at, np.uint64(out.shape[1])):
            out[o, i] = T(0)


def elements(x, out, start, inner):
    """(number of pieces, of how many elements): an element of the result each."""
    return out.size, out.size


@loop(pieces=elements)
def embed_large(x, out, start, inner, begin, end):
    """``embed`` of one block that no cache holds, both flat: out[start * inner + i] = x[i], zeros elsewhere."""
    first = start * inner + (out.size if start < 0 else 0)
    left, right = min(max(first, begin), end), min(max(first + x.size, begin), end)
    out[begin:left] = T(0)
    stream(out[left:right], x[left - first : right - first])
    out[right:end] = T(0)
    drain()


@loop(split=("x", "out"))
def add_embedded(x, out, start, step, inner):
    """Blocks added to others, the places of which `embed` tells: x (outer, m, length), out (outer, n)."""
    begin = np.uint64(start * inner + (out.shape[1] if start < 0 else 0))
    stride = np.uint64(step * inner)
    for o in range(x.shape[0]):
        at = begin
        for j in range(x.shape[1]):
            for i in range(np.uint64(x.shape[2])):
                out[o, at + i] += x[o, j, i]
            at += stride


# -- checks -------------------------------------------------------------------------------------------


@loop(split=("index", "found"))
def first_outside(index, found, low, high):
    """Set each row of ``found`` to (1, value) for the first value of a row of ``index`` outside low <= value < high."""
    span = np.uint64(high) - np.uint64(low)
    for r in range(index.shape[0]):
        for begin in range(0, index.shape[1], 1024):
            part, furthest = index[r, begin : begin + 1024], np.uint64(0)
            for k in range(part.size):
                # Unsigned, so that what is below low is far above it; without a branch, for vectors.
                furthest = max(furthest, np.uint64(part[k]) - np.uint64(low))
            if furthest >= span:
                for k in range(part.size):
                    if not low <= part[k] < high:
                        found[r, 0], found[r, 1] = 1, part[k]
                        break
                break


@loop
def fold_index(index, out, found, n, stride, first):
    """out += stride * index (``first``: =), where -n <= index < n counts from either end; else as `first_outside`."""
    for k in range(index.size):
        value = index[k]
        if not -n <= value < n:
            found[0] = 1
            found[1] = value
            break
        place = (value + n if value < 0 else value) * stride
        out[k] = place if first else out[k] + place


@loop
def take_folded(x, index, out):
    """out[k] = x[index[k]] of a flat array, -n <= index[k] < n counting from either end; IndexError for others."""
    n = x.size
    for k in range(index.size):
        place = index[k]
        if not -n <= place < n:
            raise IndexError("an index is out of bounds")
        out[k] = x[np.uint64(place + n if place < 0 else place)]


# -- by strides ---------------------------------------------------------------------------------------


def strided_pieces(x, out, shape, strides, start):
    """(number of rows, of how many elements) of ``read_strided``."""
    return out.size // int(shape[-1]), out.size


@loop(pieces=strided_pieces)
def read_strided(x, out, shape, strides, start, begin, end):
    """Read a flat array along strides that may be negative, from element ``start`` on."""
    last = shape.size - 1
    width, step = shape[last], strides[last]
    longest_run, next_row = (shape[last - 1], strides[last - 1]) if last else (1, 0)
    row = begin
    while row < end:
        # The row's number in mixed radix: its digits are the indices of the outer dimensions. Divided once for all
        # rows that differ in the last of these.
        rest, at = row, start
        for d in range(last - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        for _ in range(min(longest_run - row % longest_run, end - row)):
            target = out[row * width : (row + 1) * width]
            if step == 1:
                source = x[at : at + width]
                for i in range(target.size):
                    target[i] = source[i]
            elif step == -1:
                source = x[at - width + 1 : at + 1]
                for i in range(target.size):
                    target[i] = source[np.uint64(width - 1) - np.uint64(i)]
            else:
                for i in range(target.size):
                    target[i] = x[np.uint64(at + i * step)]
            at, row = at + next_row, row + 1


@loop
def add_strided(x, out, shape, strides):
    """Add a flat array into the places of a strided view, in order: places may repeat.

    ``out`` is the view's memory from its first element on.
    """
    last = shape.size - 1
    rows = np.uint64(1)
    for d in range(last):
        rows *= shape[d]
    k = 0
    for row in range(rows):
        # The row's number in mixed radix: its digits are the indices of the outer dimensions.
        rest, at = row, np.uint64(0)
        for d in range(last - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        for i in range(shape[last]):
            out[at + i * strides[last]] += x[k]
            k += 1
