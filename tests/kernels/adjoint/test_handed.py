"""Reverses that hand on to the next iteration what is its element's, and indices by their steady part."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.kernels.adjoint.bases import Base, by_bases
from jitgrad.kernels.adjoint.functions import gradient_function
from jitgrad.kernels.adjoint.reverse import adjoint_of
from jitgrad.kernels.adjoint.tidy import add_last, tidy

from .test_fuzz import Case, run
from .test_reverse import HEAD, gradients_agree

TREE = """
def main(x, a, b, n):
    v = x[:n + 1].copy()
    for day in range(n - 1, -1, -1):
        for j in range(day + 1):
            v[j] = max(x[n - day + 2 * j], a * v[j + 1] + b * v[j])
    return v[0] if n >= 0 else a
"""
DOWN = """
def main(x, a, b, n):
    v = x.copy()
    for t in range(n):
        for j in range(x.size - 1, 0, -1):
            v[j] = a * v[j] * v[j - 1] + b
    return v.sum()
"""
READ = """
def main(x, a, b, n):
    s = 0.0
    for j in range(n):
        s += (a + x[j]) * (b - x[j + 1])
    return s
"""
APART = """
def main(x, a, b, n):
    s = np.zeros(n)
    for k in range(3):
        for j in range(1, n):
            s[j] += a * x[2 * j - k] * x[2 * j - k] + b * x[3 * j]
    return s
"""
SOMETIMES = """
def main(x, a, b, n):
    y = np.zeros(x.size)
    for j in range(x.size):
        y[j] = a * x[j]
        if j + 1 < x.size:
            y[j] += b * x[j + 1]
    return y
"""


def arguments(size: int, n: int) -> list:
    return [np.random.default_rng(size).uniform(-1.0, 1.0, size), 0.7, 0.4, n]


def text_of(text: str, given: list) -> str:
    case = Case.of(HEAD + text, given)
    return gradient_function(adjoint_of(case.program, case.floating())).text("gradient")


@pytest.mark.parametrize(("text", "size"), [(TREE, 13), (DOWN, 13), (READ, 13), (SOMETIMES, 13), (APART, 19)])
@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_gradients(text, size, n):
    """Also where loops have no iterations, and where the last one's neighbour is beyond the array."""
    gradients_agree(text, *arguments(size, n))


@pytest.mark.parametrize("text", [DOWN, READ, SOMETIMES])
@pytest.mark.parametrize("size", [1, 2])
def test_short_arrays(text, size):
    gradients_agree(text, *arguments(size, min(size - 1, 1)))


@pytest.mark.parametrize("text", [TREE, DOWN, READ, SOMETIMES])
def test_no_loop_of_its_own(text):
    """The loop itself adds to both elements."""
    found = text_of(text, arguments(13, 6)).partition("def gradient")[2]
    assert "handed = handing" in found
    assert "+= row" not in found


def test_the_trees_day_is_one_loop():
    """And one that puts memory back; zeros are not written first."""
    found = text_of(TREE, arguments(13, 6)).partition("d_v[0]")[2].partition("for i_1")[0]
    assert found.count("for j") == 2
    assert "d_v[j] = 0.0" not in found


def test_elements_apart():
    """They are added to one by one, their index counted on."""
    found = text_of(APART, arguments(19, 6)).partition("d_s = ")[2]
    assert "place = np.uint64(max(2 - k, 0))" in found
    assert "place_1 = np.uint64(3)" in found


@pytest.mark.parametrize("text", [TREE, DOWN, READ, SOMETIMES, APART])
def test_compiled(text):
    """Vectors compute what Python does."""
    given = arguments(61, 20)
    case = Case.of(HEAD + text, given)
    found = text_of(text, given)
    seeds = [np.ones({SOMETIMES: 61, APART: 20}[text])] if text in (SOMETIMES, APART) else [1.0]
    plain = run(found, "gradient", case.fresh(), seeds)
    made = run(found, "gradient", case.fresh(), seeds, compiled=True)
    for a, b in zip(plain, made, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_an_iteration_that_reads_what_the_last_has_written_hands_nothing_on():
    text = """
def main(x, a, b, n):
    v = x.copy()
    for j in range(n):
        v[j + 1] = a * v[j] * v[j + 1] + b
    return v
"""
    gradients_agree(text, *arguments(7, 6))
    assert "handed" not in text_of(text, arguments(7, 6))


def test_indices_as_a_whole():
    """What ends like an index is another one."""
    base = Base("n - k + j", "first", "n - k", "first + j")
    lines = ["y[n - k + j] = x[m * n - k + j] + z[i, n - k + j] * w[n - k + j, 2]"]
    assert by_bases(lines, [base]) == ["y[first + j] = x[m * n - k + j] + z[i, first + j] * w[first + j, 2]"]


def test_a_variable_that_holds_something_else_by_now_says_nothing_about_sizes():
    """``n`` held the number of iterations until it was assigned to: there was room for one only."""
    text = """
def main(x, a, m):
    n = m * m
    k = n
    n = 1
    y = np.zeros(10)
    s = a
    for i in range(3):
        for j in range(i, k):
            y[j + n] = y[j] * y[j] * x[j] + x[j]
            s += y[j + n]
    return s * n
"""
    gradients_agree(text, np.linspace(0.1, 0.8, 9), 0.3, 3)


def test_zeros_of_elements():
    """The first that is added is assigned, unless the element is read, or is another one by then."""
    assert tidy(["d_x[j] = 0.0", "a = b", "d_x[j] += c"]) == ["a = b", "d_x[j] = c"]
    for between in ("j = 2", "a = d_x[k]", "for j in range(3):", "j += 1", "i, j = 1, 2"):
        lines = ["d_x[j] = 0.0", between, "d_x[j] += c"]
        assert tidy(lines) == lines


def test_what_is_added_last():
    assert add_last(["d[j] = a", "b = c"], "d[j]", "h") == ["b = c", "d[j] = a + h"]
    assert add_last(["d[j] += a if t else b"], "d[j]", "h") == ["d[j] += (a if t else b) + h"]
    for lines in (["d[j] = a", "a = c"], ["d[j] = a", "b = d[j]"], ["if t:", "    d[j] = a"], ["d[j] = d[k]"], []):
        assert add_last(lines, "d[j]", "h") == [*lines, "d[j] += h"]
