"""Functions that call functions as programs: these are written out in place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from .as_written import check

X = np.array([0.3, -1.5, 2.5, 0.7, 1.2])
RATE = 0.25


def whiles(a, n):
    k = 0
    while a > 0.1 and k < n:
        a *= 0.5
        k += 1
        if k == 7:
            break
    else_ = a
    return else_, k


def clip(a, low, high=1.0):
    if a < low:
        return low
    if a > high:
        return high
    return a


@njit
def norm(x):
    s = 0.0
    for v in x:
        s += v * v
    return math.sqrt(s)


def pair(a, b):
    a = a + b
    return a, a * b


def scale(out, factor):
    for i in range(out.shape[0]):
        out[i] *= factor
    return norm(out)


def calls(x, out):
    s, t = pair(x[0], RATE)
    for i in range(x.size):
        s += clip(x[i], 0.1) + clip(high=t, low=-1.0, a=s)
    out[:] = x
    u = out[1] + scale(out, 2.0) * out[1]
    return s + t * norm(x), u, clip(s, 0.0) if norm(x) > 1 else norm(out)


def ends_by_call(x):
    a, k = 3.0, 0
    while norm(x) * a > 0.5 and clip(a, 0.0, 9.0) > 0.1:
        k += 1
        if k == 2:
            continue
        if k > 4:
            break
        a *= 0.5
    return a, k


def test_whiles_and_calls():
    for n in (0, 2, 9):
        check(whiles, 20.0, n)
    assert "norm_s" in check(calls, X, np.zeros(5))
    check(ends_by_call, X)


@pytest.mark.parametrize(
    "function, arguments",
    [(ends_by_call, (X,)), (calls, (X, np.zeros(5)))],
)
def test_numba_compiles_the_text(function, arguments):
    check(function, *arguments, compiled=True)
