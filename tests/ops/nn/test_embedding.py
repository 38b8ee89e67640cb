"""Gradients of looked-up rows go straight into the table's gradient."""

import math

import numpy as np
import pytest

import jitgrad as torch


def table(n=6, d=3):
    return torch.arange(n * d, dtype=torch.float64).reshape(n, d).requires_grad_()


def expected(shape, dim, index, g):
    out = np.zeros(shape)
    np.add.at(out, (slice(None),) * dim + (index.reshape(-1),), g.reshape(*shape[:dim], -1, *shape[dim + 1 :]))
    return out


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_rows_that_are_named_twice_add_up(dtype):
    w, index = table(), torch.tensor([[1, 5, 1], [0, 5, 5]], dtype=dtype)
    g = torch.arange(18, dtype=torch.float64).reshape(2, 3, 3)
    (found,) = torch.autograd.grad(torch.nn.functional.embedding(index, w), w, g)
    np.testing.assert_array_equal(found.numpy(), expected((6, 3), 0, index.numpy(), g.numpy()))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("places", [[2, 0, 2, 2], [1], []])
def test_index_select(dim, places):
    x, index = torch.rand(3, 4, 5, dtype=torch.float64).requires_grad_(), torch.tensor(places, dtype=torch.int64)
    out = x.index_select(dim, index)
    g = torch.rand(*out.shape[::-1], dtype=torch.float64).permute(2, 1, 0)  # not row-major
    (found,) = torch.autograd.grad(out, x, g)
    np.testing.assert_allclose(found.numpy(), expected((3, 4, 5), dim % 3, index.numpy(), g.contiguous().numpy()))


def test_no_copy_of_the_table():
    w = torch.rand(1000, 8).requires_grad_()
    out = torch.nn.functional.embedding(torch.tensor([3, 7, 3]), w)
    with torch.debug.tape() as tape:
        out.backward(torch.ones(3, 8))
    large = [e.kernel.name for e in tape if any(getattr(a, "size", 0) == 8000 for a in e.args)]
    assert large == ["fill", "add_rows"]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_padding_row_gets_zeros_whatever_arrives(bad, create_graph):
    w = table()
    out = torch.nn.functional.embedding(torch.tensor([2, 1, 2]), w, padding_idx=2)
    g = torch.full((3, 3), 1.0, dtype=torch.float64)
    g[0], g[2] = bad, -bad
    (found,) = torch.autograd.grad(out, w, g, create_graph=create_graph)
    assert found.tolist() == [[0] * 3, [1] * 3, *[[0] * 3] * 4]


def test_a_changed_index_is_refused():
    w, index = table(), torch.tensor([1, 2])
    out = torch.nn.functional.embedding(index, w)
    index.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_two_backwards_through_one_graph():
    w = table()
    out = torch.nn.functional.embedding(torch.tensor([1, 1]), w)
    g = torch.ones(2, 3, dtype=torch.float64)
    out.backward(g, retain_graph=True)
    first = w.grad
    out.backward(g)
    assert w.grad is first and first[1].tolist() == [4, 4, 4]


# -- bags -------------------------------------------------------------------------------------------------


def _bags_and_gradient(index, offsets, create_graph=False, dtype=torch.float32, **options):
    w = table().detach().to(dtype).requires_grad_()
    out = torch.nn.functional.embedding_bag(index, w, torch.tensor(offsets), include_last_offset=True, **options)
    (found,) = torch.autograd.grad(out, w, torch.ones_like(out), create_graph=create_graph)
    return out.tolist(), found.tolist()


@pytest.mark.parametrize("create_graph", [False, True])
def test_sums_end_at_the_last_offset(create_graph):
    index = torch.tensor([0, 1, 2, 3, 4])
    found = _bags_and_gradient(index, [0, 2, 3], create_graph, mode="sum")
    assert found == _bags_and_gradient(index[:3], [0, 2, 3], mode="sum")


@pytest.mark.parametrize("options", [
    {"mode": "mean"}, {"mode": "max"}, {"mode": "sum", "padding_idx": 4}, {"mode": "sum", "dtype": torch.float64},
])  # fmt: skip
def test_other_last_bags_take_what_follows_the_last_offset(options):
    index = torch.tensor([0, 1, 2, 3, 4])
    assert _bags_and_gradient(index, [0, 2, 3], **options) == _bags_and_gradient(index, [0, 2, 5], **options)


def test_factors_behind_the_last_offset_get_no_gradient():
    w, factors = table().detach().float(), torch.ones(4, requires_grad=True)
    out = torch.nn.functional.embedding_bag(
        torch.tensor([1, 2, 3, 4]), w, torch.tensor([0, 2]), mode="sum", per_sample_weights=factors,
        include_last_offset=True,
    )  # fmt: skip
    assert out.tolist() == [[9, 11, 13]]
    assert torch.autograd.grad(out.sum(), factors)[0].tolist() == [12, 21, 0, 0]


def test_shapes_that_bags_refuse():
    index, offsets = torch.zeros(2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    for function in (torch.embedding_bag, torch._embedding_bag):
        with pytest.raises(RuntimeError, match="input has to be a 1D or 2D Tensor"):
            function(torch.ones(2, 2), index[None, None], offsets)
        with pytest.raises(RuntimeError, match="offsets has to be a 1D Tensor"):
            function(torch.ones(2, 2), index, offsets[None])
        with pytest.raises(RuntimeError, match="weight has to be a 2D Tensor"):
            function(torch.ones(2), index, offsets)


def test_one_hot():
    one_hot = torch.nn.functional.one_hot
    x = torch.tensor([[0, 2], [1, 1]])
    assert one_hot(x).tolist() == one_hot(x, 3).tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]]]
    assert one_hot(x.t(), 3).equal(one_hot(x, 3).transpose(0, 1))
    assert one_hot(torch.tensor(1), 3)._version == 2
    assert one_hot(torch.zeros(0, dtype=torch.int64), 3).shape == (0, 3)
    for numbers in ([-1, 5], [5, -1]):  # PyTorch looks for negative numbers first
        with pytest.raises(RuntimeError, match="Class values must be non-negative."):
            one_hot(torch.tensor(numbers), 3)
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes."):
        one_hot(x, 2)
    assert torch.func.vmap(lambda row: one_hot(row, 3))(x).equal(one_hot(x, 3))
    assert torch.compile(one_hot)(x, 3).equal(one_hot(x, 3))
