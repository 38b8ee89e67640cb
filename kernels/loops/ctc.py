"""Connectionist temporal classification: sums over all alignments of a sequence with a shorter one, in logarithms.

Targets t1 .. tS are read with blanks around them, b t1 b t2 .. tS b, which are 2 S + 1 states. A step stays in its
state, goes on to the next, or past a blank to the one after it where the two targets differ. ``alpha`` holds for each
sample, time and state the logarithm of the sum of all alignments until then that end there, behind two columns of -inf,
so that no state needs a case of its own; a backward sweep does the same from the end. The largest logarithm of a time
is taken out of its row and counted in ``shifts``, in double precision: long sequences have unlikely alignments.
``sizes`` has the rows (input lengths, target lengths, places of the first targets). Samples are independent.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words import exp, log, maximum
from jitgrad.kernels.words.vocabulary import T

__all__ = ["alpha", "gradient", "outside"]


def _samples(x, *_):
    """(samples, numbers) for cutting the work."""
    return x.shape[1], x.size


@loop
def outside(targets, sizes, found, classes):
    """A target that is no class goes to ``found``: (1, target)."""
    for n in range(sizes.shape[1]):
        for s in range(sizes[2, n], sizes[2, n] + sizes[1, n]):
            if found[0] == 0 and (targets[s] < 0 or targets[s] >= classes):
                found[0], found[1] = 1, targets[s]


@loop(pieces=_samples)
def alpha(x, targets, sizes, out, shifts, loss, blank, begin, end):
    """x: log-probabilities (time, samples, classes). out: (samples, time, 2 + states). loss: -log of the sums."""
    width = out.shape[2] - 2
    skip, emitted, infinity = np.empty(width, x.dtype), np.empty(width, x.dtype), T(np.inf)
    for n in range(begin, end):
        times, count, first = sizes[0, n], sizes[1, n], sizes[2, n]
        states, rows = 2 * count + 1, out[n]
        rows[:] = -infinity
        shifts[n] = 0
        for s in range(states):
            jumps = s % 2 == 1 and (s == 1 or targets[first + s // 2] != targets[first + s // 2 - 1])
            skip[s] = T(0) if jumps else -infinity
        for t in range(times):
            for s in range(states):
                emitted[s] = x[t, n, targets[first + s // 2] if s % 2 else blank]
            if t == 0:
                rows[0, 2] = emitted[0]
                if count:
                    rows[0, 3] = emitted[1]
                continue
            stay, step, jump, target = rows[t - 1, 2:], rows[t - 1, 1:], rows[t - 1], rows[t, 2:]
            for s in range(states):
                a, b, c = stay[s], step[s], jump[s] + skip[s]
                top = maximum(maximum(a, b), c)
                top = top if top > -infinity else T(0)
                target[s] = log(exp(a - top) + exp(b - top) + exp(c - top)) + top + emitted[s]
            largest = -infinity
            for s in range(states):
                largest = maximum(largest, target[s])
            if largest > -infinity:
                shifts[n, t] = shifts[n, t - 1] + largest
                for s in range(states):
                    target[s] -= largest
        if times == 0:
            loss[n] = infinity if count else -T(0)  # PyTorch's zero, which it prints
            continue
        a = rows[times - 1, states + 1]
        b = rows[times - 1, states] if count else -infinity
        top = a if a > b else b
        total = np.log(np.exp(a - top) + np.exp(b - top)) + top + shifts[n, times - 1]
        loss[n] = -total if top > -infinity else infinity


@loop(pieces=_samples, dtype_from="x")
def gradient(x, g, targets, sizes, alpha, shifts, loss, out, blank, zero_infinity, begin, end):
    """g times what softmax's gradient is of: probabilities minus the shares of alignments that emit each class then.

    The gradient in log-probabilities themselves would lack the first term, which a log-softmax below takes out again.
    """
    width = alpha.shape[2]
    skip, emitted, infinity = np.empty(width, x.dtype), np.empty(width, x.dtype), T(np.inf)
    beta, last = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for n in range(begin, end):
        times, count, first = sizes[0, n], sizes[1, n], sizes[2, n]
        states, above, cost, shift = 2 * count + 1, g[n], loss[n], np.float64(0)
        for t in range(times, x.shape[0]):
            out[t, n] = 0
        if cost == infinity:
            out[:times, n] = T(0) if zero_infinity else T(np.nan)
            continue
        for s in range(states):  # whether state s jumps to s + 2
            jumps = s % 2 == 1 and s + 2 < states and targets[first + s // 2] != targets[first + s // 2 + 1]
            skip[s] = T(0) if jumps else -infinity
        for t in range(times - 1, -1, -1):
            for s in range(states):
                emitted[s] = x[t, n, targets[first + s // 2] if s % 2 else blank]
            if t == times - 1:
                for s in range(states):
                    beta[s] = emitted[s] if s >= states - 2 else -infinity
            else:
                last[states], last[states + 1] = -infinity, -infinity
                step, jump = last[1:], last[2:]
                for s in range(states):
                    a, b, c = last[s], step[s], jump[s] + skip[s]
                    top = maximum(maximum(a, b), c)
                    top = top if top > -infinity else T(0)
                    beta[s] = log(exp(a - top) + exp(b - top) + exp(c - top)) + top + emitted[s]
                largest = -infinity
                for s in range(states):
                    largest = maximum(largest, beta[s])
                if largest > -infinity:
                    shift += largest
                    for s in range(states):
                        beta[s] -= largest
            target, source, row = out[t, n], x[t, n], alpha[n, t, 2:]
            for c in range(target.size):
                target[c] = exp(source[c]) * above
            rest = T(shifts[n, t] + shift + cost)
            for s in range(states):
                if row[s] > -infinity and beta[s] > -infinity:
                    share = np.exp(row[s] + beta[s] - emitted[s] + rest)
                    target[targets[first + s // 2] if s % 2 else blank] -= share * above
            beta, last = last, beta
