"""Sliding windows of volumes as columns of matrices, and back: what convolution multiplies, unfold and fold.

A volume is (channels, depth, height, width). ``geometry`` lists, for the three dims each: the window's size, the
stride, the padding, the dilation, and how many windows there are. A row of the matrix is an element of the window,
counted through channels, depth, height and width; a column is a place of the window.
"""

from __future__ import annotations

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.taps import row_pieces

__all__ = ["add_columns", "columns_of", "fold_columns", "take_columns"]


def inside(begin, count, step, shift, size):
    """Of the numbers ``begin .. begin + count`` those k with 0 <= k step + shift < size, as (first, last), from 0."""
    low = max(begin, -(shift // step))
    high = min(begin + count, (size - 1 - shift) // step + 1)
    return max(0, min(low - begin, count)), max(0, high - begin)


def take_columns(x, channel, channels, geometry, begin, end, columns):
    """Columns ``begin`` to ``end`` of some channels of a volume; zeros where a window lies outside."""
    rows, width = geometry[13], geometry[14]
    r = 0
    for c in range(channel, channel + channels):
        for i in range(geometry[0]):
            for j in range(geometry[1]):
                for k in range(geometry[2]):
                    p = begin
                    while p < end:
                        d, rest = p // (rows * width), p % (rows * width)
                        h, w = rest // width, rest % width
                        count = min(width - w, end - p)
                        target = columns[r, p - begin : p - begin + count]
                        d = d * geometry[3] - geometry[6] + i * geometry[9]
                        h = h * geometry[4] - geometry[7] + j * geometry[10]
                        step, shift = geometry[5], k * geometry[11] - geometry[8]
                        first, last = inside(w, count, step, shift, x.shape[3])
                        if d < 0 or d >= x.shape[1] or h < 0 or h >= x.shape[2] or last <= first:
                            target[:] = T(0)
                        else:
                            for t in range(first):
                                target[t] = T(0)
                            part, source = target[first:last], x[c, d, h, (w + first) * step + shift :]
                            if step == 1:
                                for t in range(part.size):
                                    part[t] = source[t]
                            else:
                                for t in range(part.size):
                                    part[t] = source[t * step]
                            for t in range(last, count):
                                target[t] = T(0)
                        p += count
                    r += 1


def add_columns(columns, channel, channels, geometry, begin, end, out):
    """The transpose of ``take_columns``: columns are added to the volume where they would be read."""
    rows, width = geometry[13], geometry[14]
    r = 0
    for c in range(channel, channel + channels):
        for i in range(geometry[0]):
            for j in range(geometry[1]):
                for k in range(geometry[2]):
                    p = begin
                    while p < end:
                        d, rest = p // (rows * width), p % (rows * width)
                        h, w = rest // width, rest % width
                        count = min(width - w, end - p)
                        source = columns[r, p - begin : p - begin + count]
                        d = d * geometry[3] - geometry[6] + i * geometry[9]
                        h = h * geometry[4] - geometry[7] + j * geometry[10]
                        step, shift = geometry[5], k * geometry[11] - geometry[8]
                        first, last = inside(w, count, step, shift, out.shape[3])
                        if not (d < 0 or d >= out.shape[1] or h < 0 or h >= out.shape[2] or last <= first):
                            part, target = source[first:last], out[c, d, h, (w + first) * step + shift :]
                            if step == 1:
                                for t in range(part.size):
                                    target[t] += part[t]
                            else:
                                for t in range(part.size):
                                    target[t * step] += part[t]
                        p += count
                    r += 1


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
