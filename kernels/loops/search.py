"""Searches in sorted rows, by bisection without branches: processors could not predict them."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.launch import SPLIT_SIZE, library, loop

__all__ = ["FEW", "member", "member_of_few", "search", "sorted_values"]

FEW = 8  # so many elements are compared one after the other faster than sorted and searched


def search_pieces(bounds, values, out, right):
    """(number of pieces, of how many steps): a piece is a value."""
    return values.size, values.size * max(bounds.shape[1], 1).bit_length()


def place_in(row, v, right):
    """How many elements of a sorted row are below v, or with ``right`` not above it; all of them for NaN."""
    # Unsigned, which spares a test for negative indices.
    at, length = np.uint64(0), np.uint64(row.size)
    while length > np.uint64(1):
        half = length >> np.uint64(1)
        before = row[at + half - np.uint64(1)]
        passed = not (before > v) if right else not (before >= v)
        at = at + half if passed else at
        length -= half
    last = row[at] if row.size else v
    passed = not (last > v) if right else not (last >= v)
    return at + np.uint64(passed) if row.size else at


@loop(pieces=search_pieces, dtype_from="values", grain=SPLIT_SIZE)
def search(bounds, values, out, right, begin, end):
    """Places at which values of (rows, m) keep rows of (rows or 1, n) sorted: before equal elements, or behind."""
    m, rows = values.shape[1], bounds.shape[0]
    flat, places = values.reshape(values.size), out.reshape(out.size)
    r, column = begin // m, begin % m
    for k in range(begin, end):
        places[k] = place_in(bounds[r if rows > 1 else 0], flat[k], right)
        column += 1
        if column == m:
            r, column = r + 1, 0


def member_pieces(values, ordered, out, invert):
    """(number of pieces, of how many steps): a piece is a value."""
    return values.size, values.size * max(ordered.size, 1).bit_length()


@loop(pieces=member_pieces, grain=SPLIT_SIZE)
def member(values, ordered, out, invert, begin, end):
    """Whether values are among the elements of a sorted vector, whose NaN are last; ``invert``: whether not."""
    n = np.uint64(ordered.size)
    for k in range(np.uint64(begin), np.uint64(end)):
        v, at, length = values[k], np.uint64(0), n
        while length > np.uint64(1):
            half = length >> np.uint64(1)
            at = at + half if ordered[at + half - np.uint64(1)] < v else at
            length -= half
        found = False
        if n:
            # The search ends at the first element that is not below v, or one before it.
            found = ordered[at] == v
            if at + np.uint64(1) < n:
                found |= ordered[at + np.uint64(1)] == v
        out[k] = found != invert


@loop(split=("values", "out"))
def member_of_few(values, wanted, out, invert):
    """`member` of a few elements in any order."""
    for k in range(values.size):
        found = False
        for i in range(wanted.size):
            found |= values[k] == wanted[i]
        out[k] = found != invert


@library("out")
def sorted_values(x, out):
    """A vector's elements in order, NaN last."""
    out[...] = x
    count = threads.get_num_threads()
    if count == 1 or x.size < SPLIT_SIZE:
        out.sort()
        return
    # Halves on two threads, around the median; on more threads the pieces are smaller.
    places = [x.size * k // count for k in range(count + 1)]
    out.partition(places[1:-1])
    threads.run_together([(out[a:b].sort, ()) for a, b in zip(places, places[1:], strict=False)])
