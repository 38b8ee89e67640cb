"""Functions of whole arrays as programs: parts, expressions, reductions, names that change arrays."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from .as_written import built, check, text_of

X = np.array([0.3, -1.5, 2.5, 0.7, 1.2])
Y = np.array([1.3, 0.5, -2.0, 0.1, 0.9])
EMPTY = np.zeros(0)
M = np.linspace(-1, 2, 12).reshape(3, 4)


def parts(m):
    row, column, inner, turned = m[1], m[:, 2], m[1:-1, 1:], m.T
    s = row[0] + column[-1] + inner[0, 1] + turned[3, 2] + m[-1, -2] + m[-1][0]
    for i in range(row.size):
        s = s * 0.9 + row[i] * m[::2][1, i] + m[:, None, ::-1][i % 3, 0, i]
    for i in range(m.shape[0]):
        line = m[i]
        for j in range(len(line)):
            s += line[j] * i + m[i, ...][j] + line[-1 - j]
    return s, inner.shape[0], inner.shape[1], m[2:, 3:].size, m[::2].shape[0]


def slices(x, a, b):
    s, t = 0.0, 0.0
    for v in x[a:b]:
        s = s * 0.9 + v
    for v in x[-3:2]:
        s = s * 0.9 + v
    for v in x[1:-2:2]:
        s = s * 0.9 + v
    for v in x[2:][:2]:
        s = s * 0.9 + v
    for i in range(x.size):
        for v in x[:i]:
            t += v
        for v in x[i + 1 :]:
            t = t * 0.5 + v
    part = x[1:]
    for k in range(-part.size, part.size):
        t = t * 0.9 + part[k]
    return s, t, x[a:b].size, x[:b].shape[0], x[a:].size, x[:1].size, x[-1:].size


def test_parts():
    check(parts, M)
    for x in (X, X[:1].copy(), EMPTY):
        for a in (-7, -2, 0, 1, 4, 9):
            for b in (-9, -1, 0, 3, 8):
                check(slices, x, a, b)


def expressions(x, y, m, a):
    z = x * 2 + y / a - a**2
    w = np.exp(-x) * np.where(x > y, x, -1) + np.maximum(x, 0)
    q = m * x[:4] + m[:, :1][:, 0][:, None] - np.sin(m[0])
    mask = (x > 0) & (y < 1) | ~(x < 2)
    n = np.arange(x.size) % 3 + np.ones(x.size, dtype=np.int64)
    return z, w, q, mask, n, -z[1:] + z[:-1], x[::-1] * n, np.clip(x, -1, 1) ** 2


def stores(x, m, out, out2):
    out[...] = x
    out[1:-1] += x[2:] - 2 * x[1:-1] + x[:-2]
    out[1:] = out[:-1] * 2
    out[:2] -= x[0]
    out *= out[1]
    out[out < 0.2] = 0.5
    out2[1] = m[0] * 2
    out2[:, 0] = 1.0
    out2[0] = out2[1]
    out2[2, 1:] /= 2
    out2[:, 1:] = out2[:, :-1] + m[:, 1:]
    view = out2[2]
    view[1] = -1.0
    view[:] = view[::-1]
    out2[:, 1] += x[0]


def test_expressions_and_stores():
    text = check(expressions, X, Y, M, 1.5)
    assert "z = np.empty((x.shape[0], ), np.float64)" in text
    check(expressions, X, Y, M, 1.5, compiled=True)
    check(stores, X, M, np.zeros(5), M.copy())
    run = built(text_of(expressions, X, Y, M, 1.5), "expressions")
    with pytest.raises(ValueError, match="could not be broadcast together: .*; a size of 1 stretches only if the text"):
        run(X, Y[1:], M, 1.5)


def makes(x, n):
    a, b, c = np.zeros(n), np.ones((n, 2)), np.full(n, x[0])
    d, e, f = np.empty_like(x), np.zeros_like(x, dtype=np.float32), np.array([x[0], 2, x[1] * x[2]])
    for i in range(x.size):
        d[i] = i + x[i]
    a[1:] = 3
    g, h = np.eye(n), np.arange(1, n * 2, 3)
    m = np.array([[1.0, x[0]], [x[1], 2]])
    return (
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        m,
        np.linspace(0.0, x[0], n),
        x.copy(),
        np.arange(0.0, 1.0, 0.3),
        x.astype(np.float32),
    )


def test_new_arrays():
    check(makes, X, 3)
    check(makes, X, 1)


def sums(x, y, m):
    s = np.sum(x * y) + (x - y).sum() + np.dot(x, y) + x @ y + np.mean(x) + m.mean() + np.prod(x) + np.linalg.norm(x)
    t = np.max(x) + x.min() + m.max() + max(x) + min(x[1], x[2], 3) + np.var(x) + m.std() + sum(x) + max(x[0], 1)
    return s, t, np.any(x > 2), np.all(x > 2), np.argmax(x), x.argmin(), np.trace(m), np.sum(x > 0), sum((x[0], 2))


def largest(x):
    return x.max()


def products_of_parts(x, m):
    c = np.dot(x[:3], m) * 2
    y = m @ x[1:] + np.ones(3) @ m.T[0:3, :][:, 0]
    return c, y


def test_reductions():
    check(sums, X, Y, M)
    check(sums, X, Y, M, compiled=True)
    check(products_of_parts, X, M)
    run = built(text_of(largest, X), "largest")
    with pytest.raises(ValueError, match="zero-size array"):
        run(EMPTY)


def test_products():
    def several(x, m, k):
        e = m / m.sum(axis=1)[:, None]
        f = m - m.max(axis=1, keepdims=True)
        return m @ k, m.sum(axis=0) - np.mean(m, axis=0), np.outer(x, x[:2]) + 1, e, f, np.cumsum(x), np.diff(x)

    check(several, X, M, M.T.copy())

    def joined(x):
        return np.concatenate((x, x[:2] * 2)), np.flip(x)

    check(joined, X)


def steps(u, n):
    u = u * 1.0
    for _ in range(n):
        u = u + 0.1 * np.sin(u)
    return u


def steps_of_input(u, n):
    for _ in range(n):
        u = 0.5 * (u + u[::-1])
    return u


def new_each_time(u, n):
    u = u.copy()
    for _ in range(n):
        new = np.empty_like(u)
        for i in range(u.size):
            new[i] = u[i - 1] + u[i]
        u = new
    return u


def exchanges(u, n):
    a, b = u.copy(), np.zeros(u.size)
    for _ in range(n):
        for i in range(1, u.size - 1):
            b[i] = a[i - 1] + a[i + 1]
        a, b = b, a
    return a, b


def exchanges_inputs(u, v, n):
    for _ in range(n):
        u, v = v, u
    return u, v


def renames(x, y):
    z = x
    x = y
    y = z * 2
    z, y = y, z
    w = x
    w = w + 1
    return x, y, z, w


def kept_old(x, n):
    y = x * 2
    old = y
    for _ in range(n):
        old = y
        y = y + old
    return y, old


def chooses(x, a):
    if a > 0:
        y = x * 2
    else:
        y = np.zeros(x.size)
        y[0] = a
    if a > 1:
        y = y + 1
        x = x - y
    return y, x


def returns_arrays(x, a):
    if a > 1:
        return x, a
    for i in range(x.size):
        if x[i] > 1:
            return x * i, x[i]
    return np.zeros(3), 0


@pytest.mark.parametrize("n", [0, 1, 4])
def test_names_that_change_arrays(n):
    for function in (steps, steps_of_input, new_each_time, exchanges, kept_old):
        check(function, X, n)
    check(exchanges_inputs, X, Y, n)
    check(renames, X, Y)
    for a in (-1.0, 0.5, 1.5):
        check(chooses, X, a)
        check(returns_arrays, X, a)
        check(returns_arrays, np.zeros(2), a)


@njit
def relu(x):
    return np.maximum(x, 0)


def layer(x, w, b):
    h = relu(w @ x + b)
    h = h / (1 + h.sum())
    return h


def fills(out, a):
    for i in range(out.size):
        out[i] = a
    out = out * 2
    return out[0]


def network(x, m):
    h = layer(x[:4], m, x[:3])
    rows = np.zeros(m.shape)
    s = 0.0
    for i in range(m.shape[0]):
        s += fills(rows[i], h[i])
        h = layer(m[i], m, h)
    return rows, s, h


def test_functions_of_arrays():
    check(network, X, M)
    check(network, X, M, compiled=True)


def elements(x, i, k):
    s = x[k[0]] + x[i]
    y = x[k] * 2
    for j in range(k.size):
        s += x[k[j]]
    return s, y


def zero_dimensions(x, out):
    out[()] = x * 2 + x[()]
    return x + 1


def small(x):
    y = x * 2
    y += 0.5
    return y, y[0] * 2


def test_kinds_of_arrays():
    check(elements, X, 2, np.array([1, 3, -1]))
    check(zero_dimensions, np.array(1.5), np.array(0.0))
    check(small, X.astype(np.float32))


def last_row(m, k):
    for i in range(m.shape[0]):
        row = m[i]
        line = m[i, : i + 1]
        j = k[i]
        if i == 0:
            first, chosen = m[j], m[:, i]
    s = 0.0
    for v in line:
        s += v
    return row[0] + row[-1], first[1] + chosen[1] + s


def keeps(x, n):
    u = x * 1
    for i in range(n):
        t = x * i
        u = u + t
        if i == 1:
            keep = t
            old = u
    return keep[0] + old[1], keep


def in_rows(m, n):
    for _ in range(n):
        new = np.zeros(m.shape)
        for i in range(m.shape[0]):
            row, given = new[i], m[i]
            for j in range(row.size):
                row[j] = given[j - 1] * 2
        m = new
    return m


def step(u, out):
    for i in range(u.size):
        out[i] = u[i - 1] * 0.5
    return u * 2


def by_steps(x, n):
    out, u = np.zeros(x.size), x.copy()
    for _ in range(n):
        u = step(u, out)
        u, w = u + out, u
    return u, w, out


def test_names_keep_their_arrays():
    check(last_row, M, np.array([2, 0, 1]))
    check(keeps, X, 4)
    check(in_rows, M, 3)
    check(by_steps, X, 3)
