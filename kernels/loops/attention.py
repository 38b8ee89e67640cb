"""Attention of stacks of matrices: products of queries and keys, their softmax, and products with values.

Scores are computed for a block of queries of one stack at a time, few enough to stay in a core's cache, and again in
backward. ``mask`` (stacks, queries, keys) is added to scores; its stacks divide batch * heads, or are none where there
is no mask. ``causal`` hides the keys behind a query's number.

Arrays stand for q (batch, heads, queries, e), k (batch, heads, keys, e), v (batch, heads, keys, f), each with any steps
between rows, whose elements lie side by side: so the parts of a joint projection are taken as they are. Each is given
as the vector of its memory, of one type whatever the steps are, and these in ``sizes``: batch, heads, queries, keys, e,
f, and for each array the steps from batch to batch, head to head, row to row. Q, K, ... are the places of arrays there.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.extrema import row_largest
from jitgrad.kernels.loops.products import multiply, run_with_blas
from jitgrad.kernels.words.rows import _exp_falling
from jitgrad.kernels.words.vocabulary import T, matrix_in

__all__ = ["attend", "attend_back"]

BATCH, HEADS, QUERIES, KEYS, WIDTH, DEPTH, STEPS = range(7)
Q, K, V, OUT, DQ, DK, DV = range(STEPS, STEPS + 21, 3)  # backward has the gradient of the result in OUT's place
_WORK = 7  # from 1 << (this + 12) multiplications on two threads are clearly quicker


def soften(x, mask, n, first, keys, causal, scale, over):
    """In the place of x, exp(scale * x + mask - the largest of the row), from query ``first`` on.

    Elements from number ``keys`` on become 0, as do rows without a key: rows are filled up to several vectors, since a
    single element that is left over takes as long as one of these.

    over: gets 1 / the sum of each row. Softmax is their product, but rows of results, which have fewer elements than
    there are keys, are multiplied by it in its stead.
    """
    factor, least = T(scale), T(-87) if x.itemsize == 4 else T(-708)
    for i in range(x.shape[0]):
        row = x[i]
        seen = min(keys, first + i + 1) if causal else keys
        visible, step = row[:seen], factor
        if mask.shape[0]:
            added = mask[n % mask.shape[0], first + i]
            for j in range(visible.size):
                visible[j] = visible[j] * factor + added[j]
        elif not factor > 0:  # then the largest product isn't that of the largest element
            for j in range(visible.size):
                visible[j] *= factor
        if mask.shape[0] or not factor > 0:
            step = T(1)
        if seen < row.size:
            for j in range(row.size):
                row[j] = row[j] if j < seen else T(-np.inf)
        top = row_largest(row)
        if top == -np.inf:
            row[:] = T(0)
            over[i] = T(0)
            continue
        total = T(0)
        for j in range(row.size):
            d = (row[j] - top) * step
            # What would be less than any normal number is 0: a processor takes long for such.
            e = T(0) if d < least else _exp_falling(least if d < least else d)
            row[j] = e
            total += e
        over[i] = T(1) / total
        if top != top:
            row[seen:] = T(0)


def first_of(sizes, array, stack):
    """The place in an array's vector of the first element of a stack."""
    return stack // sizes[HEADS] * sizes[array] + stack % sizes[HEADS] * sizes[array + 1]


def scale_rows(x, first, step, columns, factors, rows):
    """So many rows of a vector, from ``first`` on, each times its factor, in place."""
    for i in range(rows):
        row, factor = x[first + i * step : first + i * step + columns], factors[i]
        for j in range(columns):
            row[j] *= factor


def put_scaled(x, first, step, factors, out):
    """Rows of a vector, from ``first`` on, each times its factor, to a matrix."""
    for i in range(out.shape[0]):
        target, factor = out[i], factors[i]
        row = x[first + i * step : first + i * step + target.size]
        for j in range(target.size):
            target[j] = row[j] * factor


def clear_rows(x, first, step, columns, rows):
    """So many rows of a vector, from ``first`` on, become 0."""
    for i in range(rows):
        x[first + i * step : first + i * step + columns] = T(0)


def slopes_of(shares, g, scale, over):
    """In the place of ``g``, the gradient of shares, that of the scores before they were scaled; over: of `soften`."""
    for i in range(g.shape[0]):
        row, slope, total, factor = shares[i], g[i], T(0), T(scale) * over[i]
        for j in range(row.size):
            total += row[j] * slope[j]
        total *= over[i]
        for j in range(row.size):
            slope[j] = row[j] * (slope[j] - total) * factor


