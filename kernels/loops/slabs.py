"""Convolution of stride 1 without columns: a product of matrices for each element of the window.

In a padded volume whose dims are counted through, a window's element lies at the same distance from the window's
place everywhere. So the products of one element's weights and a run of places is a product of a matrix (out channels,
channels) and a slab (channels, places), the same slab, shifted, for every element. What is computed at places where
the window runs over the end of a row is left out of the result. Slabs are as long as fits into a core's cache.

Arrays are those of conv.py, but for the weights, ``taps`` (elements of the window, groups, out channels of a group,
channels of a group). ``geometry`` is that of columns.py; all strides are 1.
"""

from __future__ import annotations

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.products import multiply, run_with_blas

__all__ = ["add_parts", "slab_products", "slab_weight_sums", "split_taps"]

_WORK = 9  # from 1 << (this + 12) multiplications on two threads are clearly quicker


def take_slab(x, channel, channels, shift, row, rows, begin, end, slab):
    """Places ``begin`` to ``end`` of some channels of a volume, in a grid of ``rows`` rows of size ``row``.

    shift: how much further the grid begins before the volume, for each dim. Zeros outside of the volume.
    """
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    flat, volume = x.reshape(x.size), depth * height * width
    if row == width and rows == height and not (shift[0] or shift[1] or shift[2]):  # the grid is the volume
        inside = min(end, volume) - begin
        for i in range(channels):
            target, source = slab[i], flat[(channel + i) * volume + begin :]
            for t in range(inside):  # no assignment to a slice: Numba takes seconds to compile one
                target[t] = source[t]
            target[inside : end - begin] = T(0)
        return
    for i in range(channels):
        target, p, w, h, d = slab[i], begin, begin % row, begin // row % rows, begin // (row * rows)
        target[: end - begin] = T(0)
        while p < end:
            count = min(row - w, end - p)
            x_d, x_h, x_w = d - shift[0], h - shift[1], w - shift[2]
            low, high = max(-x_w, 0), min(width - x_w, count)
            if 0 <= x_d < depth and 0 <= x_h < height and high > low:
                inside = target[p - begin + low : p - begin + high]
                source = flat[(((channel + i) * depth + x_d) * height + x_h) * width + x_w + low :]
                for t in range(inside.size):
                    inside[t] = source[t]
            p += count
            w = 0
            h += 1
            if h == rows:
                h = 0
                d += 1


def drop_ends(sums, out, bias, channel, height, width, row, rows, begin, count):
    """Write places of a slab, with a bias, where they are places of windows."""
    for o in range(out.shape[0]):
        source, target, more = sums[o], out[o], bias[channel + o] if bias.size else T(0)
        p, w, h, d = begin, begin % row, begin // row % rows, begin // (row * rows)
        while p < begin + count:
            inside = min(width - w, begin + count - p)
            if h < height and inside > 0:
                line, numbers = target[(d * height + h) * width + w :], source[p - begin : p - begin + inside]
                for q in range(numbers.size):
                    line[q] = numbers[q] + more
            p += row - w
            w = 0
            h += 1
            if h == rows:
                h = 0
                d += 1


