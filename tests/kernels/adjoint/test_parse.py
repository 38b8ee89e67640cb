"""Functions of loops, branches and numbers as programs: the same results as the functions'."""

from __future__ import annotations

import math
from math import exp as e_to

import numpy as np
import pytest
from numba import prange

from jitgrad.kernels.adjoint.parse import program_of

from .as_written import FLOAT, INT, MATRIX, VECTOR, check, text_of

X = np.array([0.3, -1.5, 2.5, 0.7, 1.2])
EMPTY = np.zeros(0)
WEIGHTS = (1.0, 2.0, 3.0)


def total(x):
    s = 0
    for i in range(len(x)):
        s += x[i] * x[i]
    return s


def test_loops_stay_readable():
    assert text_of(total, X) == (
        "def total(x):\n    s = 0.0\n    for i in range(x.shape[0]):\n        s = s + x[i] * x[i]\n    return s\n"
    )


def skips(x):
    s = 0.0
    for i in range(x.size):
        if x[i] < 0:
            continue
        t = x[i]
        if t > 2:
            if i > 3:
                continue
            t = 2
        s += t
    return s


def breaks(x, limit):
    s = 0.0
    for i in range(x.size):
        s += x[i]
        if s > limit:
            break
        s += 0.5
    s *= 2
    return s


def returns_within(x, limit):
    for i in range(x.size):
        for j in range(i):
            if x[i] - x[j] > limit:
                return x[i] * i
            if x[j] > 2 * limit:
                break
            if x[j] < 0:
                continue
            limit += 0.01
    return limit


def returns_early(a, b):
    if a < 0:
        return -a
    if b < 0:
        if a > 1:
            return a * b
        b = -b
    elif a > 3:
        return 2.0 * a
    return a + b


def leaves_two(x, a):
    s = 0.0
    while True:
        for i in range(x.size):
            s += a
            if s > 3:
                return s + i
        a *= 1.5
        if a > 20:
            break
    return -s


@pytest.mark.parametrize("x", [X, EMPTY, np.array([5.0])])
@pytest.mark.parametrize("limit", [-1.0, 0.5, 1.5, 10.0])
def test_jumps(x, limit):
    check(skips, x)
    check(breaks, x, limit)
    check(returns_within, x, limit)
    check(leaves_two, x, abs(limit))


@pytest.mark.parametrize("a", [-2.0, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("b", [-3.0, 1.0])
def test_early_returns(a, b):
    assert "returned" in check(returns_early, a, b)


def last_index(x):
    k = -1
    for k in range(x.size):
        if x[k] > 2:
            break
    return k + x[k]


def counts_down(x):
    s = 0.0
    for i in range(len(x) - 1, -1, -1):
        s = s * 0.5 + x[i]
    for i in range(0, x.size, 2):
        s += x[i]
    for i in reversed(range(x.size)):
        s = s * 0.5 + x[i]
    return s


def changes_index(n):
    s = 0
    for i in range(n):
        i = i * 2
        s += i
    for i in range(n):
        for i in range(i):  # noqa: B020
            s += i
    return s


def bounds_once(x):
    n, s = 3, 0.0
    for i in range(n):
        n += 1
        s += x[i] * n
    return s


def test_ranges():
    for x in (X, X[:1].copy()):
        check(last_index, x)
        check(counts_down, x)
    check(changes_index, 5)
    assert "bound_1 = n" in check(bounds_once, X)


def swaps(a, b, x, out):
    a, b = b, a + b
    (a, b), c = (b, a), a
    out[0], out[1] = x[1], x[0]
    out[0], out[1] = out[1], out[0] + a
    d = e = a * 2
    return a, b, c + d - e


def test_several_assignments():
    check(swaps, 1.5, 2.0, X, np.zeros(2))


def carried(x):
    s = 0.0
    for i in range(x.size):
        if i > 0:
            s += before * x[i]  # noqa: F821
        before = x[i]
    return s


def reuses(n, a):
    x = n // 2
    y = a * x
    x = y / 3
    a += x
    if a > 0:
        a = -a
    n = n % 3
    return x + a, n, x > 0


def test_names_and_kinds():
    check(carried, X)
    program = program_of(reuses, [INT, FLOAT])
    assert [program.kinds[o].dtype for o in program.outputs] == ["float64", "int64", "bool"]
    check(reuses, 7, 1.5)


def functions(a, n):
    b = math.exp(-a) + e_to(a) + np.log1p(abs(a)) + math.atan2(a, 2) + max(a, 1, n) - min(a, n)
    c = np.where(a > 0, a, -n) + np.clip(a, -1, 1) + float(n) / 2 + int(a) + math.floor(a) + round(a) + np.sign(a)
    d = math.pi * a**2 + 2**n + (n << 2) + (n & 3) + n**2 + math.pow(a, 2) + np.power(a, 2.0) + math.erf(a)
    return b, c, d, 0 < a <= n, not a, (n and a > 0) or n == 3, 1 if a > 0 else 0.5, n % 4 // 2, -n, math.isnan(a)


def test_functions():
    for a in (-1.7, 0.0, 2.2):
        for n in (0, 3):
            check(functions, a, n)


def unrolls(x):
    s = 0.0
    for k, w in enumerate(WEIGHTS):
        s += w * x[k]
    for w in (0.5, 2):
        if s > 3:
            break
        s += w
    for k in (0, 1):
        s += x[k] * (0.5, 1.5)[k]
    return s


def over_arrays(x, y):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, y)):
        s += i * a * b
    return s


