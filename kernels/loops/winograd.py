"""Convolution by 3 x 3 of stride 1 in 16 instead of 36 multiplications for each 2 x 2 results.

Winograd's algorithm F(2 x 2, 3 x 3), as Lavin and Gray give it (Fast Algorithms for
Convolutional Neural Networks, 2015):

    y = A' [(G w G') * (B' x B)] A,     A' = [1 1  1  0]   B' = [1  0 -1  0]   G = [ 1    0   0 ]
                                             [0 1 -1 -1]        [0  1  1  0]       [1/2  1/2 1/2]
                                                                [0 -1  1  0]       [1/2 -1/2 1/2]
                                                                [0  1  0 -1]       [ 0    0   1 ]

for tiles x of 4 x 4 that overlap by two. The products of each of the 16 places of a tile, summed over channels, are a
product of matrices, (out channels, channels) by (channels, tiles). The gradient of the weights is the transpose,
G' [(A y A') * (B' x B)] G, summed over tiles. Rounding errors are about those of plain sums of products, since
the tables hold nothing but ones and halves; but they are those of the largest number of a tile. An infinity or NaN
would reach all results of its tile, also those whose window it lies beside: where there is one among the results, they
are found again by columns (conv.py).

Tiles are counted through the rows of tiles of all samples, so that small images make large matrices too.
Arrays are those of conv.py, but for the weights: ``filters`` (16, groups, out channels, channels of a group).
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.conv import convolve, convolve_back
from jitgrad.kernels.loops.products import multiply, run_with_blas
from jitgrad.kernels.words.vocabulary import T, copy_numbers, gradient_places, tile_places, tile_results

__all__ = ["filter_gradients", "filters_of", "winograd_products", "winograd_weight_sums"]

_WORK = 9  # from 1 << (this + 12) multiplications on two threads are clearly quicker


def line_of(number, height, pad, line):
    """Where in four lines and one of zeros a line of an image is, whose rows begin with ``pad`` lines of zeros."""
    return number % 4 * line if pad <= number < height + pad else 4 * line


def take_tiles(x, channel, channels, pad_h, pad_w, begin, end, rows, across, above, below, lines, tiles):
    """B' x B of the rows of tiles ``begin`` to ``end``, as (4 places of each row, channels, tiles).

    above, below: which rows of a tile, of four. lines: see ``of_lines``, of no other images than those of x.
    """
    height, width, size, lanes = x.shape[3], x.shape[4], 2 * across + 2, 64 // x.itemsize
    low, high, line = min(pad_w, size), min(width + pad_w, size), lines.size // 5
    wide, plane = tiles.shape[2], tiles.shape[1] * tiles.shape[2]
    for i in range(channels):
        for q in range(begin, end):
            n, r = q // rows, q % rows
            image, at = (n * x.shape[1] + channel + i) * height * width, i * wide + (q - begin) * across
            for a in range(2 * r + (2 if r and q > begin else 0), 2 * r + 4):  # two are of the row of tiles before
                if pad_h <= a < height + pad_h:
                    copy_numbers(x, image + (a - pad_h) * width, high - low, lines, a % 4 * line + low)
            for a in range(above, below):
                upper = line_of(2 * r + (0, 1, 2, 1)[a], height, pad_h, line)
                lower = line_of(2 * r + (2, 2, 1, 3)[a], height, pad_h, line)
                sign, first = T(1) if a == 1 else T(-1), 4 * (a - above) * plane + at
                for t in range(0, across, lanes):
                    tile_places(lines, upper + 2 * t, lower + 2 * t, sign, tiles, first + t, plane)


def put_results(sums, o, begin, end, rows, across, more, lines, out, channel):
    """A' m A of one channel's products, as rows of a channel of ``out``, plus ``more``; whether all are finite."""
    height, width, lanes, line = out.shape[3], out.shape[4], 64 // out.itemsize, lines.size // 5
    wide, plane, flat, unbounded = sums.shape[2], sums.shape[1] * sums.shape[2], out.reshape(out.size), False
    for q in range(begin, end):
        n, r, first = q // rows, q % rows, o * wide + (q - begin) * across
        for t in range(0, across, lanes):
            tile_results(sums, first + t, plane, more, lines, 2 * t, line + 2 * t)
        target = ((n * out.shape[1] * out.shape[2] + channel) * height + 2 * r) * width
        count = min(2, height - 2 * r)
        for a in range(count):
            copy_numbers(lines, a * line, width, out, target + a * width)
        written = flat[target : target + count * width]
        for t in range(written.size):
            unbounded |= not np.abs(written[t]) < T(np.inf)
    return not unbounded


def take_gradients(y, channel, channels, begin, end, rows, across, above, below, lines, tiles):
    """A y A' of the rows of tiles ``begin`` to ``end`` of ``y``; arguments as of ``take_tiles``."""
    height, width, lanes, line = y.shape[3], y.shape[4], 64 // y.itemsize, lines.size // 5
    wide, plane = tiles.shape[2], tiles.shape[1] * tiles.shape[2]
    for i in range(channels):
        for q in range(begin, end):
            n, r = q // rows, q % rows
            image, at = (n * y.shape[1] + channel + i) * height * width, i * wide + (q - begin) * across
            for a in range(2 * r, min(2 * r + 2, height)):
                copy_numbers(y, image + a * width, width, lines, a % 4 * line)
            one, other = line_of(2 * r, height, 0, line), line_of(2 * r + 1, height, 0, line)
            for a in range(above, below):
                upper, lower = (one, one, one, 4 * line)[a], (4 * line, other, other, other)[a]
                sign, first = T(1) if a < 2 else T(-1), 4 * (a - above) * plane + at
                for t in range(0, across, lanes):
                    gradient_places(lines, upper + 2 * t, lower + 2 * t, sign, tiles, first + t, plane)


