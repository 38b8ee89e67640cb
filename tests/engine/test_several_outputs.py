"""Nodes of several outputs: they run on the engine's common path, and by steps once they have hooks."""

import pytest

import jitgrad as torch


def test_hooks_on_a_node_of_several_outputs():
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, _ = x.sort()
    seen = []
    values.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    values.retain_grad()
    (values * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert seen == [[1.0, 10.0, 100.0]]
    assert values.grad.tolist() == [2.0, 20.0, 200.0]
    assert x.grad.tolist() == [200.0, 2.0, 20.0]


def test_outputs_without_gradients_and_twice():
    x = torch.arange(6.0).requires_grad_()
    parts = x.split(2)
    y = parts[0].sum() + (parts[2] * 3).sum()
    (g,) = torch.autograd.grad(y, x, retain_graph=True)
    assert g.tolist() == [1, 1, 0, 0, 3, 3]
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        (x.topk(2).values * x.exp()[:2]).sum().backward(inputs=[x])
        z = x.topk(2).values.exp().sum()
        z.backward()
        z.backward()


def test_an_incoming_gradient_that_is_handed_on_is_not_added_to():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a.clone(), b.clone()

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    one, other = Both.apply(a, b)
    g = torch.tensor([1.0, 2.0])
    torch.autograd.backward([one, other, a * 2], [g, g, g])
    assert g.tolist() == [1, 2]
    assert a.grad.tolist() == [3, 6]
    assert b.grad.tolist() == [1, 2]


def test_several_outputs_of_which_all_are_used():
    x = torch.tensor([[4.0, 1.0], [1.0, 3.0]], requires_grad=True)
    values, vectors = torch.linalg.eigh(x)
    rebuilt = (vectors * values) @ vectors.T
    (g,) = torch.autograd.grad(rebuilt.sum(), x)
    assert torch.allclose((g + g.T) / 2, torch.ones(2, 2), atol=1e-5)
