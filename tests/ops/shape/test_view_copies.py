"""Copies of views: the values of the view in row-major memory of their own, with its gradient."""

import numpy as np
import pytest

import jitgrad as torch

CALLS = {
    "alias": (), "as_strided": ((2, 2), (1, 3)), "detach": (), "diagonal": (1,), "expand": ((2, 3, 4),),
    "narrow": (1, 1, 2), "permute": ((1, 0),), "select": (1, -1), "slice": (1, 0, None, 2), "squeeze": (),
    "t": (), "transpose": (0, 1), "unfold": (1, 2, 1), "unsqueeze": (1,), "view": ((4, 3),),
    "split": (2,), "split_with_sizes": ((1, 2),), "unbind": (1,),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_copy_of_a_view(name):
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    found = getattr(torch, f"{name}_copy")(x, *CALLS[name])
    view = {"alias": lambda x: x, "slice": torch.ops.aten.slice}.get(name) or getattr(torch.Tensor, name)
    shown = view(x, *CALLS[name])
    several = isinstance(found, tuple)
    for copy, part in zip(found if several else [found], shown if several else [shown], strict=True):
        assert copy.is_contiguous() and not copy._is_view() and copy.data_ptr() != part.data_ptr()
        np.testing.assert_array_equal(copy.detach().numpy(), part.detach().numpy())
        if part.requires_grad:
            grads = [torch.autograd.grad((t * t).sum(), x)[0].numpy() for t in (copy, part)]
            np.testing.assert_array_equal(*grads)


def test_strides_of_sizes_0_and_1_are_row_major_ones():
    x = torch.ones(5, 4)
    assert torch.diagonal_copy(x, 3).stride() == torch.diagonal_copy(x, -4).stride() == (1,)
    assert torch.narrow_copy(x[:, ::2], 0, 1, 0).stride() == (2, 1)
    assert [part.stride() for part in torch.split_copy(x[:, ::2], 1)] == [(2, 1)] * 5


def test_complex_views_and_out():
    x = torch.arange(6.0).view(3, 2)
    z = torch.view_as_complex_copy(x)
    assert z.tolist() == [1j, 2 + 3j, 4 + 5j] and torch.view_as_real_copy(z).tolist() == x.tolist()
    out = torch.empty(2, 3)
    assert torch.transpose_copy(x, 0, 1, out=out) is out and out.tolist() == x.t().tolist()
    assert torch.slice_inverse(x, x[1:]).tolist() == x[1:].tolist()


def test_view_copy_of_memory_that_no_view_shows():
    x = torch.arange(6.0).reshape(2, 3).t()
    assert torch.view_copy(x, (6,)).tolist() == [0, 3, 1, 4, 2, 5]
    assert torch.view_copy(x, (-1, 2), out=torch.zeros(3, 2)).tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(RuntimeError, match="is invalid for input of size 6"):
        torch.view_copy(x, (5,))