def of_places(places, channels, count, lanes):
    """Numbers of ``count`` tiles, of each channel and place: rows of whole vectors, with one more for what lies behind.

    With a channel more, the places of a tile don't all fall on the same lines of a cache.
    """
    return np.zeros((places, channels + 1, (-(-count // lanes) + 1) * lanes), T)


def of_lines(across, lanes):
    """Room for four lines of an image with so many tiles in a row, and a line of zeros."""
    return np.zeros(5 * 2 * (-(-across // lanes) + 1) * lanes, T)


def _pieces(x, filters, bias, pad_h, pad_w, function, block, found, out):
    lines = out.shape[0] * ((out.shape[3] + 1) // 2)
    return filters.shape[1] * -(-lines // block), 4 * out.size * filters.shape[3] >> _WORK


@loop(pieces=_pieces, dtype_from="out", grain=1 << 12, reassoc=True)
def winograd_pieces(x, filters, bias, pad_h, pad_w, function, block, found, out, first, last):
    # out: (n, groups, out channels, height, width); found: one zero, set to 1 if a result isn't finite.
    outs, channels = filters.shape[2], filters.shape[3]
    rows, across = (out.shape[3] + 1) // 2, (out.shape[4] + 1) // 2
    total = out.shape[0] * rows
    chunks, lanes = -(-total // block), 64 // out.itemsize
    tiles, sums = of_places(16, channels, block * across, lanes), of_places(16, outs, block * across, lanes)
    lines, results = of_lines(across, lanes), of_lines(across, lanes)
    for piece in range(first, last):
        g, begin = piece // chunks, piece % chunks * block
        end = min(begin + block, total)
        count = (end - begin) * across
        take_tiles(x, g * channels, channels, pad_h, pad_w, begin, end, rows, across, 0, 4, lines, tiles)
        for f in range(16):
            right, target = tiles[f, :channels, :count], sums[f, :outs, :count]
            multiply(function, filters[f, g], False, right, False, target, False)
        for o in range(outs):
            more = bias[g * outs + o] if bias.size else T(0)
            if not put_results(sums, o, begin, end, rows, across, more, results, out, g * outs + o):
                found[0] = 1


def _weight_pieces(y, x, pad_h, pad_w, function, block, shares, out):
    return out.shape[0] * shares, 4 * y.size * out.shape[4] >> _WORK


@loop(pieces=_weight_pieces, dtype_from="y", grain=1 << 12, reassoc=True)
def winograd_weight_pieces(y, x, pad_h, pad_w, function, block, shares, out, first, last):
    parts, groups, outs, channels = out.shape[0], out.shape[2], out.shape[3], out.shape[4]
    rows, across = (y.shape[3] + 1) // 2, (y.shape[4] + 1) // 2
    total, places, count, lanes = y.shape[0] * rows, 4 * -(-4 // shares), block * across, 64 // y.itemsize
    tiles, grads = of_places(places, channels, count, lanes), of_places(places, outs, count, lanes)
    lines, gradient_lines = of_lines(across, lanes), of_lines(across, lanes)
    for piece in range(first, last):
        part, share = piece // shares, piece % shares
        begins, ends = total * part // parts, total * (part + 1) // parts
        above, below = 4 * share // shares, 4 * (share + 1) // shares
        for g in range(groups):
            for begin in range(begins, ends, block):
                end = min(begin + block, ends)
                count = (end - begin) * across
                take_tiles(x, g * channels, channels, pad_h, pad_w, begin, end, rows, across, above, below, lines,
                           tiles)  # fmt: skip
                take_gradients(y, g * outs, outs, begin, end, rows, across, above, below, gradient_lines, grads)
                for f in range(4 * above, 4 * below):
                    left, right = grads[f - 4 * above, :outs, :count], tiles[f - 4 * above, :channels, :count]
                    multiply(function, left, False, right, True, out[part, f, g], begin > begins)


def _rows(weight, turned, out):
    return out.shape[1] * out.shape[2], out.size


@loop(pieces=_rows, dtype_from="out")
def filters_of(weight, turned, out, first, last):
    """G w G' of weights (groups, out channels, channels, 9); ``turned``: those of the transpose."""
    count, half = out.shape[3], T(0.5)
    w, m = np.empty((9, count), T), np.empty((4, count), T)
    for piece in range(first, last):
        g, r = piece // out.shape[2], piece % out.shape[2]
        for i in range(count):  # the transpose's weights are turned by half a circle
            source = weight[g, i, r] if turned else weight[g, r, i]
            for k in range(9):
                w[8 - k if turned else k, i] = source[k]
        for b in range(4):
            if b == 0 or b == 3:
                left = 0 if b == 0 else 2
                for a in range(3):
                    for i in range(count):
                        m[a, i] = w[3 * a + left, i]
            else:
                sign = T(1) if b == 1 else T(-1)
                for a in range(3):
                    for i in range(count):
                        m[a, i] = half * (w[3 * a, i] + w[3 * a + 2, i] + sign * w[3 * a + 1, i])
            upper, plus, minus, lower = out[b, g, r], out[4 + b, g, r], out[8 + b, g, r], out[12 + b, g, r]
            for i in range(count):
                upper[i], lower[i] = m[0, i], m[2, i]
                plus[i] = half * (m[0, i] + m[2, i] + m[1, i])
                minus[i] = half * (m[0, i] + m[2, i] - m[1, i])


def _blocks(parts, out):
    return -(-out.shape[0] // 64), out.size


@loop(pieces=_blocks, dtype_from="out")
def filter_gradients(parts, out, first, last):
    """G' u G of the sum of parts (parts, 16, n), as (n, 9); 64 of them at a time."""
    half, u, middle = T(0.5), np.empty((16, 64), T), np.empty((12, 64), T)
    for piece in range(first, last):
        begin = 64 * piece
        count = min(64, out.shape[0] - begin)
        for f in range(16):
            total = u[f]
            total[:] = T(0)
            for p in range(parts.shape[0]):
                part = parts[p, f, begin : begin + count]
                for i in range(count):
                    total[i] += part[i]
        for b in range(4):
            for i in range(64):
                both, apart = half * (u[4 + b, i] + u[8 + b, i]), half * (u[4 + b, i] - u[8 + b, i])
                middle[b, i], middle[4 + b, i], middle[8 + b, i] = u[b, i] + both, apart, u[12 + b, i] + both
        for i in range(count):
            target = out[begin + i]
            for a in range(3):
                both = half * (middle[4 * a + 1, i] + middle[4 * a + 2, i])
                target[3 * a + 1] = half * (middle[4 * a + 1, i] - middle[4 * a + 2, i])
                target[3 * a], target[3 * a + 2] = middle[4 * a, i] + both, middle[4 * a + 3, i] + both


@library("out")
def winograd_products(x, filters, bias, out, pad_h, pad_w, block, weight, turned, geometry, columns, pointwise):
    """The convolution, plus a bias for each channel, unless that is empty; ``block`` rows of tiles at a time.

    weight, turned: what ``filters`` were made of. The last three arguments are those of ``convolve``.
    """
    found = np.zeros(1, np.int64)
    run_with_blas(winograd_pieces, out.dtype, (x, filters, bias, pad_h, pad_w), (block, found, out))
    if not found[0]:
        return
    if turned:
        y, volume = x.reshape(len(x), *weight.shape[:2], -1), out.reshape(len(x), -1, 1, *out.shape[3:])
        convolve_back.call(y, weight, bias, volume, geometry, columns, pointwise)
    else:
        convolve.call(x, weight, bias, out.reshape(*out.shape[:3], -1), geometry, columns, pointwise)


@library("out")
def winograd_weight_sums(y, x, out, pad_h, pad_w, block, shares):
    """The gradient of the filters, in as many parts (parts, 16, groups, out channels, channels) as ``out`` has.

    shares: of the rows of a tile, 1 to 4. Each is a piece of work, for who has few parts.
    """
    run_with_blas(winograd_weight_pieces, out.dtype, (y, x, pad_h, pad_w), (block, shares, out))
