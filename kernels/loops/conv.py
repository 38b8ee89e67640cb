"""Convolution: products of weights with the columns of windows (see columns.py), some columns at a time.

As many columns as fit into a core's cache are gathered and multiplied, by BLAS where it has the dtype: all of them
would be written to memory and read again, which takes longer than the product. Arrays: x (n, channels, depth, height,
width), weight (groups, out channels of a group, rows of columns), y (n, groups, out channels of a group, places).
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.columns import add_columns, add_windows, take_columns
from jitgrad.kernels.loops.products import multiply, run_with_blas

__all__ = ["add_unbounded", "bounded_weight_sums", "convolve", "convolve_back", "weight_sums"]

_WORK = 9  # from 1 << (this + 12) multiplications on two threads are clearly quicker


def _forward_pieces(x, weight, bias, geometry, function, block, pointwise, out):
    chunks = -(-out.shape[3] // block)
    return x.shape[0] * weight.shape[0] * chunks, out.size * weight.shape[2] >> _WORK


@loop(pieces=_forward_pieces, dtype_from="out", grain=1 << 12, reassoc=True)
def forward_pieces(x, weight, bias, geometry, function, block, pointwise, out, first, last):
    groups, channels, places = weight.shape[0], x.shape[1] // weight.shape[0], out.shape[3]
    chunks = -(-places // block)
    columns = np.empty((1 if pointwise else weight.shape[2], block), T)
    for piece in range(first, last):
        n, rest = piece // (groups * chunks), piece % (groups * chunks)
        g, begin = rest // chunks, rest % chunks * block
        end = min(begin + block, places)
        target = out[n, g, :, begin:end]
        if bias.size:
            for o in range(target.shape[0]):
                target[o, :] = bias[g * target.shape[0] + o]
        if not pointwise and target.shape[0] == 1:  # without a matrix: its rows would be read once
            if not bias.size:
                target[:] = T(0)
            add_windows(x[n], g * channels, channels, geometry, begin, end, weight[g, 0], target[0])
        elif pointwise:
            source = x[n].reshape(x.shape[1], places)[g * channels : (g + 1) * channels, begin:end]
            multiply(function, weight[g], False, source, False, target, bias.size > 0)
        else:
            take_columns(x[n], g * channels, channels, geometry, begin, end, columns)
            multiply(function, weight[g], False, columns[:, : end - begin], False, target, bias.size > 0)


def _back_pieces(y, weight, bias, geometry, function, block, pointwise, out):
    return out.shape[0] * weight.shape[0], y.size * weight.shape[2] >> _WORK


@loop(pieces=_back_pieces, dtype_from="out", grain=1 << 12, reassoc=True)
def back_pieces(y, weight, bias, geometry, function, block, pointwise, out, first, last):
    groups, channels, places = weight.shape[0], out.shape[1] // weight.shape[0], y.shape[3]
    columns = np.empty((1 if pointwise else weight.shape[2], block), T)
    for piece in range(first, last):
        n, g = piece // groups, piece % groups
        volume = out[n]
        for c in range(g * channels, (g + 1) * channels):
            volume[c] = bias[c] if bias.size else T(0)
        for begin in range(0, places, block):
            end = min(begin + block, places)
            source = y[n, g, :, begin:end]
            if pointwise:
                target = volume.reshape(out.shape[1], places)[g * channels : (g + 1) * channels, begin:end]
                multiply(function, weight[g], True, source, False, target, True)
            else:
                part = columns[:, : end - begin]
                multiply(function, weight[g], True, source, False, part, False)
                add_columns(columns, g * channels, channels, geometry, begin, end, volume)


@loop(dtype_from="out")
def add_unbounded(y, weight, out, geometry):
    """Add the products of infinite and NaN weights to a transposed convolution that was computed with zeros for them.

    Slabs and rows also multiply the zeros around ``y`` (n, channels, depth, height, width), and zero times infinity is
    NaN. weight: (groups, out channels, channels, elements).
    """
    flat, found = weight.reshape(weight.size), False
    for r in range(flat.size):
        found |= flat[r] - flat[r] != 0
    if not found:
        return
    outs, channels, elements = weight.shape[1:]
    kh, kw = geometry[1], geometry[2]
    for r in range(flat.size):
        factor, o, c, t = flat[r], r // (channels * elements), r // elements % channels, r % elements
        if factor - factor == 0:
            continue
        d_shift = t // (kh * kw) * geometry[9] - geometry[6]
        h_shift = t // kw % kh * geometry[10] - geometry[7]
        w_shift = t % kw * geometry[11] - geometry[8]
        for n in range(y.shape[0]):
            source, target = y[n, o], out[n, o // outs * channels + c]
            for i in range(max(-d_shift, 0), min(source.shape[0], target.shape[0] - d_shift)):
                for j in range(max(-h_shift, 0), min(source.shape[1], target.shape[1] - h_shift)):
                    for k in range(max(-w_shift, 0), min(source.shape[2], target.shape[2] - w_shift)):
                        target[i + d_shift, j + h_shift, k + w_shift] += factor * source[i, j, k]


def _weight_pieces(y, x, geometry, function, block, pointwise, shares, out):
    return out.shape[0] * shares, y.size * out.shape[3] >> _WORK


@loop(pieces=_weight_pieces, dtype_from="y", grain=1 << 12, reassoc=True)
def weight_pieces(y, x, geometry, function, block, pointwise, shares, out, first, last):
    parts, samples, groups, places = out.shape[0], y.shape[0], y.shape[1], y.shape[3]
    channels = x.shape[1] // groups
    rows = out.shape[3] // channels
    columns = np.empty((1 if pointwise else -(-channels // shares) * rows, block), T)
    for piece in range(first, last):
        part, share = piece // shares, piece % shares
        low, high = channels * share // shares, channels * (share + 1) // shares
        for g in range(groups):
            target, keep = out[part, g, :, low * rows : high * rows], False
            for n in range(samples * part // parts, samples * (part + 1) // parts):
                for begin in range(0, places, block):
                    end = min(begin + block, places)
                    if pointwise:
                        volume, at = x[n].reshape(x.shape[1], places), g * channels
                        right = volume[at + low : at + high, begin:end]
                        multiply(function, y[n, g, :, begin:end], False, right, True, target, keep)
                    else:
                        take_columns(x[n], g * channels + low, high - low, geometry, begin, end, columns)
                        right = columns[: (high - low) * rows, : end - begin]
                        multiply(function, y[n, g, :, begin:end], False, right, True, target, keep)
                    keep = True


@library("out")
def convolve(x, weight, bias, out, geometry, block, pointwise):
    """The products of weights and windows, plus a bias for each channel, unless that is empty."""
    run_with_blas(forward_pieces, out.dtype, (x, weight, bias, geometry), (block, pointwise, out))


@library("out")
def convolve_back(y, weight, bias, out, geometry, block, pointwise):
    """The transpose: each product is added to all elements of its window, and a bias for each channel."""
    run_with_blas(back_pieces, out.dtype, (y, weight, bias, geometry), (block, pointwise, out))


@library("out")
def weight_sums(y, x, out, geometry, block, pointwise, shares):
    """The gradient of the weights, in as many parts (parts, groups, out channels, rows) as ``out`` has.

    shares: of the channels. Each is a piece of work, for who has few parts.
    """
    run_with_blas(weight_pieces, out.dtype, (y, x, geometry), (block, pointwise, shares, out))


@library("out")
def bounded_weight_sums(y, x, out, geometry, block, pointwise):
    """Compute the gradient of weights again, by columns, if it holds an infinity or NaN.

    Tiles, slabs and rows also multiply elements that belong to no window by zero: an infinity among these makes a NaN.
    """
    if not np.isfinite(out).all():
        weight_sums.call(y, x, out, geometry, block, pointwise, 1)
