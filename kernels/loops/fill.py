"""Loops that fill arrays: constants, ranges, identity matrices, triangles of matrices."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "arange", "eye", "fill", "fill_strided", "linspace", "linspace_whole", "logspace", "triangle", "triangle_indices",
]  # fmt: skip


@loop(split=("out",))
def fill(out, value):
    """Set every element of a flat array."""
    for i in range(out.size):
        out[i] = value


@loop
def fill_strided(out, value, shape, strides):
    """Set every element of an array of any strides; ``out`` is its memory, from its first element on."""
    last = shape.size - 1
    rows = np.uint64(1)
    for d in range(last):
        rows *= shape[d]
    for row in range(rows):
        # The row's number in mixed radix: its digits are the indices of the outer dimensions.
        rest, at = row, np.uint64(0)
        for d in range(last - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        for i in range(shape[last]):
            out[at + i * strides[last]] = value


@loop
def arange(out, start, step):
    """start + i step, rounded once; ``start`` and ``step`` are float64 or, for integers, int64."""
    for i in range(out.size):
        # Not added up step by step: the error would grow with i.
        out[i] = start + i * step


@loop
def linspace(out, start, end, step):
    """Evenly spaced from both ends, in the result's precision: the middle is where rounding meets."""
    n = out.size
    first, last, width = T(start), T(end), T(step)
    # From the start up to the middle, from the end beyond it, as PyTorch does: both ends are exact.
    # Counters of 32 bits where those suffice: most processors convert vectors of int32 to floats, and not of int64.
    if n >= 1 << 31:
        for i in range(n // 2):
            out[i] = first + T(i) * width
        for i in range(n // 2, n):
            out[i] = last - T(n - 1 - i) * width
        return
    for i in range(n // 2):
        out[i] = first + T(np.int32(i)) * width
    for i in range(n // 2, n):
        out[i] = last - T(np.int32(n - 1 - i)) * width


@loop
def linspace_whole(out, start, end, step):
    """The same for integers: evaluated in float64, truncated."""
    n = out.size
    for i in range(n):
        out[i] = start + i * step if i < n // 2 else end - (n - 1 - i) * step


@loop
def logspace(out, start, end, step, base):
    """base to the powers that `linspace` gives, evaluated in float64 (complex128)."""
    n = out.size
    for i in range(n):
        exponent = start + i * step if i < n // 2 else end - (n - 1 - i) * step
        out[i] = base**exponent


@loop
def eye(out):
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = T(i == j)


@loop(split=("x", "out"))
def triangle(x, out, diagonal, lower):
    """Copy what lies on one side of a diagonal of matrices (batch, n, m); zeros elsewhere."""
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            for j in range(x.shape[2]):
                inside = j - i <= diagonal if lower else j - i >= diagonal
                out[b, i, j] = x[b, i, j] if inside else T(0)


@loop
def triangle_indices(out, columns, diagonal, lower):
    """In two rows: rows and columns of a matrix's elements up to a diagonal or, not ``lower``, from it on."""
    at, row = 0, 0
    while at < out.shape[1]:
        cut = min(max(row + diagonal + lower, 0), columns)
        for column in range(0 if lower else cut, cut if lower else columns):
            out[0, at], out[1, at] = row, column
            at += 1
        row += 1
