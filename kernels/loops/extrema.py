"""Extrema and their places, any and all, exclusive or, over contiguous (outer, n, inner) arrays."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.rows import _from_rank, _mirrored, _rank
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "any_columns", "any_rows", "extreme_columns", "extreme_rows", "find_rows", "locate_columns", "locate_rows",
    "place", "share", "xor_columns", "xor_rows",
]  # fmt: skip

# Elements from which two threads are clearly quicker: a comparison takes three times as long as an addition.
_SPLIT_SIZE = 1 << 16


def better(v, best, largest):
    """Which of two stands: the larger or smaller, the first NaN for ever."""
    return v if (v != v) | ((best == best) & ((v > best) == largest)) else best


def row_largest(row):
    """The largest element of a row, NaN if there is one."""
    # As integers (`_rank`), for LLVM vectorises a running maximum of those and not of floats.
    best = _rank(row[0])
    for i in range(row.size):
        best = max(best, _rank(row[i]))
    return _from_rank(best)


def row_extremum(row, largest):
    """The largest or smallest element of a row, NaN if there is one."""
    if largest:
        return row_largest(row)
    best = _rank(_mirrored(row[0]))
    for i in range(row.size):
        best = max(best, _rank(_mirrored(row[i])))
    return _mirrored(_from_rank(best))


def first_place(row, wanted):
    """Where a row first holds its extremum ``wanted``, or a NaN if that is one."""
    last, i = row.size - 1, 0
    # By blocks, the first place in each as the least of numbers: for vector instructions, which a loop that stops at
    # the first hit can't have.
    while i + 32 <= last:
        part, place = row[i : i + 32], np.int32(32)
        for k in range(np.int32(part.size)):
            hit = (part[k] == wanted) | (part[k] != part[k])
            place = min(place, np.int32(k) if hit else np.int32(32))
        if place < 32:
            return i + place
        i += 32
    # Ends at the last element at the latest: the value is known to be there.
    while i < last and not (row[i] == wanted or row[i] != row[i]):
        i += 1
    return i


@loop(split=("x", "out"), grain=_SPLIT_SIZE)
def extreme_rows(x, out, largest):
    """The largest or smallest of each row (n >= 1); NaN where there is one."""
    for r in range(x.shape[0]):
        out[r] = row_extremum(x[r], largest)


@loop(split=("x", "out", "index"), grain=_SPLIT_SIZE)
def find_rows(x, out, index, largest):
    """`extreme_rows` and where each first stands, while a row is in the cache."""
    for r in range(x.shape[0]):
        out[r] = row_extremum(x[r], largest)
        index[r] = first_place(x[r], out[r])


@loop(split=("x", "out"), grain=_SPLIT_SIZE)
def extreme_columns(x, out, largest):
    """The largest or smallest along n >= 1; NaN where there is one."""
    inner = x.shape[2]
    for o in range(x.shape[0]):
        for j in range(inner):
            out[o, j] = x[o, 0, j]
        for i in range(1, x.shape[1]):
            for j in range(inner):
                # Side by side in memory's order; here no value is carried from one iteration to the next, so floats
                # vectorise.
                out[o, j] = better(x[o, i, j], out[o, j], largest)


@loop(split=("x", "value", "index"), grain=_SPLIT_SIZE)
def locate_rows(x, value, index):
    """Where each row first holds ``value``, or a NaN if that is its extremum."""
    for r in range(x.shape[0]):
        index[r] = first_place(x[r], value[r])


@loop(split=("x", "value", "index"), grain=_SPLIT_SIZE)
def locate_columns(x, value, index):
    """Where ``value``, or a NaN, first stands along n."""
    for o in range(x.shape[0]):
        # From the end on, so that the first place is what remains.
        for i in range(x.shape[1] - 1, -1, -1):
            for j in range(x.shape[2]):
                v = x[o, i, j]
                index[o, j] = i if (v == value[o, j]) | (v != v) else index[o, j]


@loop(split=("x", "out"), grain=_SPLIT_SIZE)
def any_rows(x, out, every):
    """Whether any element of a row is not zero; with ``every``: whether none is zero."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        begin, found = 0, False
        # Steps of 256: vectorised within, left early between.
        while begin < n and not found:
            part = x[r, begin : begin + 256]
            for i in range(part.size):
                found |= (part[i] != 0) != every
            begin += 256
        out[r] = found != every


