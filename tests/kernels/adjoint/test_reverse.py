"""Gradients of small functions, one for each way in which a reverse sweep was once wrong."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.adjoint.tangent import tangent_of
from jitgrad.kernels.adjoint.write import program_text

from .test_fuzz import Case, check

HEAD = "import math\n\nimport numpy as np\n\n\n"
X, Y = np.array([0.3, -0.6, 1.2]), np.array([0.7, 0.4, -0.9])
M = np.linspace(-1.0, 1.3, 6).reshape(2, 3)


def gradients_agree(text: str, *arguments: object) -> None:
    """Assert that gradients in all parameters, and in each alone, are those of dual numbers."""
    case = Case.of(HEAD + text, list(arguments))
    for wanted in (case.floating(), *([p] for p in case.floating())):
        for seed in (3, 4):  # with a seed divisible by 3 in stretches, too
            check(case, wanted, seed)


def test_fill_of_an_array_that_nobody_reads():
    """An array without derivatives has none to hand to what it was filled with."""
    gradients_agree("def main(a, x):\n    q = np.full_like(x, a)\n    return a * 2\n", 0.5, X)


def test_fill_by_an_expression():
    """What an array is filled with has a derivative even if it is no plain variable."""
    text = "def main(a, b, x):\n    q = np.full(x.size, a * b - x[0])\n    q[1] = 2.0\n    return (q * x).sum()\n"
    gradients_agree(text, 0.5, -1.2, X)


def test_branches_and_loops_that_only_choose():
    """A branch that assigns a constant has no derivative itself, but says whose derivative comes through."""
    text = """
def main(a, k, out):
    for i in range(out.size):
        if i == k:
            a = 0.5
        out[i] *= a
    for j in range(k):
        a = 1.5
        if j == 1:
            break
    return a
"""
    for k in (0, 1, 2, 5):
        gradients_agree(text, 0.7, k, X)


def test_arrays_that_either_side_of_a_branch_makes():
    """Such an array is there behind the branch: with its derivatives, its size and its elements."""
    text = """
def main(a, k, x, y):
    s = 0.0
    for i in range(3):
        if i < k:
            q = np.zeros(2)
            q[0] = a * x[i]
        else:
            q = x * y
            q[i] *= math.sin(q[0])
        for j in range(q.size):
            s = math.sin(s + q[j] * x[i])
            q[j] = s * a
        s += q.sum()
    return s, q
"""
    for k in (0, 1, 3):
        gradients_agree(text, 0.7, k, X, Y)


def test_arrays_returned_on_several_paths():
    """The seed of an array that a loop or branch returns goes to the one that was returned."""
    text = """
def main(x, y, limit):
    for i in range(x.size):
        if x[i] > limit:
            return x[i] * y, i
        if y[i] < -limit:
            return x.copy(), i
    return x * x, -1
"""
    for limit in (0.1, 0.5, 1.0, 2.0):
        gradients_agree(text, X, Y, limit)


def test_an_array_made_in_the_first_iteration_only():
    """Its derivative lasts from one iteration to the next."""
    text = """
def main(a, x):
    s = 0.0
    for i in range(x.size):
        if i == 0:
            q = x * a
        q[i] = math.sin(q[i] * a + q[0])
        s += q[i] * q[0]
    return s
"""
    gradients_agree(text, 0.8, X)


def test_loads_in_an_arm_that_did_not_run():
    """An element that the second half of an ``and`` has loaded is loaded again where that half may not have run."""
    text = """
def main(x, y, out):
    n = x.size
    for i in range(n):
        out[i] += 2.0 if i + 1 < n and y[i] > 0.5 else y[i]
"""
    gradients_agree(text, X, Y, X * 2)


def test_results_whose_variables_the_sweep_uses():
    """A result is returned as it was, whatever its variable holds in the reverse sweep."""
    gradients_agree("def main(x):\n    return x.max()\n", X)


def test_sizes_of_arrays_made_in_a_loop():
    """Room for what an inner loop keeps is made ahead of the outer one, where its array is not there yet."""
    text = """
def main(a, b, x):
    for i in range(x.size):
        q = np.ones(x.size)
        for e in q:
            q[i] = np.tanh(a * x[i])
        b /= np.sum(q) + 2.0
    return b
"""
    gradients_agree(text, 0.4, 1.3, X)


def test_elements_of_arrays_made_in_a_loop():
    """What is computed again where a block begins may read an array that the block makes."""
    text = """
def main(a, x):
    s = 0.0
    for i in range(x.size):
        q = np.full(2, a)
        for j in range(3):
            s = math.sin(s * q[1] + x[i])
    return s
