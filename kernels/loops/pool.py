"""The largest element of each window of (outer, depth, height, width) arrays, and where it stands."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.taps import row_pieces
from jitgrad.kernels.words.vocabulary import T

__all__ = ["fractional_windows", "largest", "largest_of_pairs", "put_in_planes", "take_from_planes"]


def largest_in(plane, d_begin, d_end, d_step, h_begin, h_end, h_step, w_begin, w_end, w_step):
    """(value, place) of the first of the largest elements of a window; NaN is larger than numbers, the last one.

    A window whose elements are all padding has -inf, and the place -1: its gradient goes nowhere.
    """
    rows, width = plane.shape[1], plane.shape[2]
    if d_begin >= d_end or h_begin >= h_end or w_begin >= w_end:
        return T(-np.inf), -1
    best, at = plane[d_begin, h_begin, w_begin], (d_begin * rows + h_begin) * width + w_begin
    for d in range(d_begin, d_end, d_step):
        for h in range(h_begin, h_end, h_step):
            row = plane[d, h]
            for w in range(w_begin, w_end, w_step):
                value = row[w]
                if value > best or value != value:
                    best, at = value, (d * rows + h) * width + w
    return best, at


def largest_of_row(plane, d_begin, d_end, d_step, h_begin, h_end, h_step, w_begin, taps, w_step, stride, line, values,
                   at):  # fmt: skip
    """``largest_in`` of windows that lie ``stride`` apart from ``w_begin`` on, side by side."""
    rows, width, n = plane.shape[1], plane.shape[2], values.size
    fresh = True
    for d in range(d_begin, d_end, d_step):
        for h in range(h_begin, h_end, h_step):
            for t in range(taps):
                begin = w_begin + t * w_step
                row, place = plane[d, h, begin:], (d * rows + h) * width + begin
                if stride == 1:
                    source = row[:n]
                else:  # LLVM makes no vectors of a choice among numbers that lie apart
                    source = line[:n]
                    if stride == 2:
                        for w in range(n):
                            source[w] = row[2 * w]
                    else:
                        for w in range(n):
                            source[w] = row[stride * w]
                if fresh:
                    for w in range(source.size):
                        values[w], at[w] = source[w], place + w * stride
                    fresh = False
                else:
                    for w in range(source.size):
                        value, best = source[w], values[w]
                        larger = (value > best) | (value != value)
                        values[w] = value if larger else best
                        at[w] = place + w * stride if larger else at[w]


@loop(pieces=row_pieces)
def largest(x, d_begins, d_ends, d_step, h_begins, h_ends, h_step, w_begins, w_ends, w_step, low, high, taps, stride,
            places, out, first, last):  # fmt: skip
    """The largest element of each window, whose begins and ends are given for each dim; its place in the volume.

    Along the last dim windows ``low`` to ``high`` have all ``taps`` elements and lie ``stride`` apart.
    """
    line = np.empty(out.shape[3], T)
    for o in range(first, last):
        plane = x[o]
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                target, at = out[o, d, h], places[o, d, h]
                if high > low:
                    largest_of_row(
                        plane, d_begins[d], d_ends[d], d_step, h_begins[h], h_ends[h], h_step, w_begins[low], taps,
                        w_step, stride, line, target[low:high], at[low:high],
                    )  # fmt: skip
                for side in range(2):
                    for w in range(low) if side == 0 else range(high, target.size):
                        target[w], at[w] = largest_in(
                            plane, d_begins[d], d_ends[d], d_step, h_begins[h], h_ends[h], h_step, w_begins[w],
                            w_ends[w], w_step,
                        )  # fmt: skip


def largest_of_row_of_pairs(upper, lower, place, width, values, at):
    """``largest_in`` of windows of 2 x 2 side by side, in two rows of ``width`` elements of which one is at place."""
    for w in range(values.size):
        a, b, c, d = upper[2 * w], upper[2 * w + 1], lower[2 * w], lower[2 * w + 1]
        right, below_right = (b > a) | (b != b), (d > c) | (d != d)
        above, below = b if right else a, d if below_right else c
        under = (below > above) | (below != below)
        values[w] = below if under else above
        at[w] = place + 2 * w + (width + (1 if below_right else 0) if under else 1 if right else 0)


@loop(pieces=row_pieces)
def largest_of_pairs(x, places, out, first, last):
    """``largest`` of windows of 2 x 2 that touch, the most frequent ones, of arrays (outer, height, width).

    It takes an eighth of the time of windows of any shape where rows are short.
    """
    width = x.shape[2]
    for o in range(first, last):
        plane, target, at = x[o], out[o], places[o]
        for h in range(target.shape[0]):
            largest_of_row_of_pairs(plane[2 * h], plane[2 * h + 1], 2 * h * width, width, target[h], at[h])


def begin_of(k, sample, size, new, window):
    """Where window k of ``new`` begins, which a random number in 0 .. 1 shifts; the last one is at the end."""
    if k == new - 1:
        return size - window
    step = T(size - window) / T(new - 1)
    return int((T(k) + sample) * step) - int(sample * step)


@loop(pieces=row_pieces)
def fractional_windows(x, samples, d_window, h_window, w_window, places, out, first, last):
    """``largest`` of windows at places that ``samples`` (outer, dims) shift."""
    none = 3 - samples.shape[1]  # so many dims have one element, which needs no shift
    for o in range(first, last):
        plane = x[o]
        for d in range(out.shape[1]):
            i = begin_of(d, samples[o, 0], x.shape[1], out.shape[1], d_window)
            for h in range(out.shape[2]):
                j = begin_of(h, samples[o, max(1 - none, 0)], x.shape[2], out.shape[2], h_window)
                target, at = out[o, d, h], places[o, d, h]
                for w in range(target.size):
                    k = begin_of(w, samples[o, 2 - none], x.shape[3], out.shape[3], w_window)
                    target[w], at[w] = largest_in(plane, i, i + d_window, 1, j, j + h_window, 1, k, k + w_window, 1)


@loop(pieces=row_pieces)
def put_in_planes(x, places, add, out, first, last):
    """Zeros with the elements of ``x`` (outer, m) at these places of ``out`` (outer, n); ``add``: their sums there.

    An element at place -1 is left out.
    """
    for o in range(first, last):
        target = out[o]
        target[:] = T(0)
        source, at = x[o], places[o]
        if add:
            for k in range(source.size):
                if at[k] >= 0:
                    target[at[k]] += source[k]
        else:
            for k in range(source.size):
                if at[k] >= 0:
                    target[at[k]] = source[k]


@loop(pieces=row_pieces)
def take_from_planes(x, places, out, first, last):
    """The elements of ``x`` (outer, n) at these places; 0 at place -1."""
    for o in range(first, last):
        source, at, target = x[o], places[o], out[o]
        for k in range(target.size):
            target[k] = source[at[k]] if at[k] >= 0 else T(0)
