"""autograd.functional against derivatives known by hand, and what it must leave alone."""

import pytest

import jitgrad as torch
from jitgrad.autograd import functional


def cubes(x):
    return (x**3).sum()


def product(x, y):
    return x.outer(y), (x * x).sum()


X, Y = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([3.0, 4.0, 5.0], dtype=torch.float64)
V = torch.tensor([1.0, -1.0], dtype=torch.float64)


def test_products_of_a_number():
    value, found = functional.vjp(cubes, X)
    assert value.item() == 9 and found.tolist() == [3, 12]
    assert functional.jvp(cubes, X, V)[1].item() == 3 - 12
    assert functional.vhp(cubes, X, V)[1].tolist() == [6, -12]
    assert functional.hvp(cubes, X, V)[1].tolist() == [6, -12]


@pytest.mark.parametrize("settings", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_jacobian_is_structured_like_outputs_of_inputs(settings):
    (outer_x, outer_y), (square_x, square_y) = functional.jacobian(product, (X, Y), **settings)
    assert outer_x.shape == (2, 3, 2) and outer_y.shape == (2, 3, 3)
    assert outer_x[1, 2].tolist() == [0, 5] and outer_y[1].tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    assert square_x.tolist() == [2, 4] and square_y.tolist() == [0, 0, 0]


@pytest.mark.parametrize("settings", [{}, {"vectorize": True},
                                      {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}])  # fmt: skip
def test_hessian(settings):
    assert functional.hessian(cubes, X, **settings).tolist() == [[6, 0], [0, 12]]
    (xx, xy), (yx, yy) = functional.hessian(lambda x, y: (x.outer(y) ** 2).sum(), (X, Y), **settings)
    assert xx.tolist() == [[100, 0], [0, 100]] and yy.tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 10]]
    assert xy.tolist() == yx.t().tolist() == [[12, 16, 20], [24, 32, 40]]


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_inputs_without_elements(strategy):
    empty = torch.zeros(0, 2)
    assert functional.jacobian(lambda x: x.sum(0), empty, vectorize=True, strategy=strategy).shape == (2, 0, 2)
    assert functional.jacobian(lambda x: x * 2, empty, vectorize=True, strategy=strategy).shape == (0, 2, 0, 2)


def test_outputs_without_elements():
    assert functional.jacobian(lambda x: x[:0], X).shape == (0, 2)


def test_inputs_stay_as_they_were():
    x = X.clone()
    for settings in ({}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}):
        functional.hessian(cubes, x, **settings)
    functional.hvp(cubes, x, V)
    assert not x.requires_grad and x.grad is None and not V.requires_grad


def test_results_can_be_differentiated():
    x = X.clone().requires_grad_()
    matrix = functional.jacobian(lambda x: x**3, x, create_graph=True)
    matrix.sum().backward()
    assert x.grad.tolist() == [6, 12]
    x.grad = None
    functional.hessian(cubes, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6, 6]
    v = V.clone().requires_grad_()
    functional.jvp(cubes, x, v, create_graph=True)[1].backward()
    assert v.grad.tolist() == [3, 12]
    assert not functional.jacobian(lambda x: x**3, x).requires_grad


def test_jacobian_of_a_function_with_side_inputs():
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    found = functional.jacobian(lambda x: x * weight * weight, X, create_graph=True)
    found.sum().backward()
    assert weight.grad.tolist() == [2, 2]


def test_strict_mode_says_what_does_not_depend():
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not require gradients"):
        functional.jacobian(lambda x: torch.ones(2), X, strict=True)
    with pytest.raises(RuntimeError, match="is independent of input 1. This is not allowed in strict mode"):
        functional.vjp(lambda x, y: x.sum(), (X, Y), strict=True)
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function with respect to input 0 is indep"):
        functional.hessian(lambda x: (x * 2).sum(), X, strict=True)


def test_grad_mode_is_restored_after_an_error():
    def broken(x):
        raise KeyError("mine")

    for function in (functional.vjp, functional.jvp, functional.hvp, functional.jacobian, functional.hessian):
        with torch.no_grad(), pytest.raises(KeyError, match="mine"):
            function(broken, torch.ones(1))
        assert torch.is_grad_enabled()
