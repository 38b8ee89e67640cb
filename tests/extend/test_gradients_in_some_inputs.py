"""Gradients in only some of a loop's inputs: the engine then asks nodes for those that lead to what is wanted."""

import numpy as np
import pytest

import jitgrad
from jitgrad.autograd import functional, grad

from .small_loops import variable

X = [1.0, -0.5, 2.0]


@jitgrad.differentiable
def cubes(x, a):
    total = 0.0
    for i in range(x.size):
        total += a * x[i] ** 3
    return total


@jitgrad.differentiable
def several(x, a):
    y, total = np.zeros(x.size), 0.0
    for i in range(x.size):
        y[i] = a * x[i] ** 2
        total += y[i] * x[i]
    return y, total


def cubes_in_ops(x, a):
    return (a * x**3).sum()


@pytest.mark.parametrize("wanted", [(0,), (1,), (1, 0)])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("op", [cubes, lambda x, a: several(x, a)[1]])
def test_gradients_asked_for_one_by_one(op, wanted, create_graph):
    given = variable(X), variable(0.7)
    expected = grad(cubes_in_ops(*given), given)
    found = grad(op(*given), [given[k] for k in wanted], create_graph=create_graph)
    for k, g in zip(wanted, found, strict=True):
        np.testing.assert_allclose(g.detach().numpy(), expected[k].numpy(), rtol=1e-13)


def test_backward_toward_one_input():
    x, a = variable(X), variable(0.7)
    cubes(x, a).backward(inputs=[x])
    np.testing.assert_allclose(x.grad.numpy(), 2.1 * np.square(X), rtol=1e-13)
    assert a.grad is None


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: jitgrad.func.grad(f)(x),
        lambda f, x: jitgrad.func.hessian(f)(x),
        functional.jacobian,
        functional.hessian,
        lambda f, x: grad(jitgrad.func.vmap(f)(jitgrad.stack([x, 2 * x])).sum(), x),
    ],
)
def test_transforms_beside_a_parameter(transform):
    a, x = variable(0.7), variable(X)
    found, expected = (transform(lambda v: f(v, a), x) for f in (cubes, cubes_in_ops))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-13)


def test_a_loss_of_a_gradient():
    results = []
    for f in (cubes, cubes_in_ops):
        x, a = variable(X), variable(0.7)
        (force,) = grad(f(x, a), x, create_graph=True)
        (force**2).sum().backward()
        results.append([x.grad.numpy(), a.grad.numpy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_in_a_compiled_function():
    a = variable(0.7)
    step = jitgrad.compile(lambda x: grad(cubes(x, a), x)[0])
    for k in range(3):
        found = step(variable([v + k for v in X]))
        np.testing.assert_allclose(found.detach().numpy(), 2.1 * (np.array(X) + k) ** 2, rtol=1e-13)


def scaled(x, y, out):
    for i in range(x.size):
        out[i] = x[i] * y[i] ** 2


def scaled_backward(g, x, y, grad_x, grad_y):
    for i in range(x.size):
        grad_x[i] += g[i] * y[i] ** 2
        grad_y[i] += 2 * g[i] * x[i] * y[i]


@pytest.mark.parametrize("rule", [None, lambda g, x, y: (g * y**2, 2 * g * x * y)])
@pytest.mark.parametrize("k", [0, 1])
def test_of_a_pair(rule, k):
    op = jitgrad.kernel_pair(scaled, scaled_backward, rule=rule)
    given = variable(X), variable([3.0, 5.0, 7.0])
    expected = grad(op(*given).sum(), given)
    (found,) = grad(op(*given).sum(), given[k], create_graph=True)
    np.testing.assert_allclose(found.detach().numpy(), expected[k].numpy(), rtol=1e-13)
    if rule is None:
        with pytest.raises(RuntimeError, match="differentiate twice"):
            found.sum().backward()
    else:
        assert grad(found.sum(), given[1])[0].any()
