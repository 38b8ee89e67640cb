"""Loops with a given number of states: gradients, how many iterations run, and what memory holds."""

import functools
import math
import tracemalloc
import types

import numpy as np
import pytest

import jitgrad
from jitgrad.kernels.adjoint.functions import HELPERS, forward_function, gradient_function
from jitgrad.kernels.adjoint.parse import program_of
from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.adjoint.reverse import adjoint_of

VECTOR, INT = Kind("float64", 1), Kind("int64")


def swinging(x, n):
    u = x.copy()
    s = 0.0
    for t in range(n, 0, -1):
        u[0] = u[0] * 0.3 + math.sin(u[1])
        u[1] = u[1] + 0.1 * u[0] * s
        s += u[0] * x[1] / t
    u[0] *= s
    return s + u[0] * u[1]


def spreading(x, n):
    u = x.copy()
    for _ in range(n):
        for i in range(1, u.size - 1):
            u[i] = 0.9 * u[i] + 0.02 * u[i - 1] * u[i + 1]
    return u.sum()


class Counting(types.ModuleType):
    """``math`` with a count of calls of ``sin``: one in each iteration of ``swinging``."""

    def __init__(self):
        super().__init__("math")
        self.calls = 0

    def __getattr__(self, name):
        return getattr(math, name)

    def sin(self, x):
        self.calls += 1
        return math.sin(x)


@functools.cache
def gradient_of(function, states):
    """(the gradient as a Python function, the counting module that it calls)."""
    adjoint = adjoint_of(program_of(function, [VECTOR, INT]), ["x"], states)
    scope = {"math": Counting()}
    exec(gradient_function(adjoint).text("gradient").replace("import math\n", ""), scope)
    return scope["gradient"], scope["math"]


@functools.cache
def reversals(length, states):
    """The fewest iterations to run ahead for the reversal of ``length`` whose first state is kept."""
    if length == 1:
        return 0
    found = [length * (length - 1) // 2]
    if states > 1:
        found += [m + reversals(length - m, states - 1) + reversals(m, states) for m in range(1, length)]
    return min(found)


@functools.cache
def behind_forward(length, states):
    """The same behind a forward sweep, which runs all of them, and keeps states as it passes."""
    found = [length * (length - 1) // 2]
    if states > 1:
        found += [behind_forward(length - m, states - 1) + reversals(m, states) for m in range(1, length)]
    return min(found)


def binomial(length, states):
    """Griewank and Walther's number of iterations."""
    r = next(r for r in range(length + 1) if math.comb(states + r, states) >= length)
    return r * length - math.comb(states + r, r - 1) if r else 0


@pytest.mark.parametrize("states", [1, 2, 3, 5, 8, 40])
def test_gradients_and_the_number_of_iterations(states):
    plain, _ = gradient_of(swinging, None)
    gradient, module = gradient_of(swinging, states)
    for n in (0, 1, 2, 3, 4, 5, 6, 7, 10, 13, 21, 36):
        module.calls = 0
        found, wanted = (g(np.array([0.3, 0.7]), n, 1.0) for g in (gradient, plain))
        assert found[0] == wanted[0]
        np.testing.assert_array_equal(found[1], wanted[1])
        assert module.calls - n == binomial(n + 1, states)  # each iteration runs once more for its own reverse
        assert binomial(n + 1, states) == (n + behind_forward(n, states) if n else 0)


def test_long_loops_with_few_states():
    scope = {}
    exec(HELPERS["steps_ahead"], scope)
    for n, states in ((1000, 3), (1000, 10), (5000, 30), (10**9, 50)):
        if n > 10**6:
            assert 0 < scope["steps_ahead"](n, states) < n
            continue
        gradient, module = gradient_of(swinging, states)
        module.calls = 0
        (_, found), (_, wanted) = (g(np.array([0.3, 0.7]), n, 1.0) for g in (gradient, gradient_of(swinging, None)[0]))
        np.testing.assert_array_equal(found, wanted)
        assert module.calls - n == binomial(n + 1, states)


def peak(gradient, x, n):
    """The most bytes allocated in a call; the least of three, for other threads of the process may allocate too."""
    gradient(x[:5], n, 1.0)  # what Python allocates at first and keeps isn't memory of the sweep
    found = []
    for _ in range(3):
        tracemalloc.start()
        gradient(x, n, 1.0)
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return min(found)


def test_memory_is_that_of_the_states():
    x, n, states = np.linspace(0.0, 1.0, 400), 12, 3
    peaks = [peak(gradient_of(spreading, kept)[0], x, n) / x.nbytes for kept in (None, states)]
    # u, its derivative and that of x; what the sweep of one iteration keeps, while its room grows; the states.
    assert peaks[0] > n and peaks[1] < states + 7
    forward = forward_function(adjoint_of(program_of(spreading, [VECTOR, INT]), ["x"], states))
    scope = {"np": np, "math": math}
    exec("\n".join(HELPERS.values()) + forward.definition("forward"), scope)
    assert sum(np.asarray(v).nbytes for v in scope["forward"](x, n)) / x.nbytes < states + 1.1


def test_loops_that_keep_nothing_are_left_alone():
    text = gradient_function(adjoint_of(program_of(spreading, [VECTOR, INT]), ["x"], 2)).text("gradient")
    assert text.count("steps_ahead(") == 3  # its definition, and a call in each sweep over the loop that keeps numbers


def test_compiled_and_of_tensors():
    plain, op = jitgrad.differentiable(swinging), jitgrad.differentiable(swinging, checkpoint=3)
    x = jitgrad.tensor([0.3, 0.7], dtype=jitgrad.float64, requires_grad=True)
    for n in (0, 1, 7, 30):
        out = op(x, n)
        (wanted,) = jitgrad.autograd.grad(plain(x, n), x)
        for _ in range(2):  # backward leaves the states as they were
            (found,) = jitgrad.autograd.grad(out, x, retain_graph=True)
            assert jitgrad.allclose(found, wanted, rtol=1e-13)
    assert jitgrad.autograd.gradgradcheck(lambda x: op(x, 5), (x,))
