"""What a view of some elements derives from its forward: the gradient and the batch rule, or a refusal."""

import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.func import grad, vmap
from jitgrad.ops.shape.slicing import SliceView
from jitgrad.ops.shape.view import relaying


class EverySecond(SliceView, listed=False):
    """Every second element of a dim."""

    def plan(x_layout, dim):
        shape, strides = list(x_layout.shape), list(x_layout.strides)
        shape[dim], strides[dim] = (shape[dim] + 1) // 2, 2 * strides[dim]
        return relaying(x_layout, shape, strides)


def test_gradient_is_that_of_the_view_between_zeros():
    x = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    part = EverySecond.apply(x, 1)
    assert part.shape == (2, 3) and part._base is x
    part.backward(torch.full((2, 3), 7.0, dtype=torch.float64))
    assert x.grad.tolist() == [[7.0, 0.0, 7.0, 0.0, 7.0]] * 2
    assert gradcheck(lambda x: EverySecond.apply(x, 0), (x,))
    assert gradgradcheck(lambda x: EverySecond.apply(x, 1).exp(), (x,))


def test_batch_rule_counts_dims_behind_the_batch():
    x = torch.arange(12.0).reshape(2, 2, 3)
    found = vmap(lambda sample: EverySecond.apply(sample, 1))(x)
    assert found.tolist() == x[:, :, ::2].tolist()
    slopes = vmap(grad(lambda sample: (EverySecond.apply(sample, -1) ** 2).sum()))(x)
    assert slopes.tolist() == (2 * x * torch.tensor([1.0, 0.0, 1.0])).tolist()


def test_refused_where_neither_dims_nor_a_batch_rule_are_given():
    body = {"__doc__": "My view.", "forward": lambda x, count: x}
    with pytest.raises(TypeError, match="needs a batch rule; name the dims of x by some of dim, ") as caught:
        type("MyView", (SliceView,), body, listed=False)
    assert str(caught.value).startswith(f"MyView ({__file__}:")
    type("MyView", (SliceView,), {**body, "batch": lambda call: call.run()}, listed=False)


def test_elements_in_one_place_share_the_gradient_of_as_strided():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x.expand(2, 3).as_strided((2, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 1]
