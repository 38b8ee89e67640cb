"""Sparse tensors: places of values, in order and without repetition, and products with dense matrices.

Indices are int64. A place is counted through all sparse dims, row by row; ``first_bad`` and ``flat_places`` see to it
that none lies outside, and leave what they found for the caller to raise. The rows of a matrix whose places are in
order begin where ``crow`` says, and end where the next one begins.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop

__all__ = [
    "blocks_of_places", "compressed_places", "count_pairs", "find_places", "first_bad", "flat_places", "in_order",
    "merge_places", "pairs_of_products", "places_in_batch", "places_in_blocks", "places_of_keys", "row_numbers",
    "rows_and_columns", "rows_in_order", "rows_product", "sampled_product", "solve_rows", "starts_of_batch",
    "sum_segments",
]  # fmt: skip

NEGATIVE, TOO_LARGE, BAD_START, BAD_END, BAD_STEP, BAD_ORDER = 1, 2, 3, 4, 5, 6


@loop
def flat_places(indices, sizes, keys, found):
    """Each place counted through all dims; found: (code, dim, index) of one outside."""
    keys[:] = 0
    for d in range(indices.shape[0]):
        n, row = sizes[d], indices[d]
        outside = -1
        for j in range(keys.size):
            at = row[j]
            keys[j] = keys[j] * n + at
            if at < 0 or at >= n:
                outside = j
        if outside >= 0:
            found[0], found[1], found[2] = 1 if row[outside] < 0 else 2, d, row[outside]
            return


@loop
def places_of_keys(keys, sizes, indices):
    """The inverse of ``flat_places``."""
    for j in range(keys.size):
        rest = keys[j]
        for e in range(sizes.size):
            d = sizes.size - 1 - e
            n = sizes[d]
            indices[d, j] = rest % n
            rest //= n


@loop
def in_order(keys, found):
    """Whether each place comes after the one before: 1, else 0."""
    bad = 0
    for j in range(1, keys.size):
        bad += keys[j] <= keys[j - 1]
    found[0] = bad == 0


@loop
def sum_segments(values, order, starts, out):
    """Sums of the rows of ``values`` that ``order`` lists, those from a start to the next into a row of ``out``."""
    inner = values.shape[1]
    for k in range(starts.size):
        end = starts[k + 1] if k + 1 < starts.size else order.size
        for i in range(inner):
            out[k, i] = values[order[starts[k]], i]
        for j in range(starts[k] + 1, end):
            for i in range(inner):
                out[k, i] += values[order[j], i]


@loop
def find_places(keys, wanted, found):
    """Where in ``keys``, which are in order, each wanted one is; -1 if it is not there."""
    for j in range(wanted.size):
        low, high, key = 0, keys.size, wanted[j]
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < key:
                low = middle + 1
            else:
                high = middle
        found[j] = low if low < keys.size and keys[low] == key else -1


@loop
def merge_places(x, y, x_to, y_to, keys, count):
    """Go through two lists of keys at once, the smaller first, equal ones together: where each key goes, and all."""
    i, j, k = 0, 0, 0
    while i < x.size or j < y.size:
        take_x = i < x.size and (j >= y.size or x[i] <= y[j])
        take_y = j < y.size and (i >= x.size or y[j] <= x[i])
        if take_x:
            keys[k], x_to[i] = x[i], k
            i += 1
        if take_y:
            keys[k], y_to[j] = y[j], k
            j += 1
        k += 1
    count[0] = k


@loop
def row_numbers(crow, rows):
    """The row of each place."""
    for r in range(crow.size - 1):
        for p in range(crow[r], crow[r + 1]):
            rows[p] = r


@loop
def compressed_places(crow, cols, width, starts, rows, columns):
    """Row and column of each place of a batch in the matrix that has these on its diagonal; where its rows begin."""
    height, nnz = crow.shape[1] - 1, cols.shape[1]
    starts[0] = 0
    for b in range(crow.shape[0]):
        for r in range(height):
            starts[b * height + r + 1] = b * nnz + crow[b, r + 1]
            for p in range(crow[b, r], crow[b, r + 1]):
                rows[b * nnz + p], columns[b * nnz + p] = b * height + r, b * width + cols[b, p]


@loop
def places_in_batch(rows, columns, height, width, across, keys):
    """Those places counted through the batch, rows and columns; across: rows are columns."""
    for j in range(keys.size):
        if across:
            keys[j] = columns[j] * height + rows[j] % height
        else:
            keys[j] = rows[j] * width + columns[j] % width


@loop
def rows_and_columns(keys, height, width, across, rows, columns):
    """The row, counted through the batch, and the column of places counted through both; across: exchanged."""
    for j in range(keys.size):
        row, column = keys[j] // width, keys[j] % width
        if across:
            rows[j], columns[j] = row // height * width + column, row % height
        else:
            rows[j], columns[j] = row, column


@loop
def starts_of_batch(starts, crow, found):
    """Where the rows of each matrix begin, of where those of all do; found: 1 where matrices have not equally many."""
    batch, height = crow.shape[0], crow.shape[1] - 1
    nnz = starts[batch * height] // max(batch, 1)
    for b in range(batch):
        first = starts[b * height]
        if starts[(b + 1) * height] - first != nnz:
            found[0] = 1
        for r in range(height + 1):
            crow[b, r] = starts[b * height + r] - first


@loop
def places_in_blocks(keys, width, high, wide, elements):
    """The places of all elements of blocks, block by block; width: how many blocks are in a row."""
    k = 0
    for j in range(keys.size):
        row, column = keys[j] // width * high, keys[j] % width * wide
        for i in range(high):
            for c in range(wide):
                elements[k] = (row + i) * width * wide + column + c
                k += 1


@loop
def blocks_of_places(keys, width, high, wide, blocks, inside):
    """The block of each place, and where in it the place is; width: that of a row of places."""
    for j in range(keys.size):
        row, column = keys[j] // width, keys[j] % width
        blocks[j] = row // high * (width // wide) + column // wide
        inside[j] = row % high * wide + column % wide


@loop
def rows_in_order(rows, crow, order):
    """Where rows begin, and the places row by row, in the order in which they stand."""
    crow[:] = 0
    for j in range(rows.size):
        crow[rows[j] + 1] += 1
    for r in range(1, crow.size):
        crow[r] += crow[r - 1]
    for j in range(rows.size):
        at = crow[rows[j]]
        order[at] = j
        crow[rows[j]] = at + 1
    for e in range(crow.size - 1):
        r = crow.size - 1 - e
        crow[r] = crow[r - 1]
    crow[0] = 0


@loop
def first_bad(crow, cols, width, strictly, found):
    """Rows of each matrix begin at 0, end at the number of places and do not go back; columns are below ``width``, and
    strictly: no row has more of them than that, and they are in order."""
    nnz, last = cols.shape[1], crow.shape[1] - 1
    for b in range(crow.shape[0]):
        starts, row = crow[b], cols[b]
        if starts[0] != 0:
            found[0] = 3
            return
        if starts[last] != nnz:
            found[0] = 4
            return
        for r in range(last):
            step = starts[r + 1] - starts[r]
            if step < 0 or (strictly and step > width):
                found[0] = 5
                return
        for p in range(nnz):
            if row[p] < 0 or row[p] >= width:
                found[0] = 1 if row[p] < 0 else 2
                return
        if strictly:
            for r in range(last):
                for p in range(starts[r] + 1, starts[r + 1]):
                    if row[p] <= row[p - 1]:
                        found[0] = 6
                        return


def row_pieces(values, crow, cols, dense, out):
    """(rows, multiplications) of a product."""
    return crow.size - 1, cols.size * out.shape[1]


@loop(pieces=row_pieces)
def rows_product(values, crow, cols, dense, out, begin, end):
    """A sparse matrix times a dense one."""
    inner = out.shape[1]
    flat, target = dense.reshape(dense.size), out.reshape(out.size)
    for r in range(begin, end):
        first, last = crow[r], crow[r + 1]
        if inner == 1:
            total = T(0)
            for p in range(first, last):
                total += values[p] * flat[np.uint64(cols[p])]
            target[r] = total
        else:
            line = target[r * inner : (r + 1) * inner]
            for i in range(line.size):
                line[i] = T(0)
            for p in range(first, last):
                value, at = values[p], cols[p] * inner
                row = flat[at : at + inner]
                for i in range(row.size):
                    line[i] += value * row[i]


def sampled_pieces(x, y, rows, cols, out):
    """(places, multiplications)."""
    return rows.size, rows.size * x.shape[1]


@loop(pieces=sampled_pieces, reassoc=True)
def sampled_product(x, y, rows, cols, out, begin, end):
    """Of the product of x and y transposed the elements at places: products of a row of either."""
    inner = x.shape[1]
    left, right = x.reshape(x.size), y.reshape(y.size)
    for p in range(begin, end):
        a, b = left[rows[p] * inner : (rows[p] + 1) * inner], right[cols[p] * inner : (cols[p] + 1) * inner]
        total = T(0)
        for i in range(a.size):
            total += a[i] * b[i]
        out[p] = total


@loop
def count_pairs(cols, crow, count):
    """How many products of elements a product of two sparse matrices has."""
    total = 0
    for p in range(cols.size):
        total += crow[cols[p] + 1] - crow[cols[p]]
    count[0] = total


@loop
def pairs_of_products(rows, cols, crow, other_cols, width, x_at, y_at, keys):
    """The two elements of each, and the place of the product."""
    k = 0
    for p in range(cols.size):
        for q in range(crow[cols[p]], crow[cols[p] + 1]):
            x_at[k], y_at[k], keys[k] = p, q, rows[p] * width + other_cols[q]
            k += 1


@loop
def solve_rows(values, crow, cols, b, upper, unit, out):
    """The solution of a triangle of a matrix with right-hand sides b, row by row; unit: its diagonal counts as 1."""
    n, inner = crow.size - 1, b.shape[1]
    for e in range(n):
        r = n - 1 - e if upper else e
        diagonal = T(1) if unit else T(0)
        for i in range(inner):
            out[r, i] = b[r, i]
        for p in range(crow[r], crow[r + 1]):
            c = cols[p]
            if c == r:
                if not unit:
                    diagonal += values[p]
            elif (c > r) == upper:
                for i in range(inner):
                    out[r, i] -= values[p] * out[c, i]
        for i in range(inner):
            out[r, i] /= diagonal
