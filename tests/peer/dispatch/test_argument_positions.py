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
    # By their names they have no position.
    "x.add(other='a')", "torch.add(x, other='a')", "x.unsqueeze(dim='a')", "x.softmax(dim='a')", "x.mm(mat2=3)",
    "x.transpose(0, dim1='a')", "x.gather(0, index=3)", "torch.full(size=2, fill_value=1)", "torch.randint(5, size=3)",
    "torch.full((2,), fill_value='a')", "x.topk(k='a')", "torch.split_with_sizes(x, split_sizes=2)",
    "torch.constant_pad_nd(x, pad=1)", "torch.nn.functional.linear(x, weight=3)", "(x\n  .add(other=\n  'a'))",
    "x[0].add(other=x.add(other=1).mul('a'))",
    # A single int counts as a size where it stands, of methods only.
    "x.flip(dims=1)", "x.permute(dims=1)", "x.reshape(shape=4)", "x.expand(size=2)", "x.repeat(repeats=2)",
    "x.tile(dims=2)", "x.resize_(size=4)", "x.sum_to_size(size=2)", "x.new_zeros(size=2)", "torch.zeros(size=2)",
    "torch.rand(size=2)", "x.broadcast_to(size=2)", "torch.flip(x, 1)", "torch.permute(x, 1)", "torch.reshape(x, 4)",
    "torch.tile(x, 2)", "torch.broadcast_to(x, 2)", "torch.permute(x, 1, 0)", "torch.reshape(x, 2, 2)",
    "torch.flip(x, dims=1)", "torch.permute(x, dims=1)", "torch.permute_copy(x, 1)", "torch.expand_copy(x, 2)",
    "torch.as_strided_copy(x, 2, 1)", "torch.zeros(2, size=(2,))", "x.reshape(4, shape=(4,))",
    "torch.view_copy(x, [2.5])", "torch.view_copy(x, size=4)", "torch.view_copy(x, 4)", "torch.view_copy(x)",
    "torch.view_copy(None, (4,))", "torch.view_copy(x, 'a')",
    # Of layers' functions as of the op that has the parameters in another order.
    "torch.nn.functional.batch_norm(x, 1, None, training=True)", "torch.nn.functional.batch_norm(x, x[0], 3)",
    "torch.nn.functional.batch_norm(x, None, None, 2, training=True)", "torch.nn.functional.group_norm(x, 2, 1)",
    "torch.nn.functional.batch_norm(x, None, None, None, 2, True)", "torch.nn.functional.layer_norm(x, (2.0,))",
    "torch.nn.functional.instance_norm(x[None], 1)", "torch.nn.functional.instance_norm(x[None], None, 1)",
    "torch.nn.functional.instance_norm(x[None], None, None, 1)", "torch.nn.functional.rms_norm(x, (2.0,))",
    "torch.nn.functional.instance_norm(x[None], None, None, None, 1)", "torch.nn.functional.rms_norm(x, (2,), 1)",
    "torch.nn.functional.layer_norm(x, (2,), None, 1)",
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
