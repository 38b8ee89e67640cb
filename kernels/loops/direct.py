"""Convolution of stride 1 between few channels: sums stay in registers while windows are read from a slab.

A slab (see slabs.py) is read at a distance for each row of weights, that is for each channel and element of the window;
``reaches`` lists these. BLAS would copy columns or, element by element, make products too thin to be quick: for 6 to 16
channels it takes two to three times as long.

Arrays are those of conv.py, but that ``rows`` are weights (1, groups, out channels of a group, rows), turned for the
transpose. ``geometry`` is that of columns.py; all strides are 1. ``edges``: where the slab is cut
into blocks that fit into a core's cache, from 0 on; the first block is the longest.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.products import VECTORS, fill_column, fill_panel
from jitgrad.kernels.loops.slabs import drop_ends, take_slab
from jitgrad.kernels.words.vocabulary import T, product_tile, sum_tile

__all__ = ["direct_products", "direct_weight_sums", "split_rows"]

COLUMNS = 2 * VECTORS  # of a tile of three rows of vectors that are summed up
_WORK = 9  # from 1 << (this + 12) multiplications on two threads are clearly quicker


def reaches(geometry, channels, row, rows, step):
    """How far in a slab, whose channels are ``step`` apart, a window's elements lie from the window's place."""
    kd, kh, kw, dd, dh, dw = geometry[0], geometry[1], geometry[2], geometry[9], geometry[10], geometry[11]
    elements = kd * kh * kw
    # Filled up with the last one to a whole number of tiles.
    found = np.empty(-(-channels * elements // 4) * 4, np.int64)
    for r in range(found.size):
        at = min(r, channels * elements - 1)
        c, t = at // elements, at % elements
        i, j, k = t // (kh * kw), t // kw % kh, t % kw
        found[r] = c * step + (i * dd * rows + j * dh) * row + k * dw
    return found


def multiply_slab(weights, outs, inner, slab, places, sums, step):
    """sums = weights @ rows of the slab at ``places``; rows of sums are ``step`` apart, a whole number of vectors."""
    lanes, p = 64 // sums.itemsize, 0
    while outs == 1 and p + 4 * lanes <= step:  # sums of one vector would wait for one another
        product_tile(1, 4, weights, 0, inner, 1, slab, p, places, inner, sums, p, step, False)
        p += 4 * lanes
    panel = VECTORS * lanes
    while VECTORS > 1 and p + panel <= step:
        fill_panel(weights, inner, 1, slab, p, places, inner, sums, p, step, outs, False)
        p += panel
    while p < step:
        fill_column(weights, inner, 1, slab, p, places, inner, sums, p, step, outs, False)
        p += lanes


def _pieces(x, rows, bias, out, geometry, edges):
    return x.shape[0] * rows.shape[1] * (edges.shape[0] - 1), out.size * rows.shape[3] >> _WORK


@loop(pieces=_pieces, dtype_from="out", grain=1 << 12)
def direct_products(x, rows, bias, out, geometry, edges, first, last):
    """The products of weights and windows, plus a bias for each channel, unless that is empty."""
    groups, outs, inner = rows.shape[1], rows.shape[2], rows.shape[3]
    kd, kh, kw, dd, dh, dw = geometry[0], geometry[1], geometry[2], geometry[9], geometry[10], geometry[11]
    channels, height, width = x.shape[1] // groups, geometry[13], geometry[14]
    row, lines = width + dw * (kw - 1), height + dh * (kh - 1)
    reach = (dd * (kd - 1) * lines + dh * (kh - 1)) * row + dw * (kw - 1)
    chunks, lanes = edges.size - 1, 64 // out.itemsize
    step = -(-edges[1] // lanes) * lanes
    slab, sums = np.zeros((channels, step + reach), T), np.empty((outs, step), T)
    places = reaches(geometry, channels, row, lines, step + reach)
    for piece in range(first, last):
        n, rest = piece // (groups * chunks), piece % (groups * chunks)
        g, begin = rest // chunks, edges[rest % chunks]
        count = edges[rest % chunks + 1] - begin
        take_slab(x[n], g * channels, channels, geometry[6:9], row, lines, begin, begin + count + reach, slab)
        multiply_slab(rows[0, g], outs, inner, slab, places, sums, step)
        drop_ends(sums, out[n, g], bias, g * outs, height, width, row, lines, begin, count)


def add_slab_sums(slopes, outs, step, slab, places, inner, count, sums, keep):
    """Add products of rows of ``slopes``, and rows of the slab, to vectors of ``sums`` (outs, places, 64 bytes)."""
    lanes = sums.shape[2]
    line, o = sums.shape[1] * lanes, 0
    vectors = -(-count // lanes)
    while o + 3 <= outs:
        for r in range(0, inner, COLUMNS):
            sum_tile(3, COLUMNS, slopes, o * step, step, slab, 0, places, r, vectors, sums, o * line + r * lanes, line,
                     keep)  # fmt: skip
        o += 3
    while o < outs:
        for r in range(0, inner, 4):
            sum_tile(1, 4, slopes, o * step, step, slab, 0, places, r, vectors, sums, o * line + r * lanes, line, keep)
        o += 1


def _weight_pieces(y, x, out, geometry, edges):
    return out.shape[0], y.size * out.shape[4] >> _WORK


@loop(pieces=_weight_pieces, dtype_from="y", grain=1 << 12)
def direct_weight_sums(y, x, out, geometry, edges, first, last):
    """The gradient of the weights, in as many parts (parts, 1, groups, out channels, rows) as ``out`` has."""
    parts, groups, outs, inner = out.shape[0], out.shape[2], out.shape[3], out.shape[4]
    kd, kh, kw, dd, dh, dw = geometry[0], geometry[1], geometry[2], geometry[9], geometry[10], geometry[11]
    channels, row, lines = x.shape[1] // groups, y.shape[4] + dw * (kw - 1), y.shape[3] + dh * (kh - 1)
    reach = (dd * (kd - 1) * lines + dh * (kh - 1)) * row + dw * (kw - 1)
    lanes = 64 // out.itemsize
    step = -(-edges[1] // lanes) * lanes
    slab, slopes, none = np.zeros((channels, step + reach), T), np.zeros((outs, step), T), np.zeros(3, np.int64)
    places = reaches(geometry, channels, row, lines, step + reach)
    sums = np.empty((outs, places.size, lanes), T)
    for part in range(first, last):
        for g in range(groups):
            keep = False
            for n in range(y.shape[0] * part // parts, y.shape[0] * (part + 1) // parts):
                for b in range(edges.size - 1):
                    begin, count = edges[b], edges[b + 1] - edges[b]
                    take_slab(y[n], g * outs, outs, none, row, lines, begin, begin + count, slopes)
                    take_slab(x[n], g * channels, channels, geometry[6:9], row, lines, begin, begin + count + reach,
                              slab)  # fmt: skip
                    # What earlier blocks left behind the ends counts for nothing.
                    slopes[:, count:] = T(0)
                    slab[:, count + reach :] = T(0)
                    add_slab_sums(slopes, outs, step, slab, places, inner, count, sums, keep)
                    keep = True
            for o in range(outs):
                for r in range(inner):
                    vector, total = sums[o, r], T(0)
                    for k in range(lanes):
                        total += vector[k]
                    out[part, 0, g, o, r] = total


@loop(dtype_from="out")
def split_rows(weight, turned, out):
    """Weights (groups, out channels, channels, elements) as rows (1, groups, out channels, channels * elements).

    turned: as those of the transpose, whose out channels are channels and whose windows run backwards; zeros for those
    that aren't finite, see ``conv.add_unbounded``.
    """
    groups, outs, channels, elements = weight.shape
    for g in range(groups):
        for o in range(outs):
            for c in range(channels):
                for t in range(elements):
                    if turned:
                        w = weight[g, o, c, t]
                        out[0, g, c, o * elements + elements - 1 - t] = w if w - w == 0 else T(0)
                    else:
                        out[0, g, o, c * elements + t] = weight[g, o, c, t]