"""
    gradients_agree(text, 0.4, X)


def test_exchanged_arrays_of_different_sizes():
    """After an exchange a name's array has another size, and so has its derivative."""
    text = """
def main(a, m):
    u = np.ones(m.shape[0])
    v = np.full(m.shape[1], a)
    s = 0.0
    for i in range(3):
        for j in range(u.size):
            s = math.sin(s + u[j] * m[0, j % 2])
            u[j] *= s + a
        u, v = v, u
    return s
"""
    gradients_agree(text, 0.4, M)


def test_an_exchange_in_a_branch():
    """Whether names were exchanged is known to the sweep even if nothing else on the way has a derivative."""
    text = """
def main(a, k, x):
    u, v = np.zeros(3), x.copy()
    for i in range(4):
        if i == k:
            u, v = v, u
        u[i % 3] = math.sin(u[0] * a + v[1])
    return u.sum() * v[0]
"""
    for k in (0, 1, 3, 9):
        gradients_agree(text, 0.4, k, X)


def test_an_exchange_that_does_not_matter():
    """Arrays without derivatives that nobody reads are not there in the reverse sweep, nor are they exchanged."""
    text = """
def main(a, x):
    for i in range(x.size):
        q = np.ones(2)
        r = np.zeros(2)
        a = math.sin(a * x[i])
        q, r = r, q
    return a
"""
    gradients_agree(text, 0.9, X)


def test_a_loop_in_stretches_whose_arrays_change_later():
    """Such a loop is run again on what it has read, although that was written to since."""
    text = """
def main(a, x, out):
    s = a
    for i in range(x.size):
        s /= 1.5 + math.tanh(out[1] * x[i])
    out[1] += s
    out[0] = s * out[1]
"""
    gradients_agree(text, 0.9, X, Y)


def test_calls_without_results_and_loops_within_branches():
    """A function may return nothing, and a loop within a branch may be left."""
    text = """
def scale(out, a):
    for i in range(out.size):
        out[i] = math.sin(out[i] * a)


def main(a, k, out):
    if k > 0:
        for i in range(out.size):
            if i == k:
                break
            scale(out, a + i)
    return out[0] * a
"""
    for k in (0, 1, 2, 5):
        gradients_agree(text, 0.9, k, X)


def test_variables_that_some_paths_do_not_assign():
    """What a branch or loop may leave unassigned is kept even if the first run has not assigned to it."""
    text = """
def helper(a):
    c = 0
    while c < 2:
        c += 1
        if a > 0.5:
            return a * a, math.sin(a)
    return math.cos(a), a * 2


def main(a, x):
    s = a
    for i in range(x.size):
        s, t = helper(x[i] * s)
        s *= math.sin(s * t)
    u, v = helper(s)
    return s * v + u * v
"""
    for x in (X, X[::-1].copy(), X * 3):
        gradients_agree(text, 0.4, x)


def test_variables_that_begin_in_a_loop_and_skip_iterations():
    """What one iteration has assigned is the next one's where that assigns nothing, with no value ahead of the loop."""
    skipped = """
def main(x, y):
    s = 0.0
    for i in range(x.size):
        if y[i] > 1.3:
            continue
        t = x[i] * 2.0
    return t
"""
    used = """
def main(x, y):
    s = 0.0
    for i in range(x.size):
        if y[i] < 1.3:
            t = math.sin(x[i] + s)
        s = s * 0.5 + t * t
    return s * t
"""
    deep = """
def main(x, y):
    s = 0.0
    for i in range(x.size):
        for j in range(i):
            if y[j] < 1.3:
                t = x[i] * x[j]
        while i > 1 and s < 1.0:
            u = math.cos(s) + 0.1
            s += u * t
    return s * t + u
"""
    y = np.array([0.1, 2.0, 1.0, 2.0, 3.0, 0.5, 2.0])
    x = np.array([0.3, 0.9, 1.4, 0.2, 0.7, 0.6, 1.1])
    for text in (skipped, used, deep):
        gradients_agree(text, x, y)


def test_reference():
    """The reference itself: a derivative by hand."""
    from .dual import Dual, slope_of, space

    names = space()
    exec("def main(a):\n    return max(math.sin(a) * a ** 2, 0.1)\n", names)
    slope = slope_of(names["main"](Dual(0.8, 1.0)))
    assert abs(slope - (math.cos(0.8) * 0.64 + 1.6 * math.sin(0.8))) < 1e-12


def test_tangents_of_whole_numbers():
    """A function that returns no floats has no tangents: the text returns an empty tuple."""
    case = Case.of(HEAD + "def main(x):\n    y = x * 2.0\n    return int(y[0]), x.size\n", [X])
    assert program_text(tangent_of(case.program, ["x"], values=False)).rstrip().endswith("return ()")
