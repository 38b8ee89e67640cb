"""Gradients of loops without tensors, for compiled callers too, and what is refused."""

import linecache
import math
import re
import textwrap

import numba
import numpy as np
import pytest

import jitgrad
import jitgrad.extend
from jitgrad.kernels.words.syntax import SourceError

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


# -- without tensors --------------------------------------------------------------------------------


def test_numba_grad_from_python_and_compiled():
    gradient, all_of_it = jitgrad.numba_grad(wave), jitgrad.numba_grad(numba.njit(wave), (0, 1), value=True)
    step = 1e-6
    expected = [(wave(X + step * e, 0.7) - wave(X - step * e, 0.7)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(gradient(X, 0.7), expected, rtol=1e-8)

    @numba.njit
    def from_compiled(x, a):
        return gradient(x, a), all_of_it(x, a)

    alone, (value, by_x, by_a) = from_compiled(X, 0.7)
    np.testing.assert_allclose(alone, gradient(X, 0.7), rtol=1e-13)
    np.testing.assert_allclose(by_x, alone, rtol=1e-13)
    assert value == pytest.approx(wave(X, 0.7)) and isinstance(by_a, float)


def test_products_with_the_jacobian():
    op = jitgrad.differentiable(early)
    jacobian = op.adjoint(X, 0, np.array([1.0, 0.0, 0.0]))[0]
    values, tangents = op.tangent(X, 0, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(values, early(X, 0))
    assert tangents[0] == pytest.approx(jacobian[0])

    adjoint, tangent = op.adjoint, op.tangent

    @numba.njit
    def both(x, w):
        return adjoint(x, 0, w)[0], tangent(x, 0, w)[1]

    left, right = both(X, np.array([1.0, 2.0, 3.0]))
    assert left @ np.array([1.0, 2.0, 3.0]) == pytest.approx(right @ np.array([1.0, 2.0, 3.0]))


def test_an_example_of_the_folders_text():
    text = re.search(r"that is to be fitted::\n\n((?:    .*\n|\n)*)", jitgrad.extend.__doc__)[1]
    scope = {"jitgrad": jitgrad, "series": jitgrad.tensor(np.sin(np.arange(12.0)))}
    lines = textwrap.dedent(text)
    linecache.cache["<smoothing>"] = len(lines), None, lines.splitlines(True), "<smoothing>"
    exec(compile(lines, "<smoothing>", "exec"), scope)
    alpha = scope["alpha"].item()
    error, step = scope["smoothing_error"], 1e-6
    series = scope["series"].numpy()
    slope = (error(series, alpha + step) - error(series, alpha - step)) / (2 * step)
    assert scope["alpha"].grad.item() == pytest.approx(slope, rel=1e-5)


# -- refusals ---------------------------------------------------------------------------------------


def with_dict(x):
    found = {}
    return x


def with_write(x):
    x[0] = 1.0
    return x[1]


def recursive(x):
    return recursive(x - 1.0) if x > 0 else x


def unknown(x):
    return np.linalg.svd(x)


@pytest.mark.parametrize("function, message", [
    (with_dict, r"with_dict uses a dict.*keep numbers in arrays or variables \(.*test_numba_grad.py:\d+\)"),
    (with_write, r"writes into its input x: x\[0\].*write into a parameter named out.*or into a copy \(.*:\d+\)"),
    (recursive, r"recursive.*\(.*:\d+\)"),
    (unknown, r"svd.*\(.*:\d+\)"),
])  # fmt: skip
def test_refused_at_the_declaration(function, message):
    with pytest.raises(SourceError, match=message):
        jitgrad.differentiable(function)


def pick(x, k):
    return x[k] * 2.0


def test_bad_arguments():
    op = jitgrad.differentiable(pick)
    place = r"return x\[k\] \* 2.0 in pick \(.*test_numba_grad.py:\d+\)"
    for x in (X, jitgrad.tensor(X), variable(X)):
        with pytest.raises(IndexError, match=rf"index 7 is out of bounds for dimension 0 with size 3 of 'x': {place}"):
            op(x, 7)
    with pytest.raises(TypeError, match="'x' must be a tensor, an array or a number on the CPU, but got a str"):
        op("a", 2)
    with pytest.raises(TypeError, match="missing a required argument: 'k'"):
        op(X)
    with pytest.raises(TypeError, match="loops of real numbers"):
        op(jitgrad.ones(3, dtype=jitgrad.complex64), 1)
    with pytest.raises(ValueError, match="out shares memory with x; pass an array of its own"):
        jitgrad.differentiable(powers)(X, 0.7, X[::-1])
    with pytest.raises(TypeError, match="called with tensors it makes 'out' itself; leave it out"):
        jitgrad.differentiable(powers)(jitgrad.tensor(X), 0.7, jitgrad.zeros(3))
    with pytest.raises(TypeError, match="must return one float"):
        jitgrad.numba_grad(early)(X, 2)
    with pytest.raises(TypeError, match="'k' of pick is no float"):
        jitgrad.numba_grad(pick, 1)(X, 2)
