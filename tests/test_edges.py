"""Edges: the first output of a node is the node itself, whichever way a tensor came to it."""

import pytest

import jitgrad as torch
from jitgrad.autograd import Function, grad


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        return g * out


class ExpSin(Function):
    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out, x)
        return out, x.sin()

    @staticmethod
    def backward(ctx, g, h):
        out, x = ctx.saved_tensors
        return g * out + h * x.cos()


@pytest.mark.parametrize("apply", [Exp.apply, lambda x: ExpSin.apply(x)[0]], ids=["one", "several"])
@pytest.mark.parametrize("hooked", [False, True])
def test_first_output_that_a_function_saved_leads_back_to_its_call(apply, hooked):
    x = torch.tensor([0.3, 0.7], requires_grad=True)
    y = apply(x)
    if hooked:
        y.register_hook(lambda g: None)
    found = y
    for _ in range(3):
        (found,) = grad(found.sum(), x, create_graph=True)
        assert torch.allclose(found, x.exp())
