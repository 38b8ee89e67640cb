"""Normalisation: of rows, as in layer and group norm, and of channels, as in batch norm, with gradients.

Rows come as (outer, groups, n), weights as (groups, n). Channels come as (outer, channels, inner), or where there is
one place to a channel as (outer, channels), the form that is called ``columns``. Sums are made of blocks in the
compute dtype, and the blocks' sums in double precision; variances are of distances to the mean.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop

__all__ = [
    "channel_gradient", "channel_gradient_columns", "channel_moments", "channel_sums", "channel_sums_columns",
    "column_moments", "inverse_root", "move_towards", "normalize_channels", "normalize_columns", "normalize_rows",
    "repeat_each", "row_gradient", "row_gradients", "row_sums",
]  # fmt: skip


@loop(reassoc=True, split=("x", "out", "mean", "rstd"))
def normalize_rows(x, weight, bias, out, mean, rstd, eps):
    """(x - mean) * rstd * weight + bias, for the mean and the inverse root of variance + eps of each row."""
    n = x.shape[2]
    for o in range(x.shape[0]):
        for k in range(x.shape[1]):
            row, target, factor, shift = x[o, k], out[o, k], weight[k], bias[k]
            total, alike = W(0), 1
            while alike < n and row[alike] == row[0]:
                alike += 1
            # Blocks of 512 stay in the first-level cache, and their sums in T (vectorised) are short enough to round
            # little.
            for begin in range(0, n, 512):
                part, block = row[begin : begin + 512], T(0)
                for i in range(part.size):
                    block += part[i]
                total += block
            # A second pass over the distances: E[x**2] - E[x]**2 would cancel where the mean is large.
            # The mean of equal elements is themselves, without a rounding: results are exactly the bias then.
            middle, squares = row[0] if alike == n else T(total / n), W(0)
            for begin in range(0, n, 512):
                part, block = row[begin : begin + 512], T(0)
                for i in range(part.size):
                    block += (part[i] - middle) * (part[i] - middle)
                squares += block
            scale = T(1 / np.sqrt(squares / n + eps))
            mean[o, k], rstd[o, k] = middle, scale
            for i in range(n):
                target[i] = (row[i] - middle) * scale * factor[i] + shift[i]


@loop
def repeat_each(x, out):
    """Fill row r of ``out`` with x[r]: a weight of one value a channel, for all places of the channel."""
    for r in range(x.size):
        row, value = out[r], x[r]
        for i in range(row.size):
            row[i] = value


def slopes_of_row(slope, row, middle, scale, factor, target):
    """The gradient of a row that was normalised, with respect to its elements."""
    n = row.size
    # Rows of one element become their bias: no gradient, rather than what rounding leaves of a difference.
    if n == 1:
        scale = T(0)
    total, product = W(0), W(0)
    for begin in range(0, n, 512):
        end = min(begin + 512, n)
        gs, xs, ws, a, b = slope[begin:end], row[begin:end], factor[begin:end], T(0), T(0)
        for i in range(gs.size):
            d = gs[i] * ws[i]
            a += d
            b += d * (xs[i] - middle)
        total += a
        product += b
    # With d = g weight and y = (x - mean) rstd: (d - mean(d) - y mean(d y)) rstd.
    level, tilt = T(total / n), T(product / n) * scale * scale
    for i in range(n):
        target[i] = (slope[i] * factor[i] - level - (row[i] - middle) * tilt) * scale


@loop(reassoc=True, split=("g", "x", "mean", "rstd", "out"))
def row_gradient(g, x, mean, rstd, weight, out):
    """The gradient of ``normalize_rows`` with respect to x."""
    for o in range(x.shape[0]):
        for k in range(x.shape[1]):
            slopes_of_row(g[o, k], x[o, k], mean[o, k], rstd[o, k], weight[k], out[o, k])


@loop(split=("g", "x", "mean", "rstd", "for_weight", "for_bias"))
def row_sums(g, x, mean, rstd, for_weight, for_bias):
    """The gradients of ``normalize_rows`` with respect to weight and bias, for each of some chunks of rows.

    g and x are given as (chunks, outer, groups, n), weight and bias as (chunks, groups, n).
    """
    outer, n = x.shape[1], x.shape[3]
    # Sums down columns, 2048 at a time so that the four buffers stay in cache; 32 rows to a block in T.
    room = min(2048, n)
    products, sums, weights, biases = np.empty(room, T), np.empty(room, T), np.empty(room, W), np.empty(room, W)
    for c in range(x.shape[0]):
        for k in range(x.shape[2]):
            for left in range(0, n, 2048):
                width = min(2048, n - left)
                weights[:], biases[:] = 0, 0
                for begin in range(0, outer, 32):
                    products[:], sums[:] = 0, 0
                    for o in range(begin, min(begin + 32, outer)):
                        slope, row = g[c, o, k, left : left + width], x[c, o, k, left : left + width]
                        add_to_sums(slope, row, mean[c, o, k], rstd[c, o, k], products, sums)
                    add_both(products[:width], sums[:width], weights, biases)
                put_both(weights, biases, for_weight[c, k, left : left + width], for_bias[c, k, left : left + width])


@loop(reassoc=True, split=("g", "x", "mean", "rstd", "out", "for_weight", "for_bias"))
def row_gradients(g, x, mean, rstd, weight, past, out, for_weight, for_bias):
    """``row_gradient`` and ``row_sums`` in one pass over g and x; out as (chunks, outer, groups, n).

    past: whether to write ``out`` past the caches; see words/stream.py.
    """
    outer, n = x.shape[1], x.shape[3]
    products, sums, weights, biases = np.empty(n, T), np.empty(n, T), np.empty(n, W), np.empty(n, W)
    # A row is computed here and then copied past the caches: arithmetic that stores so itself waits for the stores.
    slopes = np.empty(n if past else 0, T)
    for c in range(x.shape[0]):
        for k in range(x.shape[2]):
            weights[:], biases[:] = 0, 0
            for begin in range(0, outer, 32):
                products[:], sums[:] = 0, 0
                for o in range(begin, min(begin + 32, outer)):
                    slope, row, middle, scale = g[c, o, k], x[c, o, k], mean[c, o, k], rstd[c, o, k]
                    slopes_of_row(slope, row, middle, scale, weight[k], slopes if past else out[c, o, k])
                    if past:
                        stream(out[c, o, k], slopes)
                    add_to_sums(slope, row, middle, scale, products, sums)
                add_both(products, sums, weights, biases)
            put_both(weights, biases, for_weight[c, k], for_bias[c, k])
    if past:
        drain()


def add_to_sums(slope, row, middle, scale, products, sums):
    """Add the gradients of weight and bias that are due to a row to these sums."""
    for j in range(row.size):
        products[j] += slope[j] * ((row[j] - middle) * scale)
        sums[j] += slope[j]


def add_both(x, y, to_x, to_y):
    """Add two vectors to two others."""
    for j in range(x.size):
        to_x[j] += x[j]
        to_y[j] += y[j]


def put_both(x, y, to_x, to_y):
    """Copy the beginnings of two vectors, of the lengths of the two others, to these."""
    for j in range(to_x.size):
        to_x[j], to_y[j] = x[j], y[j]


# -- channels -----------------------------------------------------------------------------------------


@loop(reassoc=True)
def channel_moments(x, mean, var):
    """The mean of each channel, and the mean of the squares of distances to it."""
    outer, inner = x.shape[0], x.shape[2]
    count = outer * inner
    for c in range(x.shape[1]):
        total = W(0)
        for o in range(outer):
            row = x[o, c]
            for begin in range(0, inner, 512):
                part, block = row[begin : begin + 512], T(0)
                for i in range(part.size):
                    block += part[i]
                total += block
        middle, squares = T(total / count), W(0)
        for o in range(outer):
            row = x[o, c]
            for begin in range(0, inner, 512):
                part, block = row[begin : begin + 512], T(0)
                for i in range(part.size):
                    block += (part[i] - middle) * (part[i] - middle)
                squares += block
        mean[c], var[c] = middle, squares / count


@loop
def column_moments(x, mean, var):
    """``channel_moments`` for (outer, channels), of few elements: in one launch, where larger ones have four."""
    totals = np.empty(mean.size, W)
    totals[:] = 0
    for o in range(x.shape[0]):
        row = x[o]
        for c in range(row.size):
            totals[c] += row[c]
    for c in range(mean.size):
        mean[c], totals[c] = totals[c] / x.shape[0], 0
    for o in range(x.shape[0]):
        row = x[o]
        for c in range(row.size):
            totals[c] += (row[c] - mean[c]) * (row[c] - mean[c])
    for c in range(mean.size):
        var[c] = totals[c] / x.shape[0]


@loop
def inverse_root(var, out, eps):
    """1 / sqrt(var + eps)."""
    # W: eps may be below float32's resolution of var.
    for c in range(var.size):
        out[c] = 1 / np.sqrt(W(var[c]) + eps)


@loop
def move_towards(fresh, out, momentum, factor):
    """Move running values in place: (1 - momentum) * out + momentum * factor * fresh."""
    for c in range(fresh.size):
        out[c] = out[c] * T(1 - momentum) + T(momentum) * (fresh[c] * T(factor))


@loop(split=("x", "out"))
def normalize_channels(x, mean, rstd, weight, bias, out):
    """(x - mean) * rstd * weight + bias, each of one value a channel."""
    for o in range(x.shape[0]):
        for c in range(x.shape[1]):
            row, target, middle, scale, shift = x[o, c], out[o, c], mean[c], rstd[c] * weight[c], bias[c]
            for i in range(row.size):
                target[i] = (row[i] - middle) * scale + shift


@loop(split=("x", "out"))
def normalize_columns(x, mean, rstd, weight, bias, out):
    """``normalize_channels`` for (outer, channels)."""
    # One pass in memory's order: with one place to a channel, rows of channels are what is contiguous.
    for o in range(x.shape[0]):
        row, target = x[o], out[o]
        for c in range(row.size):
            target[c] = (row[c] - mean[c]) * (rstd[c] * weight[c]) + bias[c]


@loop(reassoc=True)
def channel_sums(g, x, mean, rstd, weight, bias):
    """Sums of g * (x - mean) * rstd and of g: the gradients of weight and bias."""
    inner = x.shape[2]
    for c in range(x.shape[1]):
        middle, product, total = mean[c], W(0), W(0)
        for o in range(x.shape[0]):
            slope, row = g[o, c], x[o, c]
            for begin in range(0, inner, 512):
                gs, xs, a, b = slope[begin : begin + 512], row[begin : begin + 512], T(0), T(0)
                for i in range(gs.size):
                    a += gs[i]
                    b += gs[i] * (xs[i] - middle)
                total += a
                product += b
        weight[c], bias[c] = product * rstd[c], total


@loop
def channel_sums_columns(g, x, mean, rstd, weight, bias):
    """``channel_sums`` for (outer, channels)."""
    products, sums = np.zeros(x.shape[1], W), np.zeros(x.shape[1], W)
    for o in range(x.shape[0]):
        slope, row = g[o], x[o]
        for c in range(row.size):
            products[c] += slope[c] * (row[c] - mean[c])
            sums[c] += slope[c]
    for c in range(products.size):
        weight[c], bias[c] = products[c] * rstd[c], sums[c]


@loop(split=("g", "x", "out"))
def channel_gradient(g, x, mean, rstd, weight, products, sums, out, count):
    """The gradient of normalised channels with respect to x, given ``channel_sums`` and how many elements they sum."""
    for o in range(x.shape[0]):
        for c in range(x.shape[1]):
            slope, row, target, middle, scale = g[o, c], x[o, c], out[o, c], mean[c], rstd[c] * weight[c]
            # As `row_gradient`, for a mean and a deviation that a whole channel shares.
            level, tilt = sums[c] / T(count), products[c] * rstd[c] / T(count)
            for i in range(row.size):
                target[i] = (slope[i] - level - (row[i] - middle) * tilt) * scale


@loop(split=("g", "x", "out"))
def channel_gradient_columns(g, x, mean, rstd, weight, products, sums, out, count):
    """``channel_gradient`` for (outer, channels)."""
    for o in range(x.shape[0]):
        slope, row, target = g[o], x[o], out[o]
        for c in range(row.size):
            tilt = products[c] * rstd[c] / T(count)
            target[c] = (slope[c] - sums[c] / T(count) - (row[c] - mean[c]) * tilt) * (rstd[c] * weight[c])
