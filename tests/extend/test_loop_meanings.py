"""What functions with loops mean: their values are those that Python and NumPy give, and gradients fit the values."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import jitgrad
from jitgrad.kernels.codegen.source import SourceError

from .small_loops import variable

X = np.array([0.3, -0.7, 1.2])


def agrees(function, *args):
    """Assert that the value is Python's, and that the gradient in each float argument is that of differences."""
    np.testing.assert_allclose(jitgrad.differentiable(function)(*args), function(*args), rtol=1e-12, atol=1e-12)
    for k, arg in enumerate(args):
        if np.asarray(arg).dtype.kind == "f":
            found = jitgrad.numba_grad(function, k)(*args)
            np.testing.assert_allclose(found, slopes(function, args, k), rtol=1e-6, atol=1e-7)


def slopes(function, args, k):
    """Central differences in each element of argument ``k``."""
    found = np.zeros(np.shape(args[k]))
    for at in np.ndindex(found.shape):
        step = np.zeros(found.shape)
        step[at] = 1e-6
        ahead, behind = ([*args[:k], args[k] + s, *args[k + 1 :]] for s in (step, -step))
        found[at] = (function(*ahead) - function(*behind)) / 2e-6
    return found


# -- functions of numbers ---------------------------------------------------------------------------


def remainders(x, y):
    total = 0.0
    for i in range(x.size):
        total += np.fmod(x[i] * 3, y) * x[i] + math.fmod(i, 2)
    return total + np.sum(np.fmod(x, y))


@pytest.mark.parametrize("y", [0.47, -0.8])
def test_remainders_with_the_sign_of_the_first(y):
    agrees(remainders, X, y)


def powers(x, k):
    total = 0.0
    for i in range(x.size):
        total += x[i] ** k + math.pow(x[i], k)
    return total + np.sum(np.power(x, k))


@pytest.mark.parametrize("k", [0, 1.0, 2, 3.0])
def test_powers_of_zero(k):
    at = [0.0, 2.0, -1.5]
    op = jitgrad.differentiable(powers)
    found, expected = (derivatives(f, variable(at)) for f in (lambda x: op(x, k), lambda x: 3 * (x**k).sum()))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def derivatives(function, x):
    """The derivatives of orders 1 to 3 of sums over functions of one element each."""
    found, value = [], function(x)
    for _ in range(3):
        if value.requires_grad:
            (value,) = jitgrad.autograd.grad(value.sum(), x, create_graph=True)
        found.append(value.detach().numpy() if value.requires_grad else np.zeros(3))
    return found


def spreads(x):
    total = np.linalg.norm(x) + np.std(x) * 2
    for i in range(3):
        total += np.linalg.norm(x - i) * (np.outer(x, x).std(axis=0)[i] + 1)
    return total


def test_norms_and_deviations():
    agrees(spreads, X)
    gradient = jitgrad.numba_grad(spreads)
    np.testing.assert_allclose(gradient(np.zeros(3)), [-2 / math.sqrt(3)] * 3)  # of the norms of -1 and of -2 alone


# -- loops over arrays whose names are given to others ------------------------------------------------


def halves(x):
    v, total = x * 1.0, 0.0
    for k, e in enumerate(v):
        total += e * (k + 1)
        v = v * 0.5
    return total + v[0]


def halves_again(x):
    v, total = x * 1.0, 0.0
    for _ in range(2):
        for e in v[1:]:
            total += e
            v = v * 0.5
    return total


def halves_of_rows(x):
    m, total = np.outer(x, x), 0.0
    for row, e in zip(m, x):
        total += row.sum() * e
        if e > 0:
            m = m * 0.5
    return total


def exchanged(x):
    v, w, total = x * 1.0, x * 2.0, 0.0
    for e in v:
        total += e
        v, w = w, v
    return total + v[1]


def halves_in_place(x):
    v, total = x * 1.0, 0.0
    for e in v:
        total += e
        v *= 0.5
    return total


@pytest.mark.parametrize("function", [halves, halves_again, halves_of_rows, exchanged, halves_in_place])
def test_a_loop_goes_through_the_array_that_it_began_with(function):
    agrees(function, X)


def stores_and_halves(x):
    v, total = x * 1.0, 0.0
    for e in v:
        total += e
        v[1] = 2.0
        v = v * 0.5
    return total


def test_a_loop_that_stores_into_what_it_goes_through():
    with pytest.raises(SourceError, match="goes through v, stores into it and gives its name to another array"):
        jitgrad.numba_grad(stores_and_halves)(X)


# -- dtypes of results --------------------------------------------------------------------------------


def outer_of_counts(n, x):
    return np.outer(n, x)[1, 2] * x[0] + np.sum(np.outer(x, n))


def test_an_outer_product_is_of_both_dtypes():
    agrees(outer_of_counts, np.array([2, 3, 4]), X)


def sums_of_counts(m, x):
    by_rows, by_columns, running = m.sum(axis=1), np.prod(m, axis=0), np.cumsum(m[0])
    total = 0.0
    for k in range(x.size):
        total += (by_rows[k % 2] + by_columns[k] + running[k]) * x[k]
    return total


