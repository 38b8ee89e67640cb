"""Corners of the language that functions are written in, as programs: the same results."""

from __future__ import annotations

import math
from math import exp as e_to

import numpy as np
import pytest
from numba import njit

from .as_written import check

X = np.array([0.3, -1.5, 2.5, 0.7, 1.2])
M = np.linspace(-1, 2, 12).reshape(3, 4)


def jumps_within(x, n):
    max_ = x[0]
    for i in range(n):
        for j in range(i, n):
            if j == 2:
                continue
            if x[j] > 1:
                max_ = max(max_, x[j])
                break
        else_ = max_ + i
    i = 7
    return max_, i


def find(x, v):
    for i in range(x.size):
        if x[i] > v:
            return i, x[i]
    return -1, 0.0


def finds_twice(x):
    i, v = find(x, 1.0)
    j, w = find(x, v)
    if i >= 0 and j < 0:
        v = find(x, -9.0)[1] + v
    return i + j, v, w


def pick(x, k):
    if k == 0:
        return x * 2
    for i in range(k):
        if x[i] > 1:
            return x + i
    return x


def picks(x, n):
    s = 0.0
    for k in range(n):
        y = pick(x, k)
        s += y.sum() + pick(y, 1)[0]
    return s


def leaves_or_returns(x, flag):
    s = 0
    if flag:
        s = 1.5
    t = s
    while True:
        t += 1
        if t > 10:
            break
        elif t > 5 and not flag:
            return t, s
    return t * 2, s


