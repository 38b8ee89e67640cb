"""Counts of values: of small integers, and of numbers in bins between edges."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "add_at", "bin_places", "count_few_values", "count_in_bins", "count_values", "outer_edges", "spread_edges",
    "value_range", "weigh_values",
]  # fmt: skip


@loop
def value_range(x, out):
    """The least and the largest of some integers."""
    low = high = x[0]
    for i in range(x.size):
        low, high = min(low, x[i]), max(high, x[i])
    out[0], out[1] = low, high


@loop
def count_values(x, out):
    """Add 1 for each value, from 0 to the size of ``out``."""
    for i in range(x.size):
        out[np.uint64(x[i])] += 1


@loop
def count_few_values(x, counts, ends):
    """Add 1 for each value from 0 to the size of ``counts``; ``ends``: the least and the largest of all values."""
    low = high = x[0]
    for i in range(x.size):
        low, high = min(low, x[i]), max(high, x[i])
        if x[i] >= 0 and x[i] < counts.size:
            counts[x[i]] += 1
    ends[0], ends[1] = low, high


@loop(dtype_from="weights")
def weigh_values(x, weights, out):
    """Add each value's weight at its place."""
    for i in range(x.size):
        out[np.uint64(x[i])] += weights[i]


# -- bins -------------------------------------------------------------------------------------------------


@loop
def outer_edges(x, ends, found, margin):
    """The least and the largest element, ``margin`` further out if they are equal; ``found``: if one is not finite."""
    low = high = x[0]
    for i in range(x.size):
        v = x[i]
        low = v if (v < low) | (v != v) else low
        high = v if (v > high) | (v != v) else high
    if low == high:
        low, high = low - T(margin), high + T(margin)
    ends[0], ends[1] = low, high
    found[0] = not (np.isfinite(low) and np.isfinite(high))


@loop
def spread_edges(ends, out):
    """Edges at equal distances, counted from the nearer end."""
    last = out.size - 1
    step = (ends[1] - ends[0]) / T(last)
    for i in range(out.size):
        out[i] = ends[0] + step * T(i) if 2 * i < out.size else ends[1] - step * T(last - i)


@loop
def count_in_bins(x, ends, out):
    """Add 1 to the bin of each value, of as many as ``out`` has between two ends; those outside are left out."""
    left, right, bins = ends[0], ends[1], T(out.size)
    width = right - left
    for i in range(x.size):
        v = x[i]
        if (v >= left) & (v <= right):
            # The last bin has its right edge, too.
            out[min(np.uint64((v - left) * bins / width), np.uint64(out.size - 1))] += T(1)


def edges_below(edges, v, low, high):
    """How many of the sorted edges are not above v, if those before ``low`` are not and those from ``high`` on are."""
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] <= v:
            low = middle + 1
        else:
            high = middle
    return low


@loop
def bin_places(x, edges, places, even):
    """The number of each value's bin, added to ``places`` times the number of bins; -1 outside. even: equal bins."""
    bins = edges.size - 1
    left, right = edges[0], edges[bins]
    for i in range(x.size):
        v = x[i]
        if places[i] < 0 or not ((v >= left) & (v <= right)):
            places[i] = -1
            continue
        low, high = 0, edges.size
        if even:  # near where equal distances have it, which rounding may miss
            guess = np.int64((v - left) * T(bins) / (right - left))
            low, high = max(0, guess - 1), min(guess + 2, edges.size)
        places[i] = places[i] * bins + min(edges_below(edges, v, low, high) - 1, bins - 1)


@loop(dtype_from="out")
def add_at(places, weights, out):
    """Add 1, or weights if there are any, at places; -1 is none."""
    for i in range(places.size):
        if places[i] >= 0:
            out[places[i]] += weights[i] if weights.size else T(1)