@loop(split=("x", "out"), grain=_SPLIT_SIZE)
def any_columns(x, out, every):
    """Whether any element along n is not zero; with ``every``: whether none is zero."""
    inner = x.shape[2]
    found = np.empty(inner, np.bool_)
    for o in range(x.shape[0]):
        found[:] = False
        for i in range(x.shape[1]):
            for j in range(inner):
                found[j] |= (x[o, i, j] != 0) != every
        for j in range(inner):
            out[o, j] = found[j] != every


@loop
def all_equal(x, y, out):
    """Whether two vectors have equal elements."""
    begin, same = 0, True
    while begin < x.size and same:  # steps of 256, as above
        left, right = x[begin : begin + 256], y[begin : begin + 256]
        for i in range(left.size):
            same &= left[i] == right[i]
        begin += 256
    out[0] = same


@loop(split=("x", "out"), grain=_SPLIT_SIZE)
def xor_rows(x, out):
    """The exclusive or of all bits of a row's elements, which are whole numbers."""
    for r in range(x.shape[0]):
        found = T(0)
        for i in range(x.shape[1]):
            found ^= x[r, i]
        out[r] = found


@loop(split=("x", "out"), grain=_SPLIT_SIZE)
def xor_columns(x, out):
    """The exclusive or of all bits of the elements along n, which are whole numbers."""
    inner = x.shape[2]
    for o in range(x.shape[0]):
        for j in range(inner):
            out[o, j] = T(0)
        for i in range(x.shape[1]):
            for j in range(inner):
                out[o, j] ^= x[o, i, j]


@loop(split=("g", "index", "out"), grain=_SPLIT_SIZE)
def place(g, index, out):
    """The gradient of a choice: g where it was taken from, zero elsewhere."""
    m, inner = g.shape[1], out.shape[2]
    flat, places, slope = out.reshape(out.size), index.reshape(index.size), g.reshape(g.size)
    for o in range(out.shape[0]):
        block = flat[o * out.shape[1] * inner : (o + 1) * out.shape[1] * inner]
        for i in range(block.size):
            block[i] = T(0)
        for j in range(m):
            at = o * m + j
            block[np.uint64(places[np.uint64(at)] * inner + j)] = slope[np.uint64(at)]


def holds(v, wanted):
    """Whether an element is the extremum. NaN, that of rows that hold one, is equal to nothing."""
    return (v == wanted) | ((v != v) & (wanted != wanted))


@loop(reassoc=True, split=("x", "value", "g", "out"), grain=_SPLIT_SIZE)
def share(x, value, g, out):
    """The gradient of an extremum: g in equal parts wherever x has that value."""
    n, inner = x.shape[1], x.shape[2]
    hits = np.empty(inner, T)
    source, target = x.ravel(), out.ravel()
    for o in range(x.shape[0]):
        if inner == 1:
            row, shares = source[o * n : (o + 1) * n], target[o * n : (o + 1) * n]
            wanted, count = value[o, 0], T(0)
            for i in range(row.size):
                count += T(holds(row[i], wanted))
            part = g[o, 0] / count
            for i in range(row.size):
                shares[i] = part if holds(row[i], wanted) else T(0)
            continue
        wanted_row, slope = value[o], g[o]
        hits[:] = 0
        for i in range(n):
            columns = x[o, i]
            for j in range(inner):
                hits[j] += T(holds(columns[j], wanted_row[j]))
        for j in range(inner):
            hits[j] = slope[j] / hits[j]
        for i in range(n):
            columns, shares = x[o, i], out[o, i]
            for j in range(inner):
                shares[j] = hits[j] if holds(columns[j], wanted_row[j]) else T(0)
