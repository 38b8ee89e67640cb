"""Sliding windows of volumes as columns of matrices, and back: what convolution multiplies, unfold and fold.

A volume is (channels, depth, height, width). ``geometry`` lists, for the three dims each: the window's size, the
stride, the padding, the dilation, and how many windows there are. A row of the matrix is an element of the window,
counted through channels, depth, height and width; a column is a place of the window.
"""

from __future__ import annotations

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.taps import row_pieces

__all__ = ["add_columns", "add_windows", "columns_of", "fold_columns", "take_columns"]


def take_columns(x, channel, channels, geometry, begin, end, columns):
    """Columns ``begin`` to ``end`` of some channels of a volume; zeros where a window lies outside."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    kd, kh, kw, sd, sh, sw = geometry[0], geometry[1], geometry[2], geometry[3], geometry[4], geometry[5]
    rows, places = geometry[13], geometry[14]
    # Flat arrays, and places counted on: indices of four dims, or a division for each row, take longer than its copy.
    flat, table = x.reshape(x.size), columns.reshape(columns.size)
    d_begin, h_begin, w_begin = begin // (rows * places), begin // places % rows, begin % places
    at, outside = 0, False
    for e in range(3):
        end_of_last = (geometry[12 + e] - 1) * geometry[3 + e] + (geometry[e] - 1) * geometry[9 + e] - geometry[6 + e]
        outside |= geometry[6 + e] > 0 or end_of_last >= x.shape[1 + e]
    for c in range(channel, channel + channels):
        for i in range(kd):
            d_shift = i * geometry[9] - geometry[6]
            for j in range(kh):
                h_shift = j * geometry[10] - geometry[7]
                for k in range(kw):
                    shift = k * geometry[11] - geometry[8]
                    # Of a row's windows those that read inside.
                    low, high = -(shift // sw), (width - 1 - shift) // sw + 1
                    d, h, w, p = d_begin, h_begin, w_begin, begin
                    if outside:  # all at once: a call for the zeros at either end of a row takes as long as its copy
                        table[at : at + end - begin] = T(0)
                    while p < end:
                        count = min(places - w, end - p)
                        start = at + p - begin
                        x_d, x_h = d * sd + d_shift, h * sh + h_shift
                        first, last = max(low - w, 0), min(high - w, count)
                        if 0 <= x_d < depth and 0 <= x_h < height and last > first:
                            source = ((c * depth + x_d) * height + x_h) * width + (w + first) * sw + shift
                            target, part = table[start + first : start + last], flat[source:]
                            if sw == 1:
                                for t in range(target.size):
                                    target[t] = part[t]
                            elif sw == 2:  # a constant distance, so that vectors are loaded
                                for t in range(target.size):
                                    target[t] = part[2 * t]
                            else:
                                for t in range(target.size):
                                    target[t] = part[t * sw]
                        p += count
                        w = 0
                        h += 1
                        if h == rows:
                            h = 0
                            d += 1
                    at += columns.shape[1]


def add_windows(x, channel, channels, geometry, begin, end, weights, sums):
    """Add the products of one row of weights and the windows ``begin`` to ``end`` to ``sums``."""
    depth, height, width = x.shape[1], x.shape[2], x.shape[3]
    kd, kh, kw, sd, sh, sw = geometry[0], geometry[1], geometry[2], geometry[3], geometry[4], geometry[5]
    rows, places = geometry[13], geometry[14]
    flat, r = x.reshape(x.size), 0
    d_begin, h_begin, w_begin = begin // (rows * places), begin // places % rows, begin % places
    for c in range(channel, channel + channels):
        for i in range(kd):
            d_shift = i * geometry[9] - geometry[6]
            for j in range(kh):
                h_shift = j * geometry[10] - geometry[7]
                for k in range(kw):
                    shift, factor = k * geometry[11] - geometry[8], weights[r]
                    # Of a row's windows those that read inside.
                    low, high = -(shift // sw), (width - 1 - shift) // sw + 1
                    d, h, w, p = d_begin, h_begin, w_begin, begin
                    while p < end:
                        count = min(places - w, end - p)
                        x_d, x_h = d * sd + d_shift, h * sh + h_shift
                        first, last = max(low - w, 0), min(high - w, count)
                        if 0 <= x_d < depth and 0 <= x_h < height and last > first:
                            source = ((c * depth + x_d) * height + x_h) * width + (w + first) * sw + shift
                            target, part = sums[p - begin + first : p - begin + last], flat[source:]
                            if sw == 1:
                                for t in range(target.size):
                                    target[t] += factor * part[t]
                            else:
                                for t in range(target.size):
                                    target[t] += factor * part[t * sw]
                        p += count
                        w = 0
                        h += 1
                        if h == rows:
                            h = 0
                            d += 1
                    r += 1


def add_columns(columns, channel, channels, geometry, begin, end, out):
    """The transpose of ``take_columns``: columns are added to the volume where they would be read."""
    depth, height, width = out.shape[1], out.shape[2], out.shape[3]
    kd, kh, kw, sd, sh, sw = geometry[0], geometry[1], geometry[2], geometry[3], geometry[4], geometry[5]
    rows, places = geometry[13], geometry[14]
    # Flat arrays, and places counted on: indices of four dims, or a division for each row, take longer than its copy.
    flat, table = out.reshape(out.size), columns.reshape(columns.size)
    d_begin, h_begin, w_begin = begin // (rows * places), begin // places % rows, begin % places
    at = 0
    for c in range(channel, channel + channels):
        for i in range(kd):
            d_shift = i * geometry[9] - geometry[6]
            for j in range(kh):
                h_shift = j * geometry[10] - geometry[7]
                for k in range(kw):
                    shift = k * geometry[11] - geometry[8]
                    # Of a row's windows those that read inside.
                    low, high = -(shift // sw), (width - 1 - shift) // sw + 1
                    d, h, w, p = d_begin, h_begin, w_begin, begin
                    while p < end:
                        count = min(places - w, end - p)
                        start = at + p - begin
                        x_d, x_h = d * sd + d_shift, h * sh + h_shift
                        first, last = max(low - w, 0), min(high - w, count)
                        if x_d < 0 or x_d >= depth or x_h < 0 or x_h >= height or last <= first:
                            pass
                        else:
                            source = ((c * depth + x_d) * height + x_h) * width + (w + first) * sw + shift
                            target, part = flat[source:], table[start + first : start + last]
                            if sw == 1:
                                for t in range(part.size):
                                    target[t] += part[t]
                            else:
                                for t in range(part.size):
                                    target[t * sw] += part[t]
                        p += count
                        w = 0
                        h += 1
                        if h == rows:
                            h = 0
                            d += 1
                    at += columns.shape[1]


@loop(pieces=row_pieces)
def columns_of(x, geometry, out, first, last):
    """The matrices (n, rows, places) of volumes (n, channels, depth, height, width)."""
    for n in range(first, last):
        take_columns(x[n], 0, x.shape[1], geometry, 0, out.shape[2], out[n])


@loop(pieces=row_pieces)
def fold_columns(x, geometry, out, first, last):
    """Volumes to which the columns of matrices (n, rows, places) are added."""
    for n in range(first, last):
        volume = out[n]
        volume[:] = T(0)
        add_columns(x[n], 0, out.shape[1], geometry, 0, x.shape[2], volume)
