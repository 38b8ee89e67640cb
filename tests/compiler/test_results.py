"""What compiled functions return: containers that were there before, tensors with gradients and hooks of their own."""

import warnings

import pytest

import jitgrad as torch
from tests.compiler.alike import normal

kept = []


def keeps(x, own):
    kept.append(x.sum().item())
    return kept


def gives_back(x, own):
    return own


def appends(x, own):
    own.append(x.sum().item())
    return own


def twice(x, own):
    new = [x * 2]
    return {"a": new, "b": new}


@pytest.mark.parametrize("function", [keeps, gives_back, appends, twice])
def test_lists_stay_what_they_are(function):
    compiled = torch.compile(function)
    for k in range(5):
        own = [1]
        found = compiled(normal(3, seed=k), own)
        if function is twice:
            assert found["a"] is found["b"]
        else:
            assert found is (kept if function is keeps else own)
        assert len(own) == (2 if function is appends else 1)
    assert len(kept) in (0, 5)
    kept.clear()


def test_new_leaves_keep_their_gradients_and_hooks():
    def step(x):
        leaf = torch.zeros(3, requires_grad=True)
        other = torch.ones(3, requires_grad=True)
        other.register_hook(lambda grad: grad * 2)
        middle = leaf * x
        middle.retain_grad()
        (middle * x).sum().backward()
        return leaf, other, middle

    compiled = torch.compile(step)
    for k in range(5):
        leaf, other, middle = compiled(normal(3, seed=k))
        assert torch.equal(leaf.grad, normal(3, seed=k) ** 2) and torch.equal(middle.grad, normal(3, seed=k))
        other.sum().backward()
        assert (other.grad == 2).all()


def test_modes_that_are_left_switched():
    switching = torch.compile(lambda: torch.set_grad_enabled(not torch.is_grad_enabled()))
    try:
        seen = []
        for _ in range(6):
            switching()
            seen.append(torch.is_grad_enabled())
        assert seen == [False, True] * 3
        assert not switching._variants
    finally:
        torch.set_grad_enabled(True)


def test_negative_numbers_as_unsigned_ones():
    def shift(x):
        return x.to(torch.uint8) + 1

    x, compiled = torch.linspace(-300, 300, 5000), torch.compile(shift)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of what runs uncompiled
        for _ in range(3):
            assert torch.equal(compiled(x), shift(x))


def test_a_result_that_is_a_part_of_memory_in_another_order_of_dims():
    def product(a, b):
        return torch.kron(a, b)

    a, b, compiled = torch.arange(6.0).view(2, 3).t(), torch.ones(2, 3).t(), torch.compile(product)
    for k in range(3):
        found = compiled(a + k, b)
        assert torch.equal(found, product(a + k, b)) and found.stride() == (1, 9)
