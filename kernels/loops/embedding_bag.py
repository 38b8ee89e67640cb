"""Bags of rows of a table: their sums, means and maxima, and gradients of these; and rows brought to a largest norm.

Bag b holds the rows ``index[offsets[b] : offsets[b + 1]]``, the last one all that follow where no offset ends it. Index
``padding`` counts in no bag, nor do indices behind an offset that ends the last one: their bag is -1. ``factors`` has
one element for each of ``index``, or none for ones.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T, prefetch

__all__ = [
    "BAD_END", "BAD_INDEX", "BAD_ORDER", "BAD_START", "bag_gradient", "bags", "check_bags", "factor_gradient",
    "max_gradient", "renormalize",
]  # fmt: skip

BAD_START, BAD_END, BAD_ORDER, BAD_INDEX = 1, 2, 3, 4
_MEAN, _MAX = 1, 2
_AHEAD = 16  # a row is prefetched so many rows before it is used


@loop
def check_bags(index, offsets, found, rows, last):
    """What does not fit: (one of the constants above, place, value). ``last``: offsets end with that of no bag."""
    n, count = index.size, offsets.size
    if count and offsets[0] != 0:
        found[0], found[2] = BAD_START, offsets[0]
    elif count and offsets[count - 1] > n:
        found[0], found[2] = BAD_END, offsets[count - 1]
    else:
        for b in range(1, count):
            if found[0] == 0 and (offsets[b] < offsets[b - 1]):
                found[0] = BAD_ORDER
        for i in range(n):
            if found[0] == 0 and (index[i] < 0 or index[i] >= rows):
                found[0], found[1], found[2] = BAD_INDEX, i, index[i]


def _bag_pieces(table, index, offsets, factors, out, *_):
    """(bags, numbers read), for cutting the work."""
    return out.shape[0], index.size * table.shape[1]


@loop(pieces=_bag_pieces)
def bags(table, index, offsets, factors, out, bag_of, sizes, largest, mode, padding, begin, end):
    """``bag_of`` gets each row's bag, ``sizes`` how many rows count in a bag, ``largest`` whose elements max took."""
    n, width = index.size, table.shape[1]
    if begin == 0 and offsets.size > out.shape[0]:
        bag_of[offsets[out.shape[0]] :] = -1
    for b in range(begin, end):
        row, count = out[b], 0
        row[:] = 0
        if mode == _MAX:
            largest[b] = 0
        last = offsets[b + 1] if b + 1 < offsets.size else n
        for i in range(offsets[b], last):
            bag_of[i] = b
            if i + _AHEAD < n:
                prefetch(table, index[i + _AHEAD] * width)
            if index[i] == padding:
                continue
            source = table[index[i]]
            if mode == _MAX:
                for j in range(width):
                    if count == 0 or source[j] > row[j]:
                        row[j], largest[b, j] = source[j], index[i]
            elif factors.size:
                factor = factors[i]
                for j in range(width):
                    row[j] += factor * source[j]
            else:
                for j in range(width):
                    row[j] += source[j]
            count += 1
        sizes[b] = count
        if mode == _MEAN and count > 1:
            for j in range(width):
                row[j] /= T(count)


@loop
def bag_gradient(g, index, bag_of, sizes, factors, out, mode, padding, by_count):
    """Of sums and means, in the table; ``by_count``: an index that is there k times gets a k-th of it."""
    width = out.shape[1]
    counts = np.zeros(out.shape[0] if by_count else 0, np.int64)
    if by_count:
        for i in range(index.size):
            counts[index[i]] += 1
    out[:] = 0
    for i in range(index.size):
        if index[i] == padding or bag_of[i] < 0:
            continue
        b, factor = bag_of[i], T(1)
        if mode == _MEAN:
            factor /= T(sizes[b])
        if factors.size:
            factor *= factors[i]
        if by_count:
            factor /= T(counts[index[i]])
        source, target = g[b], out[index[i]]
        for j in range(width):
            target[j] += factor * source[j]


@loop
def max_gradient(g, sizes, largest, out):
    out[:] = 0
    for b in range(g.shape[0]):
        if sizes[b]:
            for j in range(g.shape[1]):
                out[largest[b, j], j] += g[b, j]


@loop(reassoc=True)
def factor_gradient(g, table, index, bag_of, out, padding):
    for i in range(index.size):
        total = T(0)
        if index[i] != padding and bag_of[i] >= 0:
            source, above = table[index[i]], g[bag_of[i]]
            for j in range(source.size):
                total += source[j] * above[j]
        out[i] = total


@loop(dtype_from="table")
def renormalize(index, table, largest, order):
    """Scale the rows that ``index`` names to a norm of ``largest`` where theirs is larger."""
    done = np.zeros(table.shape[0], np.bool_)
    for i in range(index.size):
        if done[index[i]]:
            continue
        done[index[i]] = True
        row, total = table[index[i]], 0.0
        for j in range(row.size):
            size = abs(float(row[j]))
            if order == 2:
                total += size * size
            elif order == 1:
                total += size
            elif order == np.inf:
                total = max(total, size)
            elif order == -np.inf:
                total = min(total, size) if j else size
            elif order == 0:
                total += 1.0 if size != 0 else 0.0
            else:
                total += size**order
        norm = total
        if order == 2:
            norm = np.sqrt(total)
        elif abs(order) != np.inf and order != 1 and order != 0:
            norm = total ** (1 / order)
        if norm > largest:
            factor = largest / (norm + 1e-7)
            for j in range(row.size):
                row[j] *= factor
