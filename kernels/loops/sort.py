"""Sorting along the last axis of (rows, n) arrays. NaN counts as the largest."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.words.rows import _rank

__all__ = ["kth", "select", "sort"]


@library("values", "index")
def sort(x, values, index, descending):
    """Sorted rows and where their elements came from; equal elements keep their order."""
    if descending:
        # NumPy sorts upwards only. Reversed before and after, equal elements keep their order all the same.
        order = x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    else:
        order = np.argsort(x, axis=1, kind="stable")
    index[...] = order
    values[...] = np.take_along_axis(x, order, axis=1)


@loop(split=("x", "values", "index"))
def select(x, values, index, largest):
    """The k largest or smallest elements of each row in order, k being the width of ``values``.

    Every row is read once; an element better than the worst one kept is put in its place among
    them. The first of equal elements comes first. NaN is the largest.
    """
    n, k = x.shape[1], values.shape[1]
    ranks = np.empty(k, np.int64)
    for r in range(x.shape[0]):
        row, places, kept = x[r], index[r], 0
        worst = np.int64(0)
        for i in range(n):
            # ~ turns the order of integers round.
            rank = np.int64(_rank(row[i]))
            rank = rank if largest else ~rank
            # Equal elements do not displace: the first stays first.
            if kept == k and rank <= worst:
                continue
            # Insertion sort among the k kept, which for the usual small k is quicker than a heap.
            at = kept if kept < k else k - 1
            while at > 0 and ranks[at - 1] < rank:
                ranks[at], places[at] = ranks[at - 1], places[at - 1]
                at -= 1
            ranks[at], places[at] = rank, i
            kept = min(kept + 1, k)
            worst = ranks[kept - 1]
        for j in range(k):
            values[r, j] = row[places[j]]


def above(a, b):
    """Whether a comes after b; NaN comes last."""
    return (a > b) | ((a != a) & (b == b))


def swap(row, places, i, j):
    """Exchange two elements and their places."""
    row[i], row[j] = row[j], row[i]
    places[i], places[j] = places[j], places[i]


@loop(split=("x", "values", "index"))
def kth(x, values, index, rank):
    """The element of each row that sorting would put at ``rank``, by quickselect.

    Step for step PyTorch's, so that of equal elements the same one is found.
    """
    n = x.shape[1]
    places = np.empty(n, np.int64)
    for r in range(x.shape[0]):
        row = x[r].copy()
        for i in range(n):
            places[i] = i
        left, right = 0, n - 1
        while right > left + 1:
            # The median of the first, the middle and the last element, put first, divides the others.
            swap(row, places, left + (right - left) // 2, left + 1)
            if above(row[left + 1], row[right]):
                swap(row, places, left + 1, right)
            if above(row[left], row[right]):
                swap(row, places, left, right)
            if above(row[left + 1], row[left]):
                swap(row, places, left + 1, left)
            i, j, pivot = left + 1, right, row[left]
            while True:
                i += 1
                while above(pivot, row[i]):
                    i += 1
                j -= 1
                while above(row[j], pivot):
                    j -= 1
                if j < i:
                    break
                swap(row, places, i, j)
            swap(row, places, left, j)
            left = i if j <= rank else left
            right = j - 1 if j >= rank else right
        if right == left + 1 and above(row[left], row[right]):
            swap(row, places, left, right)
        values[r, 0], index[r, 0] = row[rank], places[rank]
