"""Attention of stacks of matrices: products of queries and keys, their softmax, and products with values.

Scores are computed for a block of queries of one stack at a time, few enough to stay in a core's cache, and again in
backward. Arrays: q (stacks, queries, e), k (stacks, keys, e), v (stacks, keys, f). ``mask`` is added to
scores; it has a number of stacks that divides theirs, or none at all where there is no mask. ``causal`` hides the keys
behind a query's number.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.extrema import row_largest
from jitgrad.kernels.loops.products import multiply, run_with_blas
from jitgrad.kernels.words.rows import _exp_falling
from jitgrad.kernels.words.vocabulary import T

__all__ = ["attend", "attend_back"]

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


def scale_rows(x, factors):
    """Each row of x times its factor, in place."""
    for i in range(x.shape[0]):
        row, factor = x[i], factors[i]
        for j in range(row.size):
            row[j] *= factor


def put_scaled(x, factors, out):
    """Each row of x times its factor."""
    for i in range(x.shape[0]):
        row, target, factor = x[i], out[i], factors[i]
        for j in range(row.size):
            target[j] = row[j] * factor


def slopes_of(shares, g, scale, over):
    """In the place of ``g``, the gradient of shares, that of the scores before they were scaled; over: of `soften`."""
    for i in range(g.shape[0]):
        row, slope, total, factor = shares[i], g[i], T(0), T(scale) * over[i]
        for j in range(row.size):
            total += row[j] * slope[j]
        total *= over[i]
        for j in range(row.size):
            slope[j] = row[j] * (slope[j] - total) * factor


def _blocks(q, k, v, mask, causal, scale, block, function, out):
    return q.shape[0] * -(-q.shape[1] // block), k.shape[1] * (q.size + out.size) >> _WORK


def turn(x, out):
    """Write the transpose of x to the first columns of ``out``."""
    for i in range(x.shape[0]):
        row = x[i]
        for j in range(row.size):
            out[j, i] = row[j]


@loop(pieces=_blocks, dtype_from="out", grain=1 << 12, reassoc=True)
def attend_blocks(q, k, v, mask, causal, scale, block, function, out, first, last):
    queries, keys, lanes = q.shape[1], k.shape[1], 64 // out.itemsize
    # Rows are filled up to whole vectors, as tiles want them (products.py), and with one more: a column of scores would
    # fall on the same few lines of the first cache where there are, as often, a power of two.
    wide, chunks = -(-keys // lanes) * lanes + lanes, -(-queries // block)
    scores, turned, latest = np.empty((block, wide), T), np.zeros((q.shape[2], wide), T), -1
    over = np.empty(block, T)
    for piece in range(first, last):
        n, begin = piece // chunks, piece % chunks * block
        end = min(begin + block, queries)
        seen = min(keys, end) if causal else keys  # by any query of the block
        if n != latest:
            turn(k[n], turned)
            latest = n
        filled, rows, result = -(-seen // lanes) * lanes, q[n, begin:end], out[n, begin:end]
        shares, span = scores[: end - begin, :seen], min(-(-seen // (4 * lanes)) * 4 * lanes, wide)
        multiply(function, rows, False, turned[:, :filled], False, scores[: end - begin, :filled], False)
        soften(scores[: end - begin, :span], mask, n, begin, seen, causal, scale, over)
        multiply(function, shares, False, v[n, :seen], False, result, False)
        scale_rows(result, over)


def _stacks(g, q, k, v, mask, causal, scale, block, function, dq, dk, dv):
    return q.shape[0], 2 * k.shape[1] * (q.size + g.size) >> _WORK


@loop(pieces=_stacks, dtype_from="g", grain=1 << 12, reassoc=True)
def attend_stacks_back(g, q, k, v, mask, causal, scale, block, function, dq, dk, dv, first, last):
    queries, keys, lanes = q.shape[1], k.shape[1], 64 // dq.itemsize
    wide = -(-keys // lanes) * lanes + lanes  # as in `attend_blocks`
    scores, above = np.empty((block, wide), T), np.empty((block, wide), T)
    k_turned, v_turned = np.zeros((q.shape[2], wide), T), np.zeros((v.shape[2], wide), T)
    over, divided = np.empty(block, T), np.empty((block, v.shape[2]), T)
    for n in range(first, last):
        turn(k[n], k_turned)
        turn(v[n], v_turned)
        dk[n, :, :] = T(0)
        dv[n, :, :] = T(0)
        for begin in range(0, queries, block):
            end = min(begin + block, queries)
            seen = min(keys, end) if causal else keys
            rows, given, filled = q[n, begin:end], g[n, begin:end], -(-seen // lanes) * lanes
            shares, slopes, shared = scores[: end - begin, :seen], above[: end - begin, :seen], divided[: end - begin]
            span = min(-(-seen // (4 * lanes)) * 4 * lanes, wide)
            multiply(function, rows, False, k_turned[:, :filled], False, scores[: end - begin, :filled], False)
            soften(scores[: end - begin, :span], mask, n, begin, seen, causal, scale, over)
            put_scaled(given, over, shared)
            multiply(function, given, False, v_turned[:, :filled], False, above[: end - begin, :filled], False)
            multiply(function, shares, True, shared, False, dv[n, :seen], True)
            slopes_of(scores[: end - begin, :filled], above[: end - begin, :filled], scale, over)
            multiply(function, slopes, False, k[n, :seen], False, dq[n, begin:end], False)
            multiply(function, slopes, True, rows, False, dk[n, :seen], True)


@library("out")
def attend(q, k, v, mask, out, causal, scale, block):
    """softmax(scale * q kᵀ + mask) v, ``block`` queries at a time."""
    run_with_blas(attend_blocks, out.dtype, (q, k, v, mask, causal, scale, block), (out,))


@library("dq", "dk", "dv")
def attend_back(g, q, k, v, mask, dq, dk, dv, causal, scale, block):
    """The gradients in q, k and v of ``attend``."""
    run_with_blas(attend_stacks_back, dq.dtype, (g, q, k, v, mask, causal, scale, block), (dq, dk, dv))
