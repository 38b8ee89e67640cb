"""Backward kernels of elementwise ops add large gradients to those that wait: the sums are as without that."""

import ast

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.elementwise_plan import ADDITION_SIZE
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.testing import assert_close

LARGE = ADDITION_SIZE
UNARY = {
    "exp": torch.exp, "tanh": torch.tanh, "gelu": torch.nn.functional.gelu, "abs": torch.abs, "power": lambda x: x**3,
    "number": lambda x: 2.5 * x, "leaky": lambda x: torch.nn.functional.leaky_relu(x, 0.3),
    "clamp": lambda x: x.clamp(-0.5, 1), "constant": lambda x: x * torch.full_like(x, 1.5),
    "strided": lambda x: torch.sin(x.view(-1, 8).t()), "expanded": lambda x: torch.cos(x.expand(2, -1)),
}  # fmt: skip


def leaf(size=LARGE, dtype=torch.float32):
    values = np.random.default_rng(size).standard_normal(size)
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def total(out):
    return out.sum().real if out.is_complex() else out.sum()


def gradient(function, x):
    (found,) = torch.autograd.grad(total(function(x)), x)
    return found


def launched(function):
    with torch.debug.tape() as tape:
        function()
    return [entry.kernel.name for entry in tape]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_sums(name, dtype):
    if dtype.is_complex and name in ("gelu", "leaky", "clamp"):
        pytest.skip("of real numbers only")
    x, function = leaf(dtype=dtype), UNARY[name]
    expected = gradient(torch.sigmoid, x) + gradient(function, x)
    (total(function(x)) + total(torch.sigmoid(x))).backward()
    assert x.grad.dtype == dtype and x.grad.is_contiguous()
    assert_close(x.grad, expected, rtol=0 if dtype is torch.bfloat16 else 2e-6, atol=1e-6)


def test_one_launch():
    for size, adds in ((LARGE, False), (LARGE - 1, True)):
        x = leaf(size)
        out = (torch.exp(x) + torch.sin(x) + torch.tanh(x)).sum()
        names = launched(out.backward)
        assert ("add_forward" in names) == adds and ("sin_backward_add" in names) != adds


def test_names_beside_a_rules_own():
    def grad_there(g, there):
        there_ = there * there
        return 3 * g * there_

    rule = Rule("cubes", grad_there).accumulated
    assert rule.parameters == ["there__", "g", "there"]
    assert ast.unparse(rule.statements[-1]) == "return there__ + 3 * g * there_"


def test_what_does_not_belong_to_backward_is_not_written_to():
    x, g = leaf(), torch.ones(LARGE)
    y = x.view(-1)
    torch.autograd.backward([y, torch.exp(x), torch.sin(x)], [g, g, g])
    assert bool((g == 1).all()) and not np.shares_memory(x.grad.numpy(), g.numpy())
    kept = []
    x = leaf()
    y = x * 2
    y.register_hook(kept.append)
    (torch.exp(y) + torch.sin(y) + y).sum().backward()
    assert_close(kept[0], torch.exp(2 * x.detach()) + torch.cos(2 * x.detach()) + 1)
    assert_close(x.grad, 2 * kept[0])


def test_graphs_that_are_kept_and_freed():
    x = leaf()
    out = (torch.exp(x) + torch.sin(x)).sum()
    out.backward(retain_graph=True)
    first = x.grad.clone()
    out.backward()
    assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.backward()
    (found,) = torch.autograd.grad((torch.exp(x) + torch.sin(x)).sum(), x, create_graph=True)
    assert found.requires_grad and torch.equal(found.detach(), torch.exp(x.detach()) + torch.cos(x.detach()))


def test_saved_tensors_that_were_written_to():
    x = leaf()
    y = torch.exp(x)
    out = (y + torch.sin(x)).sum()
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_gradients_that_are_asked_for():
    x = leaf()
    y = x * 2
    z = torch.exp(y) + torch.tanh(y)
    dy, dx = torch.autograd.grad(z.sum(), [y, x])
    assert_close(dy, torch.exp(y.detach()) + 1 - torch.tanh(y.detach()) ** 2)
    assert_close(dx, 2 * dy)
