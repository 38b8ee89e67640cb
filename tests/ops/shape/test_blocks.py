"""Matrices along a diagonal: values, dtypes, gradients, empty blocks."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck


def test_blocks_lie_along_the_diagonal():
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(3, 1)
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        torch.block_diag(x, 5)
    out = torch.block_diag(x, torch.tensor(5.0), y.t(), torch.tensor([7.0, 8.0]))
    expected = np.zeros((5, 9), np.float32)
    expected[:2, :3], expected[2, 3], expected[3, 4:7], expected[4, 7:] = x.numpy(), 5, 1, (7, 8)
    assert np.array_equal(out.numpy(), expected)
    assert torch.block_diag().shape == (1, 0)


def test_dtypes_are_promoted_and_strides_are_any():
    x, y = torch.tensor([[1, 2]]), torch.tensor([[0.5], [1.5]])
    out = torch.block_diag(x, y.t(), x.t())
    assert out.dtype is torch.float32
    assert out.tolist() == [[1, 2, 0, 0, 0], [0, 0, 0.5, 1.5, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 2]]


def test_empty_blocks_take_rows_or_columns():
    assert torch.block_diag(torch.ones(2, 0), torch.ones(1, 1)).tolist() == [[0], [0], [1]]
    assert torch.block_diag(torch.ones(0, 0)).shape == (0, 0)


def test_gradients_go_to_the_blocks_that_want_them():
    x, y = (torch.rand(n, 2, dtype=torch.float64, requires_grad=True) for n in (1, 3))
    assert gradcheck(torch.block_diag, (x, y)) and gradgradcheck(torch.block_diag, (x, y))
    (g,) = torch.autograd.grad(torch.block_diag(x.detach(), y, y).sum(), y)
    assert g.tolist() == [[2, 2]] * 3
    half = torch.ones(1, 2, dtype=torch.float16, requires_grad=True)
    assert torch.autograd.grad(torch.block_diag(half, y).sum(), half)[0].dtype is torch.float16


def test_under_vmap():
    x = torch.rand(3, 1, 2)
    out = torch.vmap(lambda t: torch.block_diag(t, torch.ones(1, 1)))(x)
    assert out.equal(torch.stack([torch.block_diag(t, torch.ones(1, 1)) for t in x]))