def sums_of_rows(m):
    return np.sum(m, axis=1)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_sums_of_small_integers_do_not_wrap(dtype):
    counts = np.array([[100, 90, 100], [120, 100, 90]], dtype)
    agrees(sums_of_counts, counts, X)
    assert jitgrad.differentiable(sums_of_rows)(counts).tolist() == [290, 310]


def through_second_names(x):
    v = x * 2.0
    w, r = np.ascontiguousarray(v), np.ascontiguousarray(v[::-1])
    w[0] = x[1] * x[2]
    r[1] = 5.0
    return v.sum() + v[0] * w[1] + r[0]


def test_a_contiguous_array_is_itself():
    agrees(through_second_names, X)


def doubled_counts(n, x):
    twice, m = n + n, n.copy()
    for _ in range(2):
        m = m * n
    return np.sum(twice * x) + np.sum((n - m) * x) + np.sum(-n * x) + np.sum(n.astype(np.int32) * x)


def doubled(n):
    return n + n


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
def test_integers_of_arrays_wrap_as_their_dtype_does(dtype):
    """Beside numbers they don't: there NumPy and Numba differ."""
    counts = np.array([100, 3, 7], dtype)
    agrees(doubled_counts, counts, X)
    found = jitgrad.differentiable(doubled)(counts)
    assert found.dtype == dtype and found.tolist() == (counts + counts).tolist()


# -- calls --------------------------------------------------------------------------------------------


def squares(v):
    w = np.zeros_like(v)
    for i in range(v.size):
        w[i] = v[i]
        w[i] *= v[i]
    return w


def steps(x):
    for _ in range(4):
        x = x - 0.1 * squares(x)
    return x


def twice_stepped(x):
    z = steps(steps(x))
    return np.sum(z * x)


def halves_called(x):
    v, total = x * 1.0, 0.0
    for e in v:
        total += e
        v = halved(v)
    return total


def halved(v):
    return v * 0.5


@pytest.mark.parametrize("function", [twice_stepped, halves_called])
def test_calls_that_only_read_their_arguments(function):
    agrees(function, X)


def clears_a_part(v):
    w = v[1:]
    clears_first(w)


def clears_first(w):
    w[0] = 0.0


def clears_and_halves(x):
    v = x * 1.0
    w = v
    for _ in range(2):
        v = v * 0.5
        clears_a_part(w)
    return v.sum()


def test_calls_that_store_into_a_part_of_an_argument():
    with pytest.raises(SourceError, match="stores into v and gives the name to another array"):
        jitgrad.numba_grad(clears_and_halves)(X)


# -- shapes that data decide on -------------------------------------------------------------------------


def squares_of_positive(x):
    count, k = 0, 0
    for v in x:
        if v > 0:
            count += 1
    y = np.zeros(count)
    for v in x:
        if v > 0:
            y[k] = v * v
            k += 1
    return y


def exchanged_until(x, bound):
    if x[0] > bound:
        return x * 2.0
    v, w = x * 1.0, x * 2.0
    while np.sum(v) < bound:
        w = v + x
        v, w = w, v
    return v


def test_results_whose_shape_depends_on_data_in_a_compiled_function():
    """Such a function runs uncompiled; one where data decide on the values alone is compiled."""
    op = jitgrad.differentiable(squares_of_positive)
    with pytest.warns(jitgrad.compiler.CompileWarning, match="'x' decides on the shape of the result"):
        compiled = jitgrad.compile(lambda x: op(x) * 2)
        for x in ([1.0, -1.0, 2.0], [1.0, 3.0, -2.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]):
            assert compiled(variable(x)).tolist() == [2 * v * v for v in x if v > 0]
    op_ = jitgrad.differentiable(exchanged_until)
    compiled = jitgrad.compile(lambda x: op_(x, 3.0), fullgraph=True)
    for x in ([1.0, -1.0, 2.0], [4.0, 3.0, -2.0], [0.5, 0.1, 0.2]):
        np.testing.assert_allclose(compiled(jitgrad.tensor(x)).numpy(), exchanged_until(np.array(x), 3.0), rtol=1e-6)


# -- without Numba ------------------------------------------------------------------------------------

PROGRAM = """
import math, numba, jitgrad

@numba.njit
def helper(v):
    return math.lgamma(v) * 2.0

@jitgrad.differentiable
def total(x):
    found = 0.0
    for i in range(x.size):
        found += helper(x[i] + 1.0) ** 2
    return found

x = jitgrad.ones(3, dtype=jitgrad.float64, requires_grad=True)
total(x * 2).backward()
print(x.grad.tolist())
"""


def test_under_disable_jit_what_is_derived_is_compiled(tmp_path):
    """With nothing in the cache: parts of what is compiled were left as Python functions, which is an error."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "JITGRAD_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    slope = 4 * 2 * math.lgamma(3.0) * (1.5 - np.euler_gamma) * 2
    np.testing.assert_allclose(eval(done.stdout), [slope] * 3)
