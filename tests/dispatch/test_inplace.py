"""Writing in place under autograd: views, bases, versions, and the errors where history would be lost."""

import gc
import weakref

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck


def leaf(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape)).requires_grad_()


def writes_row(x, y):
    z = x * 1
    z[0].mul_(y)
    return z


def writes_through_two_views(x, y):
    z = x * 2
    v = z[:, 1:]
    v[1].add_(y[1:])
    v.mul_(3)
    return z, v, z.t()


def reads_a_view_made_before(x, y):
    z = x * 1
    column = z[:, 0]
    z[1] = y * y
    z.mul_(2)
    return column * column


def fills_a_buffer(x, y):
    out = torch.zeros(4, 3, dtype=torch.float64)
    for k in range(3):
        out[k] = x[k] * y
    out[3:] = out[:1].clone()
    return out


def writes_by_index(x, y):
    z = x.sin()
    z[[2, 0]] = y
    z[z.detach() > 0.5] = y[0]
    z[:, [1, 2]] += z[:, :1]
    return z


def writes_a_diagonal(x, y):
    z = x * 1
    z.diagonal().copy_(y)
    z.t()[0, 1:].zero_()
    return z


def writes_to_a_strided_base(x, y):
    z = (x * 1).t()
    z = z.clone()
    z.view(9)[2:5].mul_(y) if z.is_contiguous() else z.t()[0].mul_(y)
    return z * z


def scatters(x, y):
    z = x * 1
    z.scatter_add_(1, torch.tensor([[0, 0, 2], [1, 1, 1]]), y.expand(2, 3) * 2)
    z.index_add_(0, torch.tensor([0]), y[None])
    z.masked_fill_(z.detach() > 1, y.sum())
    return z


@pytest.mark.parametrize(
    "function",
    [
        writes_row,
        writes_through_two_views,
        reads_a_view_made_before,
        fills_a_buffer,
        writes_by_index,
        writes_a_diagonal,
        writes_to_a_strided_base,
        scatters,
    ],
)
def test_gradients_of_both_orders(function):
    inputs = (leaf(3, 3), leaf(3, seed=1))
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


def test_complex_base_and_real_view():
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    z = x * 1
    torch.view_as_real(z)[:, 1].mul_(3)
    assert z.detach().tolist() == [1 + 6j, 3 - 3j]
    (z * z.conj()).real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 + 36j, 6 - 18j])


def test_histories():
    x = leaf(2, 3) * 1
    row = x[0]
    row.mul_(2)
    assert [type(t.grad_fn).__name__ for t in (x, row)] == ["CopySlices", "AsStridedBackward0"]
    assert row.grad_fn.next_functions[0][0] is x.grad_fn
    x.add_(1)
    assert [type(t.grad_fn).__name__ for t in (x, row)] == ["AddBackward0", "AsStridedBackward0"]


def test_a_base_without_history_gets_one_from_its_view():
    x, y = torch.zeros(2, 3), leaf(3).float().detach().requires_grad_()
    other = x[1]
    x[0] = y
    assert x.requires_grad and not x.is_leaf
    assert other.requires_grad
    x.sum().backward()
    assert y.grad.tolist() == [1, 1, 1]


def test_versions():
    x = torch.zeros(2, 3)
    for count, write in enumerate(
        [
            lambda: x.add_(1),
            lambda: x[0].zero_(),
            lambda: x.__setitem__(0, 1),
            lambda: x.copy_(x + 1),
            lambda: x.t().fill_(2),
        ],
        1,
    ):
        write()
        assert x._version == count
    assert x.detach()._version == 5
    assert x.data._version == 0


def test_a_retained_gradient_is_that_of_the_value_after_the_write():
    x = leaf(3) * 1
    x.retain_grad()
    x.mul_(2)
    x.sum().backward()
    assert x.retains_grad
    assert x.grad.tolist() == [1, 1, 1]


def test_under_no_grad_leaves_are_written_and_keep_their_place():
    w = leaf(3)
    view = w[:2]
    with torch.no_grad():
        w.sub_(1)
        w[0] = 5
    assert w.is_leaf and w.requires_grad
    view.sum().backward()
    assert w.grad.tolist() == [1, 1, 0]


def test_views_are_known_weakly():
    x = leaf(3) * 1
    gone = weakref.ref(x[0])
    views = [x[1:] for _ in range(100)]
    del views
    for _ in range(1000):
        x[0]
    gc.collect()
    assert gone() is None
    assert len(x._views) < 200


