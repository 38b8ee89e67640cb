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

from .small_loops import X, early, powers, variable, wave

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
    swapped = X.astype(X.dtype.newbyteorder())
    with pytest.raises(TypeError, match=r"'x' is of >f8, whose bytes .* other machines; convert it by .astype"):
        op(swapped, 1)
    with pytest.raises(TypeError, match=r"pick.adjoint\(\): argument 'seed of result' is of >f8"):
        op.adjoint(X, 1, swapped)
    with pytest.raises(ValueError, match="out shares memory with x; pass an array of its own"):
        jitgrad.differentiable(powers)(X, 0.7, X[::-1])
    with pytest.raises(TypeError, match="called with tensors it makes 'out' itself; leave it out"):
        jitgrad.differentiable(powers)(jitgrad.tensor(X), 0.7, jitgrad.zeros(3))
    with pytest.raises(TypeError, match="must return one float"):
        jitgrad.numba_grad(early)(X, 2)
    with pytest.raises(TypeError, match="'k' of pick is no float"):
        jitgrad.numba_grad(pick, 1)(X, 2)


def outside(x, k):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i + k]
    return total


def test_indices_are_compared_without_tensors():
    """By default in the first call of each kind: foreign memory would be read otherwise, in silence."""
    gradient = jitgrad.numba_grad(outside)
    assert gradient(X, 0).tolist() == [1.0, 1.0, 1.0]
    for _ in range(2):
        with pytest.raises(IndexError, match=r"index 3 is out of bounds for dimension 0 with size 3 of 'x'"):
            gradient(X, 1)
    op = jitgrad.differentiable(outside)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        op.adjoint(X, 1, 1.0)


def one_further(x, further):
    total = 0.0
    for i in range(x.size):
        total += x[i + 1] if further else x[i]
    return total


def test_truths_that_pick_a_branch_are_compared_too():
    op = jitgrad.differentiable(one_further)
    for x in (X, jitgrad.tensor(X)):
        assert float(op(x, False)) == float(op(x, 0)) == X.sum()
        for further in (True, 1, np.True_):
            with pytest.raises(IndexError, match="index 3 is out of bounds"):
                op(x, further)


def scaled_squares(x, a):
    y = np.zeros(x.size)
    for i in range(x.size):
        y[i] = a * x[i] ** 2
    return y, a * x[0]


def test_shapes_of_seeds_and_directions():
    """Those of arrays are compared: foreign memory would be read otherwise."""
    op = jitgrad.differentiable(scaled_squares)
    with pytest.raises(ValueError, match=r"adjoint\(\): the seed of 'y' must have its shape \(3,\), but has \(2,\)"):
        op.adjoint(X, 2.0, np.ones(2), 1.0)
    with pytest.raises(ValueError, match="the seed of 'y' must have 1 dimensions, but has 2"):
        op.adjoint(X, 2.0, np.ones((3, 3)), 1.0)
    with pytest.raises(ValueError, match="the seed of 'result' must have 0 dimensions, but has 1"):
        op.adjoint(X, 2.0, np.ones(3), np.ones(3))
    with pytest.raises(TypeError, match=r"a seed of each of \['y', 'result'\] is wanted, but got 1"):
        op.adjoint(X, 2.0, np.ones(3))
    with pytest.raises(ValueError, match=r"the direction of 'x' must have its shape .3,., but has .4,."):
        op.tangent(X, 2.0, np.ones(4), 1.0)
    with pytest.raises(ValueError, match="the direction of 'a' must have 0 dimensions, but has 1"):
        op.tangent(X, 2.0, np.ones(3), np.ones(3))
    adjoint = op.adjoint

    @numba.njit
    def caller(x, seed):
        return adjoint(x, 2.0, seed, 0.0)[0]

    np.testing.assert_allclose(caller(X, np.ones(3)), 4 * X)
    with pytest.raises(ValueError, match="the seed of 'y' must have its shape"):
        caller(X, np.ones(2))


def test_an_argument_that_is_wanted_twice():
    assert jitgrad.numba_grad(plain_product, (0, -1, 0, 1), value=True)(2.0, 3.0) == (6.0, 3.0, 2.0, 3.0, 2.0)


def plain_product(x, y):
    return x * y


def in_the_middle(x, out, a):
    for i in range(x.shape[0]):
        out[i] = a * math.sin(x[i])
        out[i] *= out[i]


def test_a_written_parameter_among_the_others():
    op = jitgrad.differentiable(in_the_middle)
    expected, written = (0.7 * np.sin(X)) ** 2, np.zeros(3)
    np.testing.assert_allclose(op(X, written, 0.7), expected)  # in the function's own order
    np.testing.assert_allclose(op(X, 0.7), expected)
    np.testing.assert_allclose(op(jitgrad.tensor(X), 0.7).numpy(), expected)
    slope = 2 * 0.49 * np.sin(X) * np.cos(X)
    written[:] = 0.0
    by_x, by_a = op.adjoint(X, written, 0.7, np.ones(3))
    np.testing.assert_allclose(by_x, slope)
    assert by_a == pytest.approx(2 * 0.7 * (np.sin(X) ** 2).sum())
    np.testing.assert_allclose(written, expected)  # what the reverse sweep puts back is a copy's
    values, tangents = op.tangent(X, np.zeros(3), 0.7, np.ones(3), 0.0)
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(tangents, slope)


def with_underscores(x, x_, into_0, seed_total):
    total_ = x * x_
    total = total_ * into_0 + seed_total
    return total


def test_names_of_the_users_own():
    """Numbers of tensors and seeds come under names that must not be the function's."""
    values = [variable(v) for v in (2.0, 3.0, 5.0, 7.0)]
    op = jitgrad.differentiable(with_underscores)
    assert jitgrad.autograd.gradcheck(op, values) and jitgrad.autograd.gradgradcheck(op, values)
    step = jitgrad.compile(lambda *v: jitgrad.autograd.grad(op(*v), v))
    for _ in range(2):
        assert [g.item() for g in step(*values)] == [15.0, 10.0, 6.0, 1.0]
