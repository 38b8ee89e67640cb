"""Sorting along the last axis of (rows, n) arrays. NaN counts as the largest."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.launch import SPLIT_SIZE, library, loop
from jitgrad.kernels.words.rows import _rank
from jitgrad.kernels.words.vocabulary import T, scratch

__all__ = [
    "FEW", "INSERTED", "kth", "median", "median_short", "median_value", "mode", "select", "sort", "sort_short",
    "sort_short_along",
]  # fmt: skip

INSERTED = 64  # So many elements are sorted by insertion, the cost of which grows with their number.


FEW = 16  # up to which sorting a row by insertion is quicker than finding its median


# NumPy sorts integers by vector instructions, ten times as fast as it finds a stable order of anything. So a row is
# sorted as integers of 64 bits: an element's rank above, and its place, which no other has, below. Equal elements are
# so in the order of their places, and the result does not depend on how a row was cut for threads. What the places
# leave no bits for, the ends of ranks of 64 bits, is looked at when the elements are put in their places.


@library("values", "index")
def sort(x, values, index, descending):
    """Sorted rows and where their elements came from; equal elements keep their order."""
    keys = np.empty(x.shape, np.uint64)
    count = threads.get_num_threads() if x.size >= SPLIT_SIZE else 1
    if count == 1:
        _sort_rows(x, values, index, descending, keys)
        return
    # More pieces than threads, so that none waits long for another whose rows take more time.
    rows, most = x.shape[0], 4 * count
    pieces = [slice(rows * k // most, rows * (k + 1) // most) for k in range(most)]
    pieces = [p for p in pieces if p.stop > p.start]
    if len(pieces) < count:
        _sort_long(x, values, index, descending, keys, count)
    else:
        threads.run_together([(_sort_rows, (x[p], values[p], index[p], descending, keys[p])) for p in pieces])


def _sort_rows(x, values, index, descending, keys):
    _pack.call(x, keys, descending)
    keys.sort(axis=1)
    _place(x, values, index, descending, keys)


def _place(x, values, index, descending, keys):
    """Put elements in the order of sorted keys; of NumPy's stable order where keys say too little of the ranks."""
    if _unpack.variant(x.dtype)(x, keys, values, index, descending):
        for r in np.flatnonzero(keys[:, 0]):
            _sort_stable(x[r], values[r], index[r], descending)


