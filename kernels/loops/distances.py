"""Distances of rows, sums of |x - y|**p to the power 1 / p, their gradients, and limits to norms.

``kind`` says how a distance is made: COUNT of the elements that differ (p = 0), SUM (1), ROOT (2), LARGEST (infinity),
or POWER, of any other ``p``.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T, scratch, squares_tile

__all__ = ["between", "between_gradient", "kind_of", "ratios", "renorm", "turn", "within", "within_gradient"]

_KINDS = {0.0: 0, 1.0: 1, 2.0: 2, float("inf"): 3}
# Of a tile of registers: rows, and elements that are summed before the next tile. So many of 64 bytes, side by side,
# stay in the first cache.
TALL, DEPTH = 4, 256
PANEL = 16 * DEPTH  # numbers of float32, half as many of float64
BLOCK = 256  # so many distances are summed at a time: they and a column of the other rows stay in the first cache


def kind_of(p):
    """The ``kind`` of distances of order ``p``."""
    return _KINDS.get(p, 4)


@loop
def turn(x, out):
    """The matrices of a stack, transposed."""
    for b in range(x.shape[0]):
        for k in range(x.shape[2]):
            for i in range(x.shape[1]):
                out[b, k, i] = x[b, i, k]


def accumulate(sums, a, column, kind, p):
    """Add to ``sums`` what the differences of ``a`` to the elements of a column contribute."""
    if kind == 0:
        for j in range(sums.size):
            d = a - column[j]
            sums[j] += T(1) if d < 0 or d > 0 else d  # d is 0, or NaN, which makes the distance NaN
    elif kind == 1:
        for j in range(sums.size):
            sums[j] += abs(a - column[j])
    elif kind == 2:
        for j in range(sums.size):
            d = a - column[j]
            sums[j] += d * d
    elif kind == 3:
        for j in range(sums.size):
            d = abs(a - column[j])
            sums[j] = d if d > sums[j] or d != d else sums[j]
    else:
        for j in range(sums.size):
            sums[j] += abs(a - column[j]) ** p


def finish(sums, kind, p):
    """Take the root that makes sums of powers distances."""
    if kind == 2:
        for j in range(sums.size):
            sums[j] = np.sqrt(sums[j])
    elif kind == 4:
        root = T(1) / p
        for j in range(sums.size):
            sums[j] = sums[j] ** root


def rows_of(x, columns, out, *rest):
    """How many rows of distances there are, and about how many differences."""
    return x.shape[0] * x.shape[1], x.shape[0] * x.shape[1] * columns.shape[1] * columns.shape[2]


def square_sums(x, columns, out):
    """Squared distances of the first rows of x (n, d) to the first columns (d, m), into out (n, m).

    In tiles of registers, as products of matrices are made, and as quick. Returns how many rows and columns are done.
    """
    d, m, wide = x.shape[1], columns.shape[1], 64 // out.itemsize
    rows, across = x.shape[0] // TALL * TALL, m // wide * wide
    panel = scratch(PANEL, T)
    for j in range(0, across if rows else 0, wide):
        for k in range(0, d, DEPTH):
            depth = min(DEPTH, d - k)
            for e in range(depth):
                source, target = columns[k + e, j : j + wide], panel[e * wide :]
                for i in range(wide):
                    target[i] = source[i]
            for i in range(0, rows, TALL):
                squares_tile(TALL, 1, x, i * d + k, d, 1, panel, 0, wide, depth, out, i * m + j, m, k > 0)
    return rows, across


@loop(pieces=rows_of)
def between(x, columns, out, kind, order, first, last):
    """Distances of the rows of x (b, n, d) to those of y, given as ``columns`` (b, d, m); out is (b, n, m)."""
    p, n = T(order), x.shape[1]
    place = first
    while place < last:
        b, i = place // n, place % n
        end = min(n, i + last - place)
        place += end - i
        rows = across = 0
        if kind == 2:
            rows, across = square_sums(x[b, i:end], columns[b], out[b, i:end])
        for r in range(i, end):
            done = across if r - i < rows else 0
            finish(out[b, r, :done], kind, p)
            for begin in range(done, out.shape[2], BLOCK):
                sums = out[b, r, begin : begin + BLOCK]
                for j in range(sums.size):
                    sums[j] = 0
                for k in range(x.shape[2]):
                    accumulate(sums, x[b, r, k], columns[b, k, begin : begin + BLOCK], kind, p)
                finish(sums, kind, p)


def square_distance(a, b):
    """The sum of squared differences of two rows."""
    total = T(0)
    for k in range(a.size):
        total += (a[k] - b[k]) * (a[k] - b[k])
    return total


LONG = 64  # elements of rows of which two are best compared along them, by vectors that add up to one number


@loop(reassoc=True)
def within(x, columns, out, kind, order):
    """Distances of the rows of x (n, d), also given as ``columns`` (d, n), to those behind them; out is a vector."""
    p, begin, n = T(order), 0, x.shape[0]
    for i in range(n - 1):
        sums = out[begin : begin + n - 1 - i]
        if kind == 2 and x.shape[1] >= LONG:
            for j in range(sums.size):
                sums[j] = np.sqrt(square_distance(x[i], x[i + 1 + j]))
            begin += sums.size
            continue
        for j in range(sums.size):
            sums[j] = 0
        for k in range(x.shape[1]):
            accumulate(sums, x[i, k], columns[k, i + 1 :], kind, p)
        finish(sums, kind, p)
        begin += n - 1 - i


def factor(g, distance, kind, p):
    """What the derivatives of a distance have in common, times its gradient; 0 where the distance is 0."""
    if kind == 1 or kind == 3:
        return g
    if kind == 0 or distance == 0:
        return T(0)
    if kind == 2:
        return g / distance
    return g / distance ** (p - T(1))


def sign(d):
    """1, -1, or d itself where it is 0 or NaN."""
    return T(1) if d > 0 else T(-1) if d < 0 else d


def add_slopes(total, row, other, c, distance, kind, p):
    """Add to ``total`` the derivatives of one distance by the elements of ``row``, times ``c``, its ``factor``."""
    if kind == 2:
        for k in range(total.size):
            total[k] += c * (row[k] - other[k])
    elif kind == 3:
        for k in range(total.size):
            d = row[k] - other[k]
            total[k] += c * sign(d) if abs(d) == distance else T(0)
    elif kind == 4:
        for k in range(total.size):
            d = row[k] - other[k]
            total[k] += c * sign(d) * abs(d) ** (p - T(1)) if d != 0 else T(0)
    else:
        for k in range(total.size):
            total[k] += c * sign(row[k] - other[k])


@loop(pieces=rows_of)
def between_gradient(x, y, g, distances, out, kind, order, first, last):
    """The gradient of x (b, n, d) by the distances to y (b, m, d), whose gradient ``g`` is (b, n, m)."""
    p = T(order)
    for place in range(first, last):
        b, i = place // x.shape[1], place % x.shape[1]
        row, total = x[b, i], out[b, i]
        for k in range(total.size):
            total[k] = 0
        for j in range(y.shape[1]):
            other, distance = y[b, j], distances[b, i, j]
            c = factor(g[b, i, j], distance, kind, p)
            if c != 0:
                add_slopes(total, row, other, c, distance, kind, p)


@loop
def within_gradient(x, g, distances, out, kind, order):
    """The gradient of x (n, d) by the distances of its rows to those behind them, whose gradient is ``g``."""
    p, at, n = T(order), 0, x.shape[0]
    out[:] = 0
    for i in range(n):
        for j in range(i + 1, n):
            c = factor(g[at], distances[at], kind, p)
            if c != 0:
                add_slopes(out[i], x[i], x[j], c, distances[at], kind, p)
                add_slopes(out[j], x[j], x[i], c, distances[at], kind, p)
            at += 1


@loop(split=("g", "distances", "out"))
def ratios(g, distances, out):
    """g / distances, of vectors, and 0 where a distance is 0."""
    for i in range(out.size):
        out[i] = T(0) if distances[i] == 0 else g[i] / distances[i]


# -- limits to norms -------------------------------------------------------------------------------------


def slices_of(x, out, *rest):
    """How many slices there are, and how many elements."""
    return x.shape[1], x.size


@loop(pieces=slices_of, reassoc=True)
def renorm(x, out, kind, order, limit, first, last):
    """The slices x[:, k] of (outer, n, inner), scaled down to norm ``limit`` where theirs is larger."""
    p, most = np.float64(order), T(limit).real
    for k in range(first, last):
        total = np.float64(0)
        for o in range(x.shape[0]):
            part = x[o, k]
            if kind == 2:
                for i in range(part.size):
                    v = part[i]
                    total += np.float64(v.real) * np.float64(v.real) + np.float64(v.imag) * np.float64(v.imag)
            elif kind == 1:
                for i in range(part.size):
                    total += np.float64(abs(part[i]))
            elif kind == 3:
                for i in range(part.size):
                    size = np.float64(abs(part[i]))
                    total = size if size > total or size != size else total
            else:
                for i in range(part.size):
                    total += np.float64(abs(part[i])) ** p
        total = np.sqrt(total) if kind == 2 else total ** (np.float64(1) / p) if kind == 4 else total
        norm = T(total).real  # of the dtype's precision, as what is added to it
        scale = most / (norm + T(1e-7).real) if norm > most else T(1).real
        for o in range(x.shape[0]):
            part, target = x[o, k], out[o, k]
            for i in range(part.size):
                target[i] = part[i] * scale