def test_a_source_that_overlaps_with_gaps_is_read_as_it_was():
    x = torch.arange(6.0).reshape(2, 3)
    x[:, 1:] = x[:, :-1]
    assert x.tolist() == [[0, 0, 1], [3, 3, 4]]
    x.t()[:2].add_(x.t()[1:])
    assert x.tolist() == [[0, 1, 1], [6, 7, 4]]


def test_an_operand_that_is_what_is_written_counts_as_modified():
    x = leaf(3) * 1
    x.mul_(x)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        x.sum().backward()


LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW = "a view of a leaf Variable that requires grad is being used in an in-place operation."
ONE_OF = "This view is the output of a function that returns multiple views."
MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


def saved_then_written():
    x = leaf(3) * 1
    y = x * x
    x[0].add_(1)
    y.sum().backward()


def result_then_written():
    y = leaf(3).exp()
    y[0] = 1
    y.sum().backward()


def one_of_several():
    (leaf(3, 2) * 1).unbind()[0].add_(1)


def used_after_its_base_was_written():
    x = leaf(3, 2) * 1
    first = x.split(1)[0]
    x.add_(1)
    return first * 2


def made_under_no_grad():
    x = leaf(3, 2) * 1
    with torch.no_grad():
        row = x[0]
    row.add_(1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: leaf(3).add_(1), LEAF),
        (lambda: leaf(3).zero_(), LEAF),
        (lambda: leaf(3).uniform_(), LEAF),
        (lambda: leaf(3)[0].add_(1), VIEW),
        (lambda: leaf(3).__setitem__(0, 1), VIEW),
        (lambda: leaf(3).__setitem__([0], 1), LEAF),
        (lambda: torch.zeros(1).expand(3).add_(1), "more than one element of the written-to tensor refers to a single"),
        (lambda: (leaf(3) * 1)[:2].detach_(), "Can't detach views in-place. Use detach() instead."),
        (
            lambda: torch.zeros(3).copy_(torch.zeros(2, 3)),
            "output with shape [3] doesn't match the broadcast shape [2, 3]",
        ),
        (saved_then_written, MODIFIED),
        (result_then_written, MODIFIED),
        (one_of_several, ONE_OF),
        (used_after_its_base_was_written, ONE_OF),
        (
            made_under_no_grad,
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled.",
        ),
    ],
)
def test_errors(call, words):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert words in str(caught.value)


def test_views_that_went_stale_do_not_hinder_later_writes():
    x = leaf(3, 2) * 1
    part = x.split(1)[0]
    x.add_(1)
    x.mul_(2)
    assert part.requires_grad and not part.is_leaf
    with pytest.raises(RuntimeError, match="Output 0 of Split is a view and its base or another view"):
        part.grad_fn


def test_parts_of_one_of_several_views_are_no_better():
    first = (leaf(3, 2) * 1).split(1)[0]
    with pytest.raises(RuntimeError, match="Output 0 of Select is a view and is being modified inplace"):
        first[0].add_(1)


def test_a_source_that_overlaps_without_gaps_is_refused():
    x = torch.arange(6.0)
    for write in (lambda: x[1:].copy_(x[:-1]), lambda: x[1:].add_(x[:-1]), lambda: x[1:].lerp_(x[:-1], 0.5)):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
            write()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_ops_computed_anew_take_a_place_in_history():
    x, y, fixed = leaf(3, 3), leaf(3, seed=1), leaf(3, 3, seed=2).detach()

    def function(x, y):
        z = x * 2
        z.cumsum_(0)
        z[1:].addmm_(x[1:].sin(), fixed)
        z[0].addmv_(fixed, y)
        z.t_().cumprod_(1)
        z.float_power_(2)
        return z

    assert gradcheck(function, (x, y))
    assert function(x, y).grad_fn.name() == "PowBackward0"


def test_comparisons_in_place_are_constant():
    x = leaf(3)
    z = (x * 1).gt_(0)
    assert z.grad_fn.name() == "GtBackward0"
    z.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_index_fill_with_a_tensor():
    x, y = leaf(3, 2), leaf(seed=1)
    assert gradcheck(lambda x, y: x.index_fill(0, torch.tensor([2, 0, 2]), y), (x, y))
    assert (x * 1).index_fill_(0, torch.tensor([1]), y).grad_fn.name() == "IndexFillBackward1"