def _sort_long(x, values, index, descending, keys, count):
    """The same for few long rows, each of them cut into ``count`` pieces."""
    n = x.shape[1]
    edges = [n * k // count for k in range(count + 1)]
    _pack.call(x, keys, descending)
    for row in keys:
        pieces = [row[a:b] for a, b in zip(edges, edges[1:], strict=False)]
        threads.run_together([(piece.sort, ()) for piece in pieces])
        while len(pieces) > 1:
            pieces = _merged(pieces, count)
        row[:] = pieces[0]
    _place(x, values, index, descending, keys)


def _merged(pieces, count):
    """Neighbours among sorted arrays joined in pairs, the results cut for ``count`` threads."""
    results, jobs = [], []
    merge = _merge.variant(np.dtype(np.uint64))
    for a, b in zip(pieces[::2], pieces[1::2], strict=False):
        out = np.empty(a.size + b.size, np.uint64)
        edges = [out.size * k // count for k in range(count + 1)]
        jobs += [(merge, (a, b, out, *edge)) for edge in zip(edges, edges[1:], strict=False)]
        results.append(out)
    threads.run_together(jobs)
    return [*results, pieces[-1]] if len(pieces) % 2 else results


def _sort_stable(x, values, index, descending):
    """One row by NumPy's stable order, for ranks that differ in their last bits only."""
    # NumPy sorts upwards only. Reversed before and after, equal elements keep their order all the same.
    order = np.argsort(x[::-1], kind="stable")[::-1] if descending else np.argsort(x, kind="stable")
    index[...] = x.size - 1 - order if descending else order
    values[...] = x[index]


def rank_of(v):
    """An integer that grows with v, the same for both zeros."""
    return np.int64(_rank(T(0) if v == T(0) else v))


def place_bits(n):
    """How many bits the places 0 .. n - 1 need."""
    bits = np.uint64(0)
    while (n - 1) >> bits:
        bits += np.uint64(1)
    return bits


def rank_shift(low, high, bits):
    """How many bits the distances of ranks from ``low`` lose beside places of so many bits."""
    shift, span = np.uint64(0), np.uint64(high) - np.uint64(low)
    while bits and (span >> shift) >> (np.uint64(64) - bits):
        shift += np.uint64(1)
    return shift


def rank_range(row):
    """The least and the largest rank of a row."""
    low = high = rank_of(row[0])
    for i in range(row.size):
        rank = rank_of(row[i])
        low, high = min(low, rank), max(high, rank)
    return low, high


def insert_in_order(row, ranks, places, descending):
    """Sort a row by insertion: the ranks of its elements in order, and where in the row these lie."""
    for i in range(row.size):
        rank, at = rank_of(row[i]), i
        # ~ turns the order of integers round. Equal elements are not passed: they keep their order.
        rank = ~rank if descending else rank
        while at > 0 and ranks[at - 1] > rank:
            ranks[at], places[at] = ranks[at - 1], places[at - 1]
            at -= 1
        ranks[at], places[at] = rank, i


@loop(split=("x", "values", "index"))
def sort_short(x, values, index, descending):
    """`sort` of rows of at most INSERTED elements, by insertion."""
    ranks = scratch(INSERTED, np.int64)
    for r in range(x.shape[0]):
        row, target, places = x[r], values[r], index[r]
        insert_in_order(row, ranks, places, descending)
        for i in range(row.size):
            target[i] = row[places[i]]


@loop
def sort_short_along(x, values, index, descending):
    """`sort_short` of the middle dim of (outer, n, inner) arrays."""
    ranks, places = scratch(INSERTED, np.int64), scratch(INSERTED, np.int64)
    for o in range(x.shape[0]):
        for k in range(x.shape[2]):
            for i in range(x.shape[1]):
                rank, at = rank_of(x[o, i, k]), i
                rank = ~rank if descending else rank
                while at > 0 and ranks[at - 1] > rank:
                    ranks[at], places[at] = ranks[at - 1], places[at - 1]
                    at -= 1
                ranks[at], places[at] = rank, i
            for i in range(x.shape[1]):
                values[o, i, k], index[o, i, k] = x[o, places[i], k], places[i]


@loop
def _pack(x, keys, descending):
    """Ranks, from the least or the largest on, above places."""
    bits = place_bits(np.int64(x.shape[1]))
    for r in range(x.shape[0]):
        row, target = x[r], keys[r]
        low, high = rank_range(row)
        shift = rank_shift(low, high, bits)
        for i in range(row.size):
            rank = rank_of(row[i])
            distance = np.uint64(high) - np.uint64(rank) if descending else np.uint64(rank) - np.uint64(low)
            target[i] = ((distance >> shift) << bits) | np.uint64(i)


@loop
def _unpack(x, keys, values, index, descending):
    """Elements in the order of sorted keys, and their places.

    Returns how many rows the keys did not order; of these the first key becomes 1, of others 0.
    """
    coarse = 0
    bits = place_bits(np.int64(x.shape[1]))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    for r in range(x.shape[0]):
        row, order, target, places = x[r], keys[r], values[r], index[r]
        for i in range(row.size):
            place = order[i] & mask
            places[i], target[i] = place, row[place]
        low, high = rank_range(row)
        shift, steps, most = rank_shift(low, high, bits), 0, 8 * row.size
        if shift:
            # Elements whose keys have the same rank are put in order by insertion, if there are few such.
            for i in range(1, row.size):
                at, value, place = i, target[i], places[i]
                rank = rank_of(value)
                while at > 0 and steps < most and order[at - 1] >> bits == order[i] >> bits:
                    other = rank_of(target[at - 1])
                    if other == rank or (other > rank) == descending:
                        break
                    target[at], places[at] = target[at - 1], places[at - 1]
                    at, steps = at - 1, steps + 1
                target[at], places[at] = value, place
        order[0] = steps >= most
        coarse += steps >= most
    return coarse


@loop
def _merge(a, b, out, begin, end):
    """The elements ``begin`` to ``end`` of two sorted arrays' union, whose elements are distinct."""
    # How many of the elements before ``begin`` come from a: by bisection.
    low, high = max(0, begin - b.size), min(begin, a.size)
    while low < high:
        middle = (low + high) // 2
        if a[middle] < b[begin - middle - 1]:
            low = middle + 1
        else:
            high = middle
    i, j = np.uint64(low), np.uint64(begin - low)
    for k in range(np.uint64(begin), np.uint64(end)):
        if j >= np.uint64(b.size) or (i < np.uint64(a.size) and a[i] < b[j]):
            out[k] = a[i]
            i += np.uint64(1)
        else:
            out[k] = b[j]
            j += np.uint64(1)


@loop(split=("x", "values", "index"))
def select(x, values, index, largest):
    """The k largest or smallest elements of each row in order, k, the width of ``values``, being at most INSERTED.

    Every row is read once; an element better than the worst one kept is put in its place among
    them. The first of equal elements comes first. NaN is the largest.
    """
    n, k = x.shape[1], values.shape[1]
    ranks = scratch(INSERTED, np.int64)
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


def put_in_place(row, places, rank):
    """Put the element there that sorting would put at ``rank``, by quickselect; ``places`` go with their elements.

    Step for step PyTorch's, so that of equal elements the same one is found.
    """
    left, right = 0, row.size - 1
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


@loop(split=("x", "values", "index"))
def kth(x, values, index, rank):
    """The element of each row that sorting would put at ``rank``."""
    row, places = np.empty(x.shape[1], T), np.empty(x.shape[1], np.int64)
    for r in range(x.shape[0]):
        for i in range(row.size):
            row[i], places[i] = x[r, i], i
        put_in_place(row, places, rank)
        values[r, 0], index[r, 0] = row[rank], places[rank]


@loop(split=("x", "values", "index"))
def median(x, values, index, skip_nan):
    """The lower of the two middle elements of each row: of those that are not NaN, or else the first NaN if any is."""
    row, places = np.empty(x.shape[1], T), np.empty(x.shape[1], np.int64)
    for r in range(x.shape[0]):
        numbers, at = 0, -1
        for i in range(row.size - 1, -1, -1):
            row[i], places[i] = x[r, i], i
            if row[i] == row[i]:
                numbers += 1
            else:
                at = i
        if skip_nan or numbers == row.size:
            middle = max(numbers - 1, 0) // 2
            put_in_place(row, places, middle)
            at = places[middle]
        values[r, 0], index[r, 0] = x[r, at], at


@library("values", "index")
def mode(x, values, index, _):
    """The commonest element of each row, the smallest of several, and the last of its places."""
    ordered, places = np.empty_like(x), np.empty(x.shape, np.int64)
    sort.call(x, ordered, places, False)
    _commonest.call(ordered, places, values, index)


@loop(split=("x", "places", "values", "index"))
def _commonest(x, places, values, index):
    """The longest run of equal elements of each row, the first of several."""
    for r in range(x.shape[0]):
        row, longest, begin, at = x[r], 0, 0, 0
        for i in range(row.size):
            begin = i if row[i] != row[begin] else begin
            if i - begin >= longest:
                longest, at = i - begin + 1, i
        values[r, 0], index[r, 0] = row[at], places[r, at]


@library("values")
def median_value(x, values, skip_nan):
    """`median` without its place, for which rows need not be sorted."""
    for row, value in zip(x, values, strict=True):
        numbers = row.size - np.count_nonzero(row != row)
        if numbers < row.size and not skip_nan:
            value[0] = np.nan
            continue
        at = max(numbers - 1, 0) // 2
        value[0] = np.partition(row, at)[at]


def middle_of(row, skip_nan):
    """Where in a row in order its median is."""
    numbers = row.size
    while numbers and row[numbers - 1] != row[numbers - 1]:
        numbers -= 1
    return max(numbers - 1, 0) // 2 if skip_nan or numbers == row.size else numbers


@loop(split=("x", "values", "index"))
def median_short(x, values, index, skip_nan):
    """`median` of rows of at most FEW elements, by sorting them."""
    ranks, places, ordered = scratch(FEW, np.int64), scratch(FEW, np.int64), scratch(FEW, T)
    for r in range(x.shape[0]):
        row = x[r]
        insert_in_order(row, ranks, places, False)
        for i in range(row.size):
            ordered[i] = row[places[i]]
        at = middle_of(ordered[: row.size], skip_nan)
        values[r, 0], index[r, 0] = ordered[at], places[at]
