"""Norms, sums of squared deviations and their gradients, over contiguous (outer, n, inner) arrays."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.reduction import STREAMED

__all__ = [
    "deviations_columns", "deviations_rows", "half_quotient", "kind_of", "norm_columns", "norm_gradient", "norm_rows",
    "powers_columns", "powers_rows", "root", "squares_columns", "squares_rows",
]  # fmt: skip


@loop(reassoc=True, split=("x", "center", "out"), grain=STREAMED)
def squares_rows(x, center, out):
    """Sums of |x - center| ** 2; 0 for equal elements, although their mean may be off by a rounding."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        total, middle, alike = W(0).real, center[r], 1
        while alike < n and x[r, alike] == x[r, 0]:
            alike += 1
        for begin in range(0, n, 512):
            part, block = x[r, begin : begin + 512], T(0).real
            for i in range(part.size):
                d = part[i] - middle
                # |d|**2 without a root; for real numbers d.imag is 0 and LLVM drops the term.
                block += d.real * d.real + d.imag * d.imag
            total += block
        out[r] = W(0).real if alike == n and total > 0 else total  # of infinities the total is NaN


@loop(split=("x", "center", "out"), grain=STREAMED)
def squares_columns(x, center, out):
    """Sums of |x - center| ** 2; 0 for equal elements, although their mean may be off by a rounding."""
    n, inner = x.shape[1], x.shape[2]
    # ``.real`` of a complex dtype's array is strided; the copy is contiguous and real.
    block = np.empty(512, T).real.copy()
    total = np.empty(512, W).real.copy()
    for o in range(x.shape[0]):
        for left in range(0, inner, 512):
            width, middle = min(512, inner - left), center[o, left:]
            total[:] = 0
            for begin in range(0, n, 32):
                block[:] = 0
                for i in range(begin, min(begin + 32, n)):
                    part = x[o, i, left:]
                    for j in range(width):
                        d = part[j] - middle[j]
                        block[j] += d.real * d.real + d.imag * d.imag
                for j in range(width):
                    total[j] += block[j]
            result = out[o, left:]
            for j in range(width):
                alike = 1
                while alike < n and x[o, alike, left + j] == x[o, 0, left + j]:
                    alike += 1
                result[j] = W(0).real if alike == n and total[j] > 0 else total[j]


