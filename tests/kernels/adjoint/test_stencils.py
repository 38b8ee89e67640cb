"""The reverse of loops over neighbours: gathered row by row, in any order, also where it is compiled."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.kernels.adjoint.functions import gradient_function
from jitgrad.kernels.adjoint.reverse import adjoint_of

from .test_fuzz import Case, check, run
from .test_reverse import HEAD, gradients_agree

FIVE_POINTS = """
def main(c, u):
    out = np.zeros(u.shape)
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            out[i, j] = c[i, j] * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
    return out
"""
STEPS = """
def main(c, u, steps):
    x, y = u.copy(), np.zeros(u.shape)
    s = 0.0
    for t in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(2, u.shape[1] - 2):
                y[i, j] = x[i, j] + c[i, j] * (x[i, j - 2] - 3.0 * x[i, j + 2] + x[i + 1, j - 1] * x[i - 1, j])
        s += y[1, 2] * t
        x, y = y, x
    return s, x
"""


def arguments(*shape: int) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(shape))
    return [rng.normal(size=shape), rng.normal(size=shape)]


def text_of(case: Case) -> str:
    return gradient_function(adjoint_of(case.program, case.floating())).text("gradient")


@pytest.mark.parametrize("shape", [(5, 6), (3, 3), (2, 4), (4, 2), (2, 2), (1, 5)])
def test_five_points(shape):
    """Also where loops have no iterations, and where arrays are shorter than the stencil is wide."""
    gradients_agree(FIVE_POINTS, *arguments(*shape))


def test_neighbours_are_gathered():
    """Each row of neighbours is gone through once, upwards, and iterations may run at once."""
    case = Case.of(HEAD + FIVE_POINTS, arguments(5, 6))
    text = text_of(case)
    assert "for i in range(1, u.shape[0] - 1):\n        n_j" in text.partition("d_out")[2]
    assert "d_u[i, k] += row[k + 2] + row[k]" in text
    assert text.count("# in any order") == 4


@pytest.mark.parametrize("shape", [(5, 8), (3, 5), (2, 5), (5, 4), (3, 3)])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_wide_stencils_in_time(shape, steps):
    """Neighbours two apart, products of neighbours, arrays that are exchanged."""
    gradients_agree(STEPS, *arguments(*shape), steps)


def test_neighbours_in_one_dimension():
    """Elements on both sides; what comes from a sum waits until all loops have ended."""
    text = """
def main(a, x):
    y = np.empty(x.size)
    for t in range(3):
        for i in range(1, x.size - 1):
            y[i] = a * (x[i - 1] + 0.5 * x[i + 1])
        y[0], y[x.size - 1] = a, a * t
    s = 0.0
    for i in range(x.size):
        s += y[i] * y[i]
    return s
"""
    for size in (2, 3, 7):
        gradients_agree(text, 0.7, np.linspace(-1.0, 1.0, size))


def test_in_place_stencils_keep_their_order():
    """Where an iteration reads what the one before has written nothing may run at once, or upwards."""
    text = """
def main(u):
    u = u.copy()
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = 0.5 * u[i, j] + 0.1 * (u[i - 1, j] * u[i + 1, j] + u[i, j - 1] * u[i, j + 1])
    return u
"""
    gradients_agree(text, arguments(5, 6)[0])
    assert text_of(Case.of(HEAD + text, [arguments(5, 6)[0]])).count("# in any order") == 1  # of the copy


def test_indices_from_the_end_are_no_neighbours():
    """``x[i - 1]`` is the array's last element in the first iteration: nothing is gathered."""
    text = """
def main(x):
    y = np.zeros(x.size)
    for i in range(x.size - 1):
        y[i] = x[i - 1] * x[i] + 2.0 * x[i + 1]
    return y
"""
    gradients_agree(text, np.linspace(0.5, 1.5, 5))
    assert "row[k" not in text_of(Case.of(HEAD + text, [np.linspace(0.5, 1.5, 5)]))


@pytest.mark.parametrize(("text", "more"), [(FIVE_POINTS, []), (STEPS, [3])])
def test_compiled(text, more):
    """Vectors compute what Python does."""
    given = [*arguments(9, 23), *more]
    case = Case.of(HEAD + text, given)
    seeds = [np.ones((9, 23))] if not more else [np.ones((9, 23)), 1.0]  # arrays first
    plain = run(text_of(case), "gradient", case.fresh(), seeds)
    made = run(text_of(case), "gradient", case.fresh(), seeds, compiled=True)
    for a, b in zip(plain, made, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    check(case, case.floating(), 4)
