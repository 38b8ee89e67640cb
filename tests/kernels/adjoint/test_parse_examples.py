"""Functions as people write them, as programs: the same results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import prange

from .as_written import check


def cholesky(a):
    n = a.shape[0]
    L = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += L[i, k] * L[j, k]
            if i == j:
                L[i, j] = np.sqrt(a[i, i] - s)
            else:
                L[i, j] = (a[i, j] - s) / L[j, j]
    return L


def chol2(a):
    n = len(a)
    L = np.zeros((n, n))
    for j in range(n):
        L[j, j] = math.sqrt(a[j, j] - np.dot(L[j, :j], L[j, :j]))
        for i in range(j + 1, n):
            L[i, j] = (a[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
    return L


def thomas(a, b, c, d):
    n = len(d)
    cp, dp = np.empty(n), np.empty(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x = np.empty(n)
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


def rhs(s, p):
    d = np.empty(3)
    d[0] = p[0] * (s[1] - s[0])
    d[1] = s[0] * (p[1] - s[2]) - s[1]
    d[2] = s[0] * s[1] - p[2] * s[2]
    return d


def rk4(s, p, h, n):
    for _ in range(n):
        k1 = rhs(s, p)
        k2 = rhs(s + h / 2 * k1, p)
        k3 = rhs(s + h / 2 * k2, p)
        k4 = rhs(s + h * k3, p)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return s


def newton(a, tol=1e-10, most=50):
    x = a
    for _ in range(most):
        fx = x * x * x - a
        if abs(fx) < tol:
            break
        x -= fx / (3 * x * x)
    return x


def conv(x, w, out):
    n, m = x.shape
    kh, kw = w.shape
    for i in prange(n - kh + 1):
        for j in range(m - kw + 1):
            acc = 0.0
            for a in range(kh):
                for b in range(kw):
                    acc += x[i + a, j + b] * w[a, b]
            out[i, j] = acc


def search(x, v):
    lo, hi = 0, len(x)
    while lo < hi:
        mid = (lo + hi) // 2
        if x[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    return x[lo] * v, lo


def mandel(cr, ci, n):
    zr = zi = 0.0
    for i in range(n):
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
        if zr * zr + zi * zi > 4:
            return i, zr
    return n, zr


def heat(u, a, n):
    u = u.copy()
    un = np.empty_like(u)
    for _ in range(n):
        un[:] = u
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = un[i, j] + a * (un[i + 1, j] + un[i - 1, j] + un[i, j + 1] + un[i, j - 1] - 4 * un[i, j])
    return u


def heat2(u, a, n):
    u = u.copy()
    for _ in range(n):
        un = u.copy()
        u[1:-1, 1:-1] = un[1:-1, 1:-1] + a * (
            un[2:, 1:-1] + un[:-2, 1:-1] + un[1:-1, 2:] + un[1:-1, :-2] - 4 * un[1:-1, 1:-1]
        )
    return u


def heat3(u, a, n):
    for _ in range(n):
        new = u.copy()
        new[1:-1] = u[1:-1] + a * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = new
    return u


def nbody(pos, vel, mass, dt, n):
    pos = pos.copy()
    vel = vel.copy()
    for _ in range(n):
        acc = np.zeros_like(pos)
        for i in range(len(mass)):
            for j in range(len(mass)):
                if i != j:
                    d = pos[j] - pos[i]
                    r2 = (d * d).sum() + 0.01
                    acc[i] += mass[j] * d / (r2 * np.sqrt(r2))
        vel += dt * acc
        pos += dt * vel
    return pos, vel


def lstm(x, wx, wh, b):
    n, hsz = x.shape[0], wh.shape[1]
    h, c = np.zeros(hsz), np.zeros(hsz)
    for t in range(n):
        g = x[t] @ wx + h @ wh.T[:hsz] + b
        i = 1 / (1 + np.exp(-g))
        c = i * c + (1 - i) * np.tanh(g)
        h = i * np.tanh(c)
    return h


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def dtw(x, y):
    n, m = len(x), len(y)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i, j] = abs(x[i - 1] - y[j - 1]) + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]


def kalman(z, q, r):
    x, p = z[0], 1.0
    ll = 0.0
    xs = np.empty(z.size)
    for k, v in enumerate(z):
        p += q
        K = p / (p + r)
        e = v - x
        ll -= 0.5 * (math.log(2 * math.pi * (p + r)) + e * e / (p + r))
        x += K * e
        p *= 1 - K
        xs[k] = x
    return ll, xs


def interp(x, y, q):
    s = 0.0
    for v in q:
        k = 0
        while k < x.size - 2 and x[k + 1] < v:
            k += 1
        t = (v - x[k]) / (x[k + 1] - x[k])
        s += (1 - t) * y[k] + t * y[k + 1]
    return s


def hist(x, out):
    for i in range(x.shape[0]):
        b = int(x[i] * 3)
        if 0 <= b < out.shape[0]:
            out[b] += x[i]


def gauss(a, b):
    a = a.copy()
    b = b.copy()
    n = b.size
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            a[i, k:] -= f * a[k, k:]
            b[i] -= f * b[k]
    for i in range(n - 1, -1, -1):
        b[i] = (b[i] - a[i, i + 1 :] @ b[i + 1 :]) / a[i, i]
    return b


def power(m, n):
    v = np.ones(m.shape[0])
    for _ in range(n):
        w = m @ v
        v = w / np.sqrt((w * w).sum())
    return v @ (m @ v)


def jacobi(a, b, n):
    x = np.zeros_like(b)
    new = np.zeros_like(b)
    for _ in range(n):
        for i in range(b.size):
            s = b[i]
            for j in range(b.size):
                if j != i:
                    s -= a[i, j] * x[j]
            new[i] = s / a[i, i]
        x, new = new, x
        if abs(x[0] - new[0]) < 1e-6:
            break
    return x


RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4))
S = A @ A.T + 4 * np.eye(4)
V, W = RNG.random(4), RNG.random(6)
POINTS = RNG.random((3, 2))
CASES = [
    (cholesky, S), (chol2, S), (thomas, V, V + 3, V, V), (rk4, V[:3].copy(), np.array([10.0, 28, 2.6]), 0.01, 5),
    (newton, 3.0, 1e-10, 50), (conv, A, S[:2, :2].copy(), np.zeros((3, 3))), (search, np.sort(W), 0.3),
    (mandel, 0.3, 0.5, 50), (mandel, 1.0, 1.0, 50), (heat, A, 0.1, 3), (heat2, A, 0.1, 3), (heat3, W, 0.1, 3),
    (nbody, POINTS, POINTS * 0.3, V[:3].copy(), 0.1, 3), (lstm, A[:, :3].copy(), S[:3].copy(), A, V), (softmax, W),
    (dtw, V, W), (kalman, W, 0.1, 0.2), (interp, np.sort(W), W, W * 0.5 + 0.2), (hist, W, np.zeros(3)), (gauss, A, V),
    (power, S, 5), (jacobi, S, V, 20),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_examples(case):
    function, *arguments = case
    check(function, *arguments)


@pytest.mark.parametrize("name", ["rk4", "nbody", "gauss", "jacobi", "interp"])
def test_numba_compiles_examples(name):
    function, *arguments = next(c for c in CASES if c[0].__name__ == name)
    check(function, *arguments, compiled=True)