@loop(reassoc=True, split=("x", "out"), grain=STREAMED)
def norm_rows(x, out):
    """Square roots of sums of |x| ** 2."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        total = W(0).real
        for begin in range(0, n, 512):
            part, block = x[r, begin : begin + 512], T(0).real
            for i in range(part.size):
                block += part[i].real * part[i].real + part[i].imag * part[i].imag
            total += block
        out[r] = np.sqrt(total)


@loop(split=("x", "out"), grain=STREAMED)
def norm_columns(x, out):
    """Square roots of sums of |x| ** 2."""
    n, inner = x.shape[1], x.shape[2]
    # Real and contiguous, whatever T is.
    total = np.empty(512, W).real.copy()
    for o in range(x.shape[0]):
        for left in range(0, inner, 512):
            width = min(512, inner - left)
            total[:] = 0
            for i in range(n):
                part = x[o, i, left:]
                for j in range(width):
                    total[j] += part[j].real * part[j].real + part[j].imag * part[j].imag
            result = out[o, left:]
            for j in range(width):
                result[j] = np.sqrt(total[j])


# How a norm of another order than 2 is made; POWER of any that is none of the others.
SUM, LARGEST, SMALLEST, POWER = range(4)


def kind_of(order):
    """The kind of norms of an order, which is neither 0 nor 2."""
    return {1.0: SUM, np.inf: LARGEST, -np.inf: SMALLEST}.get(order, POWER)


@loop(reassoc=True, split=("x", "out"), grain=STREAMED)
def powers_rows(x, out, kind, order):
    """Norms: sums of |x| ** order to the power 1 / order, or the largest or smallest |x|, NaN where there is one."""
    n, power = x.shape[1], T(order).real
    for r in range(x.shape[0]):
        total = W(np.inf).real if kind == SMALLEST else W(0).real
        for begin in range(0, n, 512):
            part, block = x[r, begin : begin + 512], T(0).real
            if kind == SUM:
                for i in range(part.size):
                    block += abs(part[i])
                total += block
            elif kind == POWER:
                for i in range(part.size):
                    block += abs(part[i]) ** power
                total += block
            elif kind == LARGEST:
                for i in range(part.size):
                    size = abs(part[i])
                    total = size if size > total or size != size else total
            else:
                for i in range(part.size):
                    size = abs(part[i])
                    total = size if size < total or size != size else total
        out[r] = total ** (1 / order) if kind == POWER else total


@loop(split=("x", "out"), grain=STREAMED)
def powers_columns(x, out, kind, order):
    """Norms: sums of |x| ** order to the power 1 / order, or the largest or smallest |x|, NaN where there is one."""
    n, inner, power = x.shape[1], x.shape[2], T(order).real
    total = np.empty(512, W).real.copy()
    for o in range(x.shape[0]):
        for left in range(0, inner, 512):
            width = min(512, inner - left)
            total[:] = np.inf if kind == SMALLEST else 0
            for i in range(n):
                part = x[o, i, left:]
                if kind == SUM:
                    for j in range(width):
                        total[j] += abs(part[j])
                elif kind == POWER:
                    for j in range(width):
                        total[j] += abs(part[j]) ** power
                elif kind == LARGEST:
                    for j in range(width):
                        size = abs(part[j])
                        total[j] = size if size > total[j] or size != size else total[j]
                else:
                    for j in range(width):
                        size = abs(part[j])
                        total[j] = size if size < total[j] or size != size else total[j]
            result = out[o, left:]
            for j in range(width):
                result[j] = total[j] ** (1 / order) if kind == POWER else total[j]


@loop(split=("x", "center", "g", "out"), grain=STREAMED)
def deviations_rows(x, center, g, out, scale):
    """(x - center) * g * scale: the gradient of a variance."""
    for r in range(x.shape[0]):
        row, target, middle, factor = x[r], out[r], center[r], g[r] * T(scale)
        for i in range(row.size):
            target[i] = (row[i] - middle) * factor


@loop(split=("x", "center", "g", "out"), grain=STREAMED)
def deviations_columns(x, center, g, out, scale):
    """(x - center) * g * scale: the gradient of a variance."""
    for o in range(x.shape[0]):
        middle, factor = center[o], g[o]
        for i in range(x.shape[1]):
            row, target = x[o, i], out[o, i]
            for j in range(row.size):
                target[j] = (row[j] - middle[j]) * (factor[j] * T(scale))


@loop
def half_quotient(g, x, out):
    """g / (2 x), and 0 where x is 0: the gradient of squares with roots x."""
    for i in range(x.size):
        out[i] = g[i] / (x[i] * 2) if x[i] != 0 else T(0)


@loop(split=("g", "norm", "x", "out"), dtype_from="x")
def norm_gradient(g, norm, x, out):
    """x * (g / norm), and 0 where the norm is 0: x and out are (outer, n, inner), g and norm (outer, inner)."""
    n = x.shape[1]
    elements, targets = x.reshape(x.size), out.reshape(out.size)
    for o in range(x.shape[0]):
        slope, size = g[o], norm[o]
        if x.shape[2] == 1:
            factor = slope[0] / size[0] if size[0] != 0 else T(0)
            row, target = elements[o * n : (o + 1) * n], targets[o * n : (o + 1) * n]
            for i in range(row.size):
                target[i] = row[i] * factor
            continue
        for i in range(n):
            row, target = x[o, i], out[o, i]
            for j in range(row.size):
                target[j] = row[j] * (slope[j] / size[j] if size[j] != 0 else T(0))


@loop
def root(out):
    """Square roots of a flat array, in place: variances become standard deviations."""
    for i in range(out.size):
        out[i] = np.sqrt(out[i])