def neighbours(x, out):
    n = x.size
    for i in range(n):
        out[i] = 0
    for i in range(n):
        for j in range(-1, 2):
            if 0 <= i + j < n:
                out[i] += x[i + j] / 3
    out[n // 2 :] *= 2
    out[::2] = x[::2]
    out[-2:] -= out[:2]


def parts_of_parts(m):
    t = m.T
    u = t[1:3, ::2]
    g = u * np.array([1.0, 2.0])
    v = m[:, 1].copy()
    v[0] = 9
    w = m[np.array([2, 0])]
    m2 = m + m[0] + m[:, 0][:, None]
    return g, v, w, m2, u.shape[0], np.sum(u), (m > 0).sum(), np.where(m > 0, m, 0.0)[0]


def rotates(x, n):
    a, b, c = x * 1, x * 2, np.zeros(x.size)
    for i in range(n):
        c[0] = i
        a, b, c = b, c, a
        if i == 1:
            a, b = b, a
    return a, b, c


def largest(x):
    best = -np.inf
    k = 0
    for i, v in enumerate(x):
        if v > best:
            best, k = v, i
    x0, x1 = x[:2]
    return best, k, x0 - x1, math.pi + e_to(1)


def couples(x, n):
    p, q = np.zeros(2), np.ones(2)
    for i in range(n):
        p[i % 2] += x[i]
        q = p * 0.5 + q
        p = q - p
    return p, q


def jumps_ahead(x, n):
    tot = 0.0
    k = 0
    while k < n:
        j = k
        while j < n:
            j += 1
            if x[j - 1] < 0:
                break
            tot += x[j - 1] * k
        k = j if j > k else k + 1
    return tot, k


def kinds_that_meet(a, b):
    x = 1 if a > b else 2
    y = a if a > b else 0
    z = (a > 0) + (b > 0)
    w = a > 0 or b
    return x / 2, y, z, -True, 7 // 2 * a, 2**-1, (a, b)[0], a**0.5 if a > 0 else 0


def differences(x):
    y = np.empty(x.shape[0] - 1)
    for i in range(len(y)):
        y[i] = x[i + 1] - x[i]
    y = y[::-1]
    y = y.copy()
    y += 1
    z = y
    z = z + y
    y[0] = 100
    return z, y


def rows_of_time(x, n):
    h = np.zeros((n + 1, x.size))
    h[0] = x
    for t in range(n):
        prev = h[t]
        cur = h[t + 1]
        for i in range(x.size):
            cur[i] = prev[i] * 0.5 + prev[i - 1]
    return h[-1], h[:, 0]


def upd(row, k):
    row[1:] += k
    row[0], row[-1] = row[-1], row[0]
    return row.sum()


def updates_rows(m):
    c = m.copy()
    s = 0.0
    for r in c:
        s = s * 2 + upd(r, s)
    for j in range(c.shape[1]):
        s += upd(c[:, j], 1)
    return c, s + upd(c[1:, 1:][0], 2.0)


def filters(x):
    n = 0
    for v in x:
        if v > 0:
            n += 1
    y = np.empty(n)
    k = 0
    for v in x:
        if v > 0:
            y[k] = v
            k += 1
    return y


def doubles_odd(x, n):
    s = 0.0
    for i in range(n):
        u = x
        if i % 2:
            u = x * 2
        s += u[0]
    return s


def made_as_a_whole(x):
    return np.cumsum(x)[2] + np.diff(x)[-1], np.cumsum(x)[1:], (x * 2)[::-1], (x + 1)[3]


def returns_bare(x, out):
    for k in range(3):
        for i in range(k, x.size, 2):
            if x[i] < 0:
                break
            if i == 3:
                return
            out[i] += k


def power(a, n):
    r = 1.0
    while n:
        if n % 2:
            r *= a
        a *= a
        n //= 2
    return r


def by_indices(x, k):
    s = 0.0
    idx = np.zeros(x.size, np.int64)
    for i in range(x.size):
        idx[i] = (i * k) % x.size
    for i in idx:
        s = s * 0.5 + x[i]
    for i in range(idx[1], idx[2]):
        s += x[i]
    return s, idx


def views_at_once(x, m):
    y = np.zeros((2, x.size))
    y[0], y[1] = x, x * 2
    y[0, 1:], y[1, :-1] = y[1, :-1], y[0, 1:]
    a = b = np.zeros(2)
    a[0] = 1
    b[1] = x[0]
    return y, a + b, m[1:2].shape[0], m[:, 1:3].sum(axis=1), m.sum(axis=-1)


def two_names(x, n):
    y = x.copy()
    for i in range(n):
        z = y
        z[i] = i
        y[0] += z[i]
    return y


def iterates(x, n):
    e = 0.0
    y = np.ones_like(x)
    for it in range(n):  # noqa: B007
        old = y.copy()
        for i in range(x.size):
            y[i] = 0.5 * (y[i] + x[i] * x[i] / y[i])
        e = np.max(np.abs(y - old))
        if e < 1e-3:
            break
    else_ = it
    return y, e, else_


def unpacks(x):
    t = (x[0], (x[1], 2))
    (p, (q, r)) = t
    for j in (0, 1):
        u, v = t[j] if False else (x[j], j)
        p += u * v
    return p, q * r


@njit
def act(v, kind=0):
    if kind == 0:
        return math.tanh(v)
    elif kind == 1:
        return max(v, 0.0)
    raise ValueError("kind")


def activates(x, w):
    s = 0.0
    for i in range(x.size):
        s += act(x[i] * w) + act(v=x[i], kind=1)
    return s


def last_values(x):
    i = 0
    for i in range(3):  # noqa: B007
        pass
    j = i
    for i, v in enumerate(x):  # noqa: B007
        j += i
    return i + j, v


def counts(x, n):
    c = 0
    for i in range(n):
        for j in range(n):
            if i * j > 3:
                c += 1
                break
        else_ = j
        if c > 1:
            continue
        c += else_
    return c


CASES = [
    (jumps_within, X, 5),
    (jumps_within, X, 0),
    (finds_twice, X),
    (picks, X, 4),
    (leaves_or_returns, X, True),
    (leaves_or_returns, X, False),
    (neighbours, X, X * 0),
    (parts_of_parts, M),
    (rotates, X, 4),
    (largest, X),
    (couples, X, 4),
    (jumps_ahead, X, 5),
    (kinds_that_meet, 1.5, 2.0),
    (kinds_that_meet, 3.0, -2.0),
    (differences, X),
    (rows_of_time, X, 4),
    (updates_rows, M),
    (filters, X),
    (doubles_odd, X, 3),
    (made_as_a_whole, X),
    (returns_bare, X, X * 0),
    (power, 1.1, 13),
    (by_indices, X, 3),
    (views_at_once, X, M),
    (two_names, X, 4),
    (iterates, abs(X), 6),
    (unpacks, X),
    (activates, X, 0.3),
    (last_values, X),
    (counts, X, 4),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_corners(case):
    function, *arguments = case
    check(function, *arguments)


@pytest.mark.parametrize(
    "name", ["picks", "kinds_that_meet", "updates_rows", "iterates", "by_indices", "parts_of_parts"]
)
def test_numba_compiles_corners(name):
    function, *arguments = next(c for c in CASES if c[0].__name__ == name)
    check(function, *arguments, compiled=True)