def _pieces(x, taps, bias, geometry, function, block, out):
    row, rows = (geometry[i] + geometry[i - 3] * (geometry[i - 12] - 1) for i in (14, 13))
    chunks = -(-(((geometry[12] - 1) * rows + geometry[13] - 1) * row + geometry[14]) // block)
    return x.shape[0] * taps.shape[1] * chunks, out.size * taps.shape[0] * taps.shape[3] >> _WORK


@loop(pieces=_pieces, dtype_from="out", grain=1 << 12, reassoc=True)
def forward_slabs(x, taps, bias, geometry, function, block, out, first, last):
    groups, outs, channels = taps.shape[1], taps.shape[2], taps.shape[3]
    kd, kh, kw, dd, dh, dw = geometry[0], geometry[1], geometry[2], geometry[9], geometry[10], geometry[11]
    height, width = geometry[13], geometry[14]
    row, rows = width + dw * (kw - 1), height + dh * (kh - 1)
    total = ((geometry[12] - 1) * rows + height - 1) * row + width
    reach = (dd * (kd - 1) * rows + dh * (kh - 1)) * row + dw * (kw - 1)
    chunks = -(-total // block)
    slab, sums = np.empty((channels, block + reach), T), np.empty((outs, block), T)
    for piece in range(first, last):
        n, rest = piece // (groups * chunks), piece % (groups * chunks)
        g, begin = rest // chunks, rest % chunks * block
        count = min(block, total - begin)
        take_slab(x[n], g * channels, channels, geometry[6:9], row, rows, begin, begin + count + reach, slab)
        t, part = 0, sums[:, :count]
        for i in range(kd):
            for j in range(kh):
                for k in range(kw):
                    at = (i * dd * rows + j * dh) * row + k * dw
                    multiply(function, taps[t, g], False, slab[:, at : at + count], False, part, t > 0)
                    t += 1
        drop_ends(sums, out[n, g], bias, g * outs, height, width, row, rows, begin, count)


def _weight_pieces(y, x, geometry, function, block, shares, out):
    return out.shape[0] * shares, y.size * out.shape[1] * out.shape[4] >> _WORK


@loop(pieces=_weight_pieces, dtype_from="y", grain=1 << 12, reassoc=True)
def weight_slabs(y, x, geometry, function, block, shares, out, first, last):
    parts, groups, outs, channels = out.shape[0], out.shape[2], out.shape[3], out.shape[4]
    kd, kh, kw, dd, dh, dw = geometry[0], geometry[1], geometry[2], geometry[9], geometry[10], geometry[11]
    depth, height, width = y.shape[2], y.shape[3], y.shape[4]
    row, rows = width + dw * (kw - 1), height + dh * (kh - 1)
    total = ((depth - 1) * rows + height - 1) * row + width
    reach = (dd * (kd - 1) * rows + dh * (kh - 1)) * row + dw * (kw - 1)
    slab, grads = np.empty((-(-channels // shares), block + reach), T), np.empty((outs, block), T)
    none = np.zeros(3, np.int64)
    for piece in range(first, last):
        part, share = piece // shares, piece % shares
        low, high = channels * share // shares, channels * (share + 1) // shares
        for g in range(groups):
            keep = False
            for n in range(y.shape[0] * part // parts, y.shape[0] * (part + 1) // parts):
                for begin in range(0, total, block):
                    count = min(block, total - begin)
                    take_slab(y[n], g * outs, outs, none, row, rows, begin, begin + count, grads)
                    take_slab(x[n], g * channels + low, high - low, geometry[6:9], row, rows, begin,
                              begin + count + reach, slab)  # fmt: skip
                    t, left = 0, grads[:, :count]
                    for i in range(kd):
                        for j in range(kh):
                            for k in range(kw):
                                at = (i * dd * rows + j * dh) * row + k * dw
                                right = slab[: high - low, at : at + count]
                                multiply(function, left, False, right, True, out[part, t, g, :, low:high], keep)
                                t += 1
                    keep = True


@loop(dtype_from="out")
def split_taps(weight, turned, out):
    """Weights (groups, out channels, channels, elements) as taps; ``turned``: those of the transpose.

    These are zeros for weights that aren't finite, see ``conv.add_unbounded``.
    """
    groups, outs, channels, elements = weight.shape
    for t in range(elements):
        for g in range(groups):
            for o in range(outs):
                for c in range(channels):
                    if turned:
                        w = weight[g, o, c, t]
                        out[elements - 1 - t, g, c, o] = w if w - w == 0 else T(0)
                    else:
                        out[t, g, o, c] = weight[g, o, c, t]


@loop(dtype_from="out")
def add_parts(parts, out):
    """Parts (parts, elements, rest) of sums, added, as (rest, elements)."""
    # Element by element of the window, as ``parts`` lies in memory.
    for t in range(out.shape[1]):
        for r in range(out.shape[0]):
            total = parts[0, t, r]
            for p in range(1, parts.shape[0]):
                total += parts[p, t, r]
            out[r, t] = total


@library("out")
def slab_products(x, taps, bias, out, geometry, block):
    """The products of taps and windows, plus a bias for each channel, unless that is empty."""
    run_with_blas(forward_slabs, out.dtype, (x, taps, bias, geometry), (block, out))


@library("out")
def slab_weight_sums(y, x, out, geometry, block, shares):
    """The gradient of the taps, in as many parts (parts, elements, groups, out channels, channels) as ``out`` has.

    shares: of the channels. Each is a piece of work, for who has few parts.
    """
    run_with_blas(weight_slabs, out.dtype, (y, x, geometry), (block, shares, out))
