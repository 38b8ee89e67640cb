"""Gates: halves of blocks (outer, 2, n), the first times the sigmoid of the second; and slopes that are drawn."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words import sigmoid
from jitgrad.kernels.words.random import uniforms64
from jitgrad.kernels.words.vocabulary import scratch

__all__ = ["glu", "glu_gradient", "random_slopes"]


@loop(split=("x", "out"))
def glu(x, out):
    for r in range(x.shape[0]):
        a, b, target = x[r, 0], x[r, 1], out[r]
        for i in range(target.size):
            target[i] = a[i] * sigmoid(b[i])


@loop(split=("g", "x", "out"), dtype_from="x")
def glu_gradient(g, x, out):
    for r in range(x.shape[0]):
        # One loop of five arrays would not be vectorised: LLVM would have to see that no two of them overlap.
        for begin in range(0, g.shape[1], 1024):
            above = g[r, begin : begin + 1024]
            a, b, first, second = x[r, 0, begin:], x[r, 1, begin:], out[r, 0, begin:], out[r, 1, begin:]
            for i in range(above.size):
                second[i] = sigmoid(b[i])
            for i in range(above.size):
                first[i] = above[i] * second[i]
            for i in range(above.size):
                s = second[i]
                second[i] = above[i] * a[i] * s * (1.0 - s)


@loop
def random_slopes(out, state, low, high):
    """In the place of what is not positive a number in [low, high), of 53 bits in every dtype; 1 for the rest."""
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        drawn = np.uint64(0)
        for i in range(count):
            drawn += np.uint64(out[first + i] <= 0)
        state[624] = uniforms64(state, units, drawn)
        taken = np.uint64(0)
        for i in range(count):
            if out[first + i] <= 0:
                out[first + i] = units[taken] * (high - low) + low
                taken += np.uint64(1)
            else:
                out[first + i] = 1
