"""Writes in place to views inside nested transforms, beside torch.func: tangents reach all that shares memory."""

import numpy as np
import pytest

import jitgrad

from ..beside import outcome, same

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(2).standard_normal((2, 3))


def into_view(m, x, y):
    v = x[0]
    v.copy_(y)
    return v, x


def into_base(m, x, y):
    v = x[0]
    x.copy_(y)
    return v, x


def among_views(m, x, y):
    v, w, u = x[0], x[0][1:], x[:, 2]
    v.mul_(y)
    return v, x, w, u, x * x


def through_transpose(m, x, y):
    v, w = x[0], x.t()
    v.copy_(y)
    w[1].mul_(y[0])
    return v.prod(), x, w


def by_index(m, x, y):
    x[0] = y
    v = x[1]
    v.mul_(y)
    return v, (x**2).sum()


FUNCTIONS = [into_view, into_base, among_views, through_transpose, by_index]


def pushed(f, m, x, y):
    return m.func.jvp(lambda b: f(m, x.clone(), b), (y,), (y.sin(),))


COMPOSITIONS = {
    "jvp": lambda m, f, x: pushed(f, m, x, x[1] + 1),
    "vmap of jvp": lambda m, f, x: m.func.vmap(lambda a, b: pushed(f, m, a, b))(m.stack([x, x * 2]), x),
    "other strides": lambda m, f, x: m.func.vmap(lambda a, b: pushed(f, m, a, b), in_dims=(1, 0))(
        m.stack([x, x * 2]), x),
    "a shared value": lambda m, f, x: m.func.vmap(
        lambda t: m.func.jvp(lambda b: f(m, x.clone(), b), (x[0],), (t,)))(x.cos()),
    "jvp of vmap": lambda m, f, x: m.func.jvp(
        lambda b: m.func.vmap(lambda a, c: f(m, a.clone(), c))(m.stack([x, x * 2]), b), (x,), (x.cos(),)),
    "forward twice": lambda m, f, x: m.func.jacfwd(m.func.jacfwd(lambda b: f(m, x.clone(), b)))(x[1]),
    "forward over reverse": lambda m, f, x: m.func.jacfwd(m.func.jacrev(lambda b: f(m, x.clone(), b)))(x[1]),
    "reverse over forward": lambda m, f, x: m.func.jacrev(m.func.jacfwd(lambda b: f(m, x.clone(), b)))(x[1]),
    "per sample": lambda m, f, x: m.func.vmap(
        lambda b: m.func.jacfwd(m.func.jacfwd(lambda c: f(m, x.clone() * b[0], c)))(b))(x),
    "three times": lambda m, f, x: m.func.jacfwd(m.func.jacfwd(m.func.jacfwd(lambda b: f(m, x.clone(), b))))(x[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSITIONS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values(function, name):
    run = lambda m, x: COMPOSITIONS[name](m, function, x)
    same(outcome(run, jitgrad, VALUES), outcome(run, torch, VALUES))


def test_a_buffer_filled_in_place_has_a_hessian():
    def total(m, x):
        b = m.zeros(2, 3, dtype=m.float64)
        b[0] = x * x[0]
        b[1, 1:] = x[1:] ** 3
        b[:, 2].mul_(x[0])
        return (b**2).sum()

    run = lambda m, x: m.func.hessian(lambda y: total(m, y))(x[0])
    same(outcome(run, jitgrad, VALUES), outcome(run, torch, VALUES))