def _blocks(q, k, v, mask, sizes, causal, scale, block, function, out):
    stacks, queries = sizes[BATCH] * sizes[HEADS], sizes[QUERIES]
    work = stacks * queries * sizes[KEYS] * (sizes[WIDTH] + sizes[DEPTH])
    return int(stacks * -(-queries // block)), int(work) >> _WORK


def turn(x, first, step, rows, out):
    """Write the transpose of rows of a vector, from ``first`` on, to the first columns of ``out``."""
    for i in range(rows):
        row = x[first + i * step : first + i * step + out.shape[0]]
        for j in range(row.size):
            out[j, i] = row[j]


@loop(pieces=_blocks, dtype_from="out", grain=1 << 12, reassoc=True)
def attend_blocks(q, k, v, mask, sizes, causal, scale, block, function, out, first, last):
    queries, keys, width, depth = sizes[QUERIES], sizes[KEYS], sizes[WIDTH], sizes[DEPTH]
    step, lanes = sizes[OUT + 2], 64 // out.itemsize
    # Rows are filled up to whole vectors, as tiles want them (products.py), and with one more: a column of scores would
    # fall on the same few lines of the first cache where there are, as often, a power of two.
    wide, chunks = -(-keys // lanes) * lanes + lanes, -(-queries // block)
    scores, turned, latest = np.empty((block, wide), T), np.zeros((width, wide), T), -1
    over = np.empty(block, T)
    for piece in range(first, last):
        n, begin = piece // chunks, piece % chunks * block
        end = min(begin + block, queries)
        seen = min(keys, end) if causal else keys  # by any query of the block
        if n != latest:
            turn(k, first_of(sizes, K, n), sizes[K + 2], keys, turned)
            latest = n
        at = first_of(sizes, OUT, n) + begin * step
        rows = matrix_in(q, first_of(sizes, Q, n) + begin * sizes[Q + 2], end - begin, width, sizes[Q + 2])
        values = matrix_in(v, first_of(sizes, V, n), seen, depth, sizes[V + 2])
        filled, result = -(-seen // lanes) * lanes, matrix_in(out, at, end - begin, depth, step)
        shares, span = scores[: end - begin, :seen], min(-(-seen // (4 * lanes)) * 4 * lanes, wide)
        multiply(function, rows, False, turned[:, :filled], False, scores[: end - begin, :filled], False)
        soften(scores[: end - begin, :span], mask, n, begin, seen, causal, scale, over)
        multiply(function, shares, False, values, False, result, False)
        scale_rows(out, at, step, depth, over, end - begin)


def _stacks(g, q, k, v, mask, sizes, causal, scale, block, function, dq, dk, dv):
    stacks = sizes[BATCH] * sizes[HEADS]
    work = 2 * stacks * sizes[QUERIES] * sizes[KEYS] * (sizes[WIDTH] + sizes[DEPTH])
    return int(stacks), int(work) >> _WORK


@loop(pieces=_stacks, dtype_from="g", grain=1 << 12, reassoc=True)
def attend_stacks_back(g, q, k, v, mask, sizes, causal, scale, block, function, dq, dk, dv, first, last):
    queries, keys, width, depth = sizes[QUERIES], sizes[KEYS], sizes[WIDTH], sizes[DEPTH]
    lanes, dk_step, dv_step = 64 // dq.itemsize, sizes[DK + 2], sizes[DV + 2]
    wide = -(-keys // lanes) * lanes + lanes  # as in `attend_blocks`
    scores, above = np.empty((block, wide), T), np.empty((block, wide), T)
    k_turned, v_turned = np.zeros((width, wide), T), np.zeros((depth, wide), T)
    over, divided = np.empty(block, T), np.empty((block, depth), T)
    for n in range(first, last):
        q_at, k_at, v_at = first_of(sizes, Q, n), first_of(sizes, K, n), first_of(sizes, V, n)
        dq_at, dk_at, dv_at = first_of(sizes, DQ, n), first_of(sizes, DK, n), first_of(sizes, DV, n)
        g_at, g_step = first_of(sizes, OUT, n), sizes[OUT + 2]
        turn(k, k_at, sizes[K + 2], keys, k_turned)
        turn(v, v_at, sizes[V + 2], keys, v_turned)
        clear_rows(dk, dk_at, dk_step, width, keys)
        clear_rows(dv, dv_at, dv_step, depth, keys)
        for begin in range(0, queries, block):
            end = min(begin + block, queries)
            seen = min(keys, end) if causal else keys
            rows = matrix_in(q, q_at + begin * sizes[Q + 2], end - begin, width, sizes[Q + 2])
            given = matrix_in(g, g_at + begin * g_step, end - begin, depth, g_step)
            result = matrix_in(dq, dq_at + begin * sizes[DQ + 2], end - begin, width, sizes[DQ + 2])
            keys_seen = matrix_in(k, k_at, seen, width, sizes[K + 2])
            k_sums, v_sums = matrix_in(dk, dk_at, seen, width, dk_step), matrix_in(dv, dv_at, seen, depth, dv_step)
            shares, slopes, shared = scores[: end - begin, :seen], above[: end - begin, :seen], divided[: end - begin]
            filled, span = -(-seen // lanes) * lanes, min(-(-seen // (4 * lanes)) * 4 * lanes, wide)
            multiply(function, rows, False, k_turned[:, :filled], False, scores[: end - begin, :filled], False)
            soften(scores[: end - begin, :span], mask, n, begin, seen, causal, scale, over)
            put_scaled(g, g_at + begin * g_step, g_step, over, shared)
            multiply(function, given, False, v_turned[:, :filled], False, above[: end - begin, :filled], False)
            multiply(function, shares, True, shared, False, v_sums, True)
            slopes_of(scores[: end - begin, :filled], above[: end - begin, :filled], scale, over)
            multiply(function, slopes, False, keys_seen, False, result, False)
            multiply(function, slopes, True, rows, False, k_sums, True)


@library("out")
def attend(q, k, v, mask, out, sizes, causal, scale, block):
    """softmax(scale * q kᵀ + mask) v, ``block`` queries at a time."""
    run_with_blas(attend_blocks, out.dtype, (q, k, v, mask, sizes, causal, scale, block), (out,))


@library("dq", "dk", "dv")
def attend_back(g, q, k, v, mask, dq, dk, dv, sizes, causal, scale, block):
    """The gradients in q, k and v of ``attend``."""
    run_with_blas(attend_stacks_back, dq.dtype, (g, q, k, v, mask, sizes, causal, scale, block), (dq, dk, dv))
