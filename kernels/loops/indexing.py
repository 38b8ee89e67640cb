"""Gather and scatter: reading, writing and adding at places that an array names.

Index arrays are int64. Kernels that take them do not check: `first_outside` and `fold_index` do, and
leave what they found for the caller to raise. Data is seen as (outer, n, inner), where ``n`` is the
dimension that is indexed.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "add_rows",
    "add_strided",
    "count_true",
    "embed",
    "fill_true",
    "first_outside",
    "fold_index",
    "gather",
    "put_rows",
    "read_strided",
    "repeat_index",
    "scatter",
    "scatter_add",
    "scatter_fill",
    "scatter_multiply",
    "take_rows",
    "true_places",
    "unravel",
]


# -- rows named by one index array --------------------------------------------------------------------


@loop(split=("x", "out"))
def take_rows(x, index, out):
    """out[o, j] = x[o, index[j]]: x (outer, n, inner), out (outer, m, inner)."""
    for o in range(x.shape[0]):
        for j in range(index.size):
            # Unsigned, as checked before: Numba then leaves out its test for negative indices.
            row = np.uint64(index[j])
            for i in range(x.shape[2]):
                out[o, j, i] = x[o, row, i]


@loop(split=("x", "out"))
def put_rows(x, index, out):
    """out[o, index[j]] = x[o, j], the last of several winning."""
    for o in range(x.shape[0]):
        for j in range(index.size):
            row = np.uint64(index[j])
            for i in range(x.shape[2]):
                out[o, row, i] = x[o, j, i]


@loop(split=("x", "out"))
def add_rows(x, index, out):
    """out[o, index[j]] += x[o, j], in the order of j."""
    for o in range(x.shape[0]):
        for j in range(index.size):
            row = np.uint64(index[j])
            for i in range(x.shape[2]):
                out[o, row, i] += x[o, j, i]


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
        for j in range(x.shape[1]):
            for i in range(at, begin):
                out[o, i] = T(0)
            for i in range(np.uint64(x.shape[2])):
                out[o, begin + i] = x[o, j, i]
            at = begin + np.uint64(x.shape[2])
            begin += stride
        for i in range(at, np.uint64(out.shape[1])):
            out[o, i] = T(0)


# -- an index for every element -----------------------------------------------------------------------


@loop(split=("x", "index", "out"))
def gather(x, index, out):
    """out[o, j, i] = x[o, index[o, j, i], i]."""
    for o in range(index.shape[0]):
        for j in range(index.shape[1]):
            for i in range(index.shape[2]):
                out[o, j, i] = x[o, np.uint64(index[o, j, i]), i]


@loop(split=("x", "index", "out"))
def scatter(x, index, out):
    """out[o, index[o, j, i], i] = x[o, j, i], the last of several winning."""
    for o in range(index.shape[0]):
        for j in range(index.shape[1]):
            for i in range(index.shape[2]):
                out[o, np.uint64(index[o, j, i]), i] = x[o, j, i]


@loop(split=("x", "index", "out"))
def scatter_add(x, index, out):
    """out[o, index[o, j, i], i] += x[o, j, i], in the order of j."""
    for o in range(index.shape[0]):
        for j in range(index.shape[1]):
            for i in range(index.shape[2]):
                out[o, np.uint64(index[o, j, i]), i] += x[o, j, i]


@loop(split=("x", "index", "out"))
def scatter_multiply(x, index, out):
    """out[o, index[o, j, i], i] *= x[o, j, i], in the order of j."""
    for o in range(index.shape[0]):
        for j in range(index.shape[1]):
            for i in range(index.shape[2]):
                out[o, np.uint64(index[o, j, i]), i] *= x[o, j, i]


@loop(dtype_from="out")
def scatter_fill(index, out, value):
    """out[o, index[o, j, i], i] = value."""
    for o in range(index.shape[0]):
        for j in range(index.shape[1]):
            for i in range(index.shape[2]):
                out[o, np.uint64(index[o, j, i]), i] = value


# -- checks -------------------------------------------------------------------------------------------


@loop
def first_outside(index, found, low, high):
    """Set found to (1, value) for the first of the values outside low <= value < high."""
    for k in range(index.size):
        if not low <= index[k] < high:
            found[0] = 1
            found[1] = index[k]
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


# -- masks --------------------------------------------------------------------------------------------


@loop
def count_true(x, out):
    """The number of elements that are not zero."""
    count = 0
    for k in range(x.size):
        # Summed without a branch, so that it vectorises.
        count += x[k] != T(0)
    out[0] = count


@loop
def true_places(x, out):
    """The places of a flat array's elements that are not zero."""
    at = 0
    for k in range(x.size):
        if x[k] != T(0):
            out[at] = k
            at += 1


@loop(dtype_from="out")
def fill_true(mask, out, value):
    """Set the elements of a flat array where the mask is true."""
    for k in range(out.size):
        # A select in place of a branch: the store happens anyway, and the loop vectorises.
        out[k] = T(value) if mask[k] else out[k]


@loop
def unravel(places, out, shape):
    """Flat places as indices, a row for each dim: out (dims, m)."""
    for k in range(places.size):
        rest = places[k]
        for d in range(shape.size - 1, -1, -1):
            out[d, k] = rest % shape[d]
            rest //= shape[d]


@loop
def repeat_index(repeats, out):
    """Each place as often as ``repeats`` says."""
    at = 0
    for k in range(repeats.size):
        for _ in range(repeats[k]):
            out[at] = k
            at += 1


# -- by strides ---------------------------------------------------------------------------------------


@loop
def read_strided(x, out, shape, strides, start):
    """Read a flat array along strides that may be negative, from element ``start`` on."""
    last = shape.size - 1
    rows = 1
    for d in range(last):
        rows *= shape[d]
    k = 0
    for row in range(rows):
        # The row's number in mixed radix: its digits are the indices of the outer dimensions.
        rest, at = row, start
        for d in range(last - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        for i in range(shape[last]):
            out[k] = x[np.uint64(at + i * strides[last])]
            k += 1


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
        # As in `read_strided`.
        rest, at = row, np.uint64(0)
        for d in range(last - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        for i in range(shape[last]):
            out[at + i * strides[last]] += x[k]
            k += 1
