"""Functions with loops that several files of tests differentiate, and arguments for them."""

import math

import numpy as np

import jitgrad

X = np.array([0.5, 1.2, 2.0])


def variable(value):
    return jitgrad.tensor(value, dtype=jitgrad.float64, requires_grad=True)


def wave(x, a):
    total = 0.0
    for i in range(x.shape[0]):
        total += math.sin(x[i] * a) * x[i]
    return total


def early(x, k):
    if k > 1:
        return x * 2.0
    for i in range(x.shape[0]):
        if x[i] > 1.5:
            return x * x[i]
    return np.sin(x)


def powers(x, a, out):
    for i in range(x.shape[0]):
        out[i] = a * x[i] ** 3
        if i > 0:
            out[i] += out[i - 1] * x[i]
