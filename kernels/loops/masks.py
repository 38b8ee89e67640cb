"""Masks: how many elements are true, where these are, and what is written there; and places as indices of each dim."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "count_true", "fill_true", "first_true_indices", "put_changed", "repeat_index", "true_indices", "true_places",
    "unravel",
]  # fmt: skip


@loop
def count_true(x, out):
    """The number of elements that are not zero."""
    count = 0
    for k in range(x.size):
        # Summed without a branch, so that it vectorises.
        count += x[k] != T(0)
    out[0] = count


@loop
def true_places(x, out, count):
    """The places of a flat array's elements that are not zero, and how many there are; ``out`` has room for them."""
    at = k = 0
    while k < x.size and at < out.size:
        # Stored in any case, and overwritten by the next place if x[k] is zero: a branch would often be mispredicted.
        out[at] = k
        at += np.int64(x[k] != T(0))
        k += 1
    count[0] = at


@loop
def true_indices(x, out, count, shape):
    """The indices of a flat array's elements that are not zero, those of the first dim, of the next, and so on.

    count: how many elements there are; ``out`` begins with as many indices of each dim.
    """
    found = 0
    for k in range(x.size):
        found += x[k] != T(0)
    at = 0
    for k in range(x.size):
        if x[k] != T(0):
            rest = k
            for d in range(shape.size - 1, -1, -1):
                out[d * found + at] = rest % shape[d]
                rest //= shape[d]
            at += 1
    count[0] = found


@loop
def first_true_indices(x, out, shape, value):
    """The indices of the first elements of a flat array that are not zero, as many rows as ``out`` has, then value."""
    at = 0
    for k in range(x.size):
        if at < out.shape[0] and x[k] != T(0):
            rest = k
            for d in range(shape.size - 1, -1, -1):
                out[at, d] = rest % shape[d]
                rest //= shape[d]
            at += 1
    out[at:] = value


@loop(dtype_from="out")
def fill_true(mask, out, value):
    """Set the elements of a flat array where the mask is true."""
    for k in range(out.size):
        # A select in place of a branch: the store happens anyway, and the loop vectorises.
        out[k] = T(value) if mask[k] else out[k]


@library("out")
def put_changed(before, after, out):
    """Write to ``out``, of any strides, the elements of a row-major array whose bits are others than before."""
    item = before.itemsize
    old, new = (a.reshape(-1).view(np.uint8).reshape(-1, item) for a in (before, after))
    changed = (old != new).any(1).reshape(out.shape)
    out[changed] = after[changed]


@loop
def unravel(places, out, shape):
    """Flat places as indices, a row for each dim: out (dims, m)."""
    last = shape.size - 1
    inner = shape[last]
    begin = -inner  # where the row of the place before begins; only a place in another row needs the divisions
    for k in range(places.size):
        at = places[k] - begin
        if 0 <= at < inner:
            for d in range(last):
                out[d, k] = out[d, k - 1]
        else:
            rest = places[k] // inner
            begin = rest * inner
            at = places[k] - begin
            for d in range(last - 1, -1, -1):
                out[d, k] = rest % shape[d]
                rest //= shape[d]
        out[last, k] = at


@loop
def repeat_index(repeats, out):
    """Each place as often as ``repeats`` says."""
    at = 0
    for k in range(repeats.size):
        for _ in range(repeats[k]):
            out[at] = k
            at += 1
