"""Running sums and products along the middle axis of contiguous (outer, n, inner) arrays."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words import exp, log
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "complex_logcumsumexp", "cumprod_columns", "cumprod_gradient", "cumprod_rows", "cumsum_columns", "cumsum_rows",
    "extremes_columns", "extremes_rows", "logcumsumexp", "logcumsumexp_gradient",
]  # fmt: skip


@loop(split=("x", "out"))
def cumsum_rows(x, out, backwards):
    """Running sums, from the end if ``backwards``; float32 is added up in double precision."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        # W: a running sum has as many roundings as elements, and no blocks to keep them few.
        row, target, total = x[r], out[r], W(0)
        if backwards:
            for k in range(n):
                total += W(row[n - 1 - k])
                target[n - 1 - k] = total
        else:
            for i in range(n):
                total += W(row[i])
                target[i] = total


@loop(split=("x", "out"))
def cumsum_columns(x, out, backwards):
    """Running sums, from the end if ``backwards``; float32 is added up in double precision."""
    n, inner = x.shape[1], x.shape[2]
    total = np.empty(inner, W)
    for o in range(x.shape[0]):
        total[:] = W(0)
        for k in range(n):
            i = n - 1 - k if backwards else k
            row, target = x[o, i], out[o, i]
            for j in range(inner):
                total[j] += W(row[j])
                target[j] = total[j]


@loop(split=("x", "out"))
def cumprod_rows(x, out):
    """Running products."""
    for r in range(x.shape[0]):
        row, target, product = x[r], out[r], W(1)
        for i in range(row.size):
            product *= W(row[i])
            target[i] = product


@loop(split=("x", "out"))
def cumprod_columns(x, out):
    """Running products."""
    n, inner = x.shape[1], x.shape[2]
    product = np.empty(inner, W)
    for o in range(x.shape[0]):
        product[:] = W(1)
        for i in range(n):
            row, target = x[o, i], out[o, i]
            for j in range(inner):
                product[j] *= W(row[j])
                target[j] = product[j]


@loop(split=("x", "g", "out", "gradient"))
def cumprod_gradient(x, g, out, gradient):
    """The gradient of running products, of real numbers.

    Each element but a zero can be divided by; only for the first zero is there a product without it that is not zero.
    """
    n = x.shape[1]
    for r in range(x.shape[0]):
        row, target, total, first = x[r], gradient[r], W(0), n
        for i in range(n):
            k = n - 1 - i
            total += W(g[r, k]) * W(out[r, k])
            if row[k] == T(0):
                first = k
                target[k] = T(0)
            else:
                target[k] = total / W(row[k])
        if first < n:
            product, total = W(1), W(0)
            for k in range(first):
                product *= W(row[k])
            for k in range(first, n):
                if k > first:
                    product *= W(row[k])
                total += W(g[r, k]) * product
            target[first] = total


def supersedes(v, best, largest):
    """Whether an element takes the place of the extremum before it: the latest of equal ones does, and of NaN."""
    return (v != v) | ((best == best) & ((v >= best) if largest else (v <= best)))


@loop(split=("x", "values", "index"))
def extremes_rows(x, values, index, largest):
    """The largest, or smallest, element so far, and its place."""
    for r in range(x.shape[0]):
        row, target, places = x[r], values[r], index[r]
        if row.size:
            best, at = row[0], 0
            for i in range(row.size):
                # A branch, though it may be taken often in ordered rows: selects would wait for one another.
                if supersedes(row[i], best, largest):
                    best, at = row[i], i
                target[i], places[i] = best, at


@loop(split=("x", "values", "index"))
def extremes_columns(x, values, index, largest):
    """The largest, or smallest, element so far, and its place."""
    inner = x.shape[2]
    for o in range(x.shape[0]):
        for i in range(x.shape[1]):
            before = max(i - 1, 0)
            for j in range(inner):
                v, best = x[o, i, j], (x[o, i, j] if i == 0 else values[o, before, j])
                later = (i == 0) | supersedes(v, best, largest)
                values[o, i, j], index[o, i, j] = (v if later else best), (i if later else index[o, before, j])


def distance(a, b):
    """a - b; 0 for the same infinity."""
    return T(0) if a == b else a - b


@loop(split=("x", "out"))
def logcumsumexp(x, out, backwards):
    """Running logarithms of sums of exponentials, from the end if ``backwards``: x (outer, n, inner).

    A sum is kept in multiples of exp(top), top the largest so far: its terms then do not overflow.
    """
    n = x.shape[1]
    for o in range(x.shape[0]):
        for j in range(x.shape[2]):
            total, top = W(0), x[o, 0, j] if n else T(0)
            for k in range(n):
                i = n - 1 - k if backwards else k
                v = x[o, i, j]
                if v <= top:
                    total += W(exp(distance(v, top)))
                else:
                    # Also for NaN, with which the sum stays NaN.
                    total, top = total * W(exp(distance(top, v))) + W(1), v
                out[o, i, j] = log(T(total)) + top


def log_of_sum(x, y):
    """The logarithm of exp(x) + exp(y) of complex numbers; NaN if a part of either is."""
    low, high = (x, y) if x.real < y.real else (y, x)
    if x != x or y != y:
        return T(complex(np.nan, np.nan))
    if high.real == -np.inf:
        return low
    if low.real == -np.inf:
        return high
    if low.real == np.inf:  # so are both: no difference is to be had
        return log(exp(low) + exp(high))
    return high + log(T(1) + exp(low - high))


@loop(split=("x", "out"))
def complex_logcumsumexp(x, out, backwards):
    """The same of complex numbers, one added after the other, so that imaginary parts go on and do not jump by 2 pi."""
    n = x.shape[1]
    for o in range(x.shape[0]):
        for j in range(x.shape[2]):
            total = T(-np.inf)
            for k in range(n):
                i = n - 1 - k if backwards else k
                total = log_of_sum(x[o, i, j], total)
                out[o, i, j] = total


@loop(split=("g", "x", "out", "grad"))
def logcumsumexp_gradient(g, x, out, grad, backwards):
    """The sum over i >= j of g[i] exp(x[j] - out[i]), of complex numbers with the exponential conjugated.

    backwards: over i <= j, as the sums in ``out`` were.
    """
    n = x.shape[1]
    for o in range(x.shape[0]):
        for j in range(x.shape[2]):
            total, last = T(0), out[o, 0 if backwards else n - 1, j] if n else T(0)
            for k in range(n):
                i = k if backwards else n - 1 - k
                # In multiples of exp(-out[i]), which is larger for the next: nothing overflows.
                share = exp(distance(out[o, i, j], last))
                last = out[o, i, j]
                total = g[o, i, j] + total * share.conjugate()
                grad[o, i, j] = total * exp(distance(x[o, i, j], last)).conjugate()
