"""What functions with loops mean: their values are those that Python and NumPy give, and gradients fit the values."""

import math

import numpy as np
import pytest

import jitgrad

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
