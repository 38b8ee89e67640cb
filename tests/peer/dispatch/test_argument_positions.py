"""Errors name what was called, a method or a function, and count arguments as PyTorch does for it."""

import pytest
import torch

import jitgrad

CALLS = [
    "x.add('a')", "torch.add(x, 'a')", "(x\n  .add('a'))", "(x * 2).sum(0).add(\n  'a')", "torch.Tensor.add(x, 'a')",
    "x[0].add(x.add(1).add('a'))", "torch.add(x.mul('a'), 1)", "home.torch.add(x, 'a')", "f(x, 'a')", "x.add(*('a',))",
    "[x.add(v) for v in ['a']]", "x.add_('a')", "x.addmm_('a', x)", "torch.addmm(x, 'a', x)", "x.index_put_('a', x)",
    "x.index_put((k,), 2)", "x.unbind('a')", "torch.unbind(x, 'a')", "x.chunk(2, 'a')", "x.flatten('a')",
    "torch.flatten(x, 0, 'a')", "x.permute('a')", "torch.permute(x, 'a')", "x.reshape('a')", "x.expand('a')",
    "x.softmax('a')", "torch.softmax(x, 'a')", "x.cumsum('a')", "x.view_as('a')", "x.copy_('a')", "x.normal_('a')",
    "x.roll('a')", "x.renorm('a', 0, 1)", "x.dist(x, 'a')", "x.unfold('a', 1, 1)", "x.addcmul('a', x)",
    "torch.addcmul(x, x, 'a')", "x.addcdiv_(x, 'a')", "x.cholesky_solve('a')", "x.new_zeros('a')", "torch.zeros('a')",
    "x.new_full((2,), 'a')", "x.gather('a', x)", "x.sum_to_size('a')", "x.gcd_('a')", "x.igamma(2.5)", "x.split('a')",
    "x.unflatten(0, 'a')", "torch._softmax_backward_data(x, x, -1, 1j)",
]  # fmt: skip


def message(library, text):
    names = {
        "torch": library,
        "x": library.ones(2, 2),
        "k": library.tensor([0]),
        "f": library.add,
        "home": type("home", (), {"torch": library}),
    }
    with pytest.raises(TypeError) as caught:
        exec(text, names)
    return str(caught.value)


@pytest.mark.parametrize("text", CALLS)
def test_positions(text):
    assert message(jitgrad, text) == message(torch, text)


def test_of_a_bound_method_the_call_does_not_tell():
    assert message(jitgrad, "g = x.expand_as; g('a')") == message(torch, "g = x.expand_as; g('a')")
