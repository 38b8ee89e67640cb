"""Loops over prange: shares of the rows in threads give what one thread gives, and dependent rows stay in one."""

import math

import numpy as np
import pytest
from numba import prange

import jitgrad
from jitgrad.autograd import gradgradcheck
from jitgrad.extend.derived_shares import in_shares
from jitgrad.kernels.adjoint.entries import Derivation
from jitgrad.kernels.adjoint.parse import program_of
from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.adjoint.shares import shares_of

MATRIX, VECTOR, INT = Kind("float64", 2), Kind("float64", 1), Kind("int64")


@pytest.fixture(autouse=True)
def restored_threads():
    before = jitgrad.get_num_threads()
    yield
    jitgrad.set_num_threads(before)


def rows(x, w):
    scaled = w * 2.0
    out = np.ones(x.shape[0] + 1)
    total = 1.5
    for i in prange(x.shape[0]):
        level = 0.0
        for j in range(x.shape[1]):
            level = math.sin(level + x[i, j] * scaled[j])
        out[i] = level * level
        total += out[i] * level
    return out, total, scaled


def written(x, w, out):
    for i in prange(1, x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * w[j] + x[i - 1, j]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("number", [2, 3])
def test_shares_give_what_one_thread_gives(count, number):
    op = jitgrad.differentiable(rows)
    x = jitgrad.randn(count, 4, dtype=jitgrad.float64, requires_grad=True)
    w = jitgrad.randn(4, dtype=jitgrad.float64, requires_grad=True)
    results = []
    for threads in (1, number):
        jitgrad.set_num_threads(threads)
        out, total, scaled = op(x, w)
        weights = jitgrad.arange(count + 1, dtype=jitgrad.float64)
        loss = (out * weights).sum() + 2 * total + scaled.sum()
        results.append([out, total, scaled, *jitgrad.autograd.grad(loss, (x, w))])
        with jitgrad.no_grad():
            results[-1] += op(x, w)
    for one, several in zip(*results, strict=True):
        assert jitgrad.allclose(one, several, rtol=1e-13)


def test_written_parameter_and_second_order():
    jitgrad.set_num_threads(2)
    op = jitgrad.differentiable(written)
    x = jitgrad.randn(5, 2, dtype=jitgrad.float64, requires_grad=True)
    w = jitgrad.randn(2, dtype=jitgrad.float64, requires_grad=True)
    found = op(x, w)
    expected = jitgrad.cat([jitgrad.zeros(1, 2, dtype=jitgrad.float64), x[1:] * w + x[:-1]])
    assert jitgrad.allclose(found, expected)
    seed = jitgrad.randn(5, 2, dtype=jitgrad.float64)
    for a, b in zip(jitgrad.autograd.grad(found, (x, w), seed), jitgrad.autograd.grad(expected, (x, w), seed),
                    strict=True):  # fmt: skip
        assert jitgrad.allclose(a, b)
    assert gradgradcheck(op, (x, w))


def reads_another_row(x):
    out = np.zeros(x.shape[0])
    for i in prange(1, x.shape[0]):
        out[i] = x[i] + out[i - 1]
    return out


def hands_on(x):
    level = 0.0
    for i in prange(x.shape[0]):
        level = 0.5 * level + x[i]
    return level


def reads_the_sum(x):
    out = np.zeros(x.shape[0])
    total = 0.0
    for i in prange(x.shape[0]):
        total += x[i]
        out[i] = total
    return out


def scattered(x, n):
    out = np.zeros(n)
    for i in prange(x.shape[0]):
        out[i % n] += x[i]
    return out


def from_an_end(x, n):
    out = np.zeros(x.shape[0])
    for i in prange(n, 2):
        out[i] = x[i]
    return out


def cleared_ahead(x, out):
    out[:] = 1.0
    for i in prange(2):
        out[i] += x[i]


def followed(x):
    total = 0.0
    for i in prange(x.shape[0]):
        total += x[i]
    return total / x.shape[0]


@pytest.mark.parametrize("function, kinds, args", [
    (reads_another_row, [VECTOR], ()), (hands_on, [VECTOR], ()), (reads_the_sum, [VECTOR], ()),
    (scattered, [VECTOR, INT], (3,)), (followed, [VECTOR], ()), (from_an_end, [VECTOR, INT], (-2,)),
])  # fmt: skip
def test_dependent_rows_run_in_one_thread(function, kinds, args):
    jitgrad.set_num_threads(2)
    assert shares_of(program_of(function, kinds)) is None
    x = np.arange(7.0)
    np.testing.assert_allclose(jitgrad.differentiable(function)(jitgrad.tensor(x), *args).numpy(), function(x, *args))


def test_what_is_written_ahead_of_the_rows_stays_in_one_thread():
    jitgrad.set_num_threads(2)
    assert shares_of(program_of(cleared_ahead, [VECTOR, VECTOR])) is None
    assert jitgrad.differentiable(cleared_ahead)(jitgrad.tensor([1.0, 2.0, 3.0])).tolist() == [2.0, 3.0, 1.0]


def test_one_thread_has_no_shares():
    jitgrad.set_num_threads(1)
    assert in_shares(Derivation(program_of(rows, [MATRIX, VECTOR]))) is None
