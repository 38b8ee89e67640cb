"""Runs of equal elements in vectors, and of equal rows in (n, m) arrays: their number, first ones and lengths.

NaN is equal to nothing, so each of several is a run.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop

__all__ = [
    "count_row_runs", "count_runs", "order_rows", "run_lengths", "run_numbers",
    "segment_edges", "segment_numbers", "take_row_runs", "take_runs",
]  # fmt: skip


@loop
def count_runs(x, count):
    """How many runs there are."""
    runs = np.int64(x.size > 0)
    for i in range(1, x.size):
        # Without a branch, so that it vectorises.
        runs += x[i] != x[i - 1]
    count[0] = runs


@loop
def take_runs(x, values, starts):
    """The first element of each run, and its place."""
    at = values.size - 1
    for i in range(x.size - 1, 0, -1):
        # From the end on, and over what the same run has left there: there is no branch to predict.
        values[at], starts[at] = x[i], i
        at -= x[i] != x[i - 1]
    if x.size:
        values[0], starts[0] = x[0], 0


@loop
def run_lengths(starts, counts, n):
    """How long the runs are that start at these places, the last of which ends at ``n``."""
    for k in range(starts.size):
        counts[k] = (starts[k + 1] if k + 1 < starts.size else n) - starts[k]


@loop
def run_numbers(starts, order, numbers):
    """The number of each element's run; ``order`` has where the elements come from, nothing if they stand there."""
    for k in range(starts.size):
        end = starts[k + 1] if k + 1 < starts.size else numbers.size
        for i in range(starts[k], end):
            numbers[np.uint64(order[i]) if order.size else np.uint64(i)] = k


@loop
def segment_edges(lengths, edges, failed, size):
    """Where segments of these lengths begin and end, a row each; ``failed[0]``: 1 if a length is negative, 2 if those
    of a row do not add up to ``size``, else 0."""
    failed[0] = 0
    count = lengths.shape[1]
    for r in range(lengths.shape[0]):
        edges[r, 0] = 0
        for k in range(count):
            if lengths[r, k] < 0:
                failed[0] = 1
            edges[r, k + 1] = edges[r, k] + lengths[r, k]
        if edges[r, count] != size and failed[0] == 0:
            failed[0] = 2


@loop
def segment_numbers(edges, numbers):
    """The number of the segment that each place is in, by the edges of each row's; of none, that behind the last."""
    count = edges.shape[1] - 1
    for r in range(edges.shape[0]):
        numbers[r, :] = count
        for k in range(count):
            numbers[r, edges[r, k] : edges[r, k + 1]] = k


# -- rows -------------------------------------------------------------------------------------------------


def first_difference(a, b):
    """The first place at which two rows differ, their length if there is none."""
    j = 0
    while j < a.size and a[j] == b[j]:
        j += 1
    return j


def comes_first(a, b):
    """Whether row a comes before b by the first element that differs."""
    j = first_difference(a, b)
    return j < a.size and a[j] < b[j]


@loop
def order_rows(x, order, sort):
    """The numbers of the rows, with ``sort`` in the order of the rows, by merging; equal rows keep theirs."""
    n = x.shape[0]
    for i in range(n):
        order[i] = i
    merged, width = np.empty(n, np.int64), 1
    while sort and width < n:
        for begin in range(0, n, 2 * width):
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            i, j = begin, middle
            for k in range(begin, end):
                later = i >= middle or (j < end and comes_first(x[order[j]], x[order[i]]))
                merged[k] = order[j] if later else order[i]
                i, j = (i, j + 1) if later else (i + 1, j)
        for i in range(n):
            order[i] = merged[i]
        width *= 2


@loop
def count_row_runs(x, order, count):
    """How many runs of equal rows there are, in this order."""
    runs = np.int64(x.shape[0] > 0)
    for i in range(1, x.shape[0]):
        runs += first_difference(x[order[i]], x[order[i - 1]]) < x.shape[1]
    count[0] = runs


@loop
def take_row_runs(x, order, values, starts):
    """The first row of each run, and its place in the order."""
    at = 0
    for i in range(x.shape[0]):
        row = x[order[i]]
        if i == 0 or first_difference(row, x[order[i - 1]]) < row.size:
            starts[at] = i
            for j in range(row.size):
                values[at, j] = row[j]
            at += 1