def over_values(x, m):
    s = 0.0
    for i, a in enumerate(x):
        s += i * a
    for a, b in zip(x, x[1:]):
        s += a * b
    for row in m:
        for v in row:
            s = s * 0.9 + v
    return s


def test_loops_over_values():
    check(unrolls, X)
    check(unrolls, -X)
    for x in (X, EMPTY):
        check(over_values, x, np.arange(6.0).reshape(2, 3))
    with pytest.raises(TypeError, match="over_arrays"):
        program_of(over_arrays, [VECTOR, VECTOR])


def shapes(m):
    n, k = m.shape
    shape = m.shape
    out, last = 0.0, shape[-1]
    for i in range(n):
        for j in range(last):
            out += m[i, j] * m[i][k - 1]
    p = (out, m.ndim, len(shape) + len(m))
    if p[0] > 0:
        p = (p[1], 5, p[2])
    return p[0] * m.size, p[1:][0], p[-1]


def nested(m):
    return m.shape[0], m.shape


def turns(a, n):
    p = (a, 1.0)
    for _ in range(n):
        p = (p[1], p[0] + p[1])
        p, q = (p[1], p[0]), p
    return p[0], p[1], q[0]


def asks_shape(x):
    if x.ndim == 1:
        return x[0]
    return x[0, 1]


def test_shapes():
    def flat(m):
        n, k = m.shape
        return n * m[0, k - 1] + m.size

    check(flat, np.arange(6.0).reshape(2, 3))
    check(asks_shape, X)
    check(asks_shape, np.eye(2))
    with pytest.raises(TypeError, match="returns what is no number or array"):
        program_of(nested, [MATRIX])
    check(shapes, np.arange(6.0).reshape(2, 3))
    check(turns, 2.0, 3)


def rows(x, out):
    """Rows in parallel."""
    for i in prange(x.shape[0]):
        out[i] = x[i] ** 2


def checks(x, a):
    if x.size == 0:
        raise ValueError("no elements")
    assert a > 0, "a must be positive"
    if a > 5:
        a = 5.0
        raise RuntimeError
    elif a > 4:
        raise IndexError("four")
    return a * x[0]


def test_rows_and_refusals():
    text = check(rows, X, np.zeros(5))
    assert "Rows" not in text
    assert program_of(rows, [VECTOR, VECTOR]).body[0].rows
    from .as_written import built

    check(checks, X, 2.0)
    run = built(text_of(checks, X, 2.0), "checks")
    for x, a, error in (
        (EMPTY, 1.0, ValueError),
        (X, -1.0, AssertionError),
        (X, 6.0, RuntimeError),
        (X, 4.5, IndexError),
    ):
        with pytest.raises(error):
            checks(x, a)
        with pytest.raises(error):
            run(x, a)


def test_lines():
    program = program_of(total, [VECTOR])
    assert "s = 0" in program.source[program.body[0].line - 1]
    assert "s += x[i]" in program.source[program.body[1].body[0].line - 1]
    assert program.file == __file__


@pytest.mark.parametrize("function, arguments", [(returns_within, (X, 0.5)), (reuses, (7, 1.5)), (unrolls, (X,))])
def test_numba_compiles_the_text(function, arguments):
    check(function, *arguments, compiled=True)
