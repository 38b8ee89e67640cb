"""Planned ops: what layouts and arguments decide is worked out once, and calls of other forms come to the same."""

import pytest

import jitgrad as torch
from jitgrad.dispatch.structured import Structured
from jitgrad.func import jvp, vmap
from jitgrad.ops.shape.copy import Clone
from jitgrad.ops.shape.permute import Transpose
from jitgrad.ops.shape.slicing import Select, Slice

planned = []


class Scaled(Structured, listed=False):
    """x * scale, of which the plan does not know the scale."""

    values = ("scale",)

    def plan(x_layout, dim):
        planned.append((x_layout.shape, dim))
        return lambda x, scale: Clone.forward(x).mul_(scale)

    def grad_x(g, scale):
        return g * scale


def test_a_plan_is_made_once_for_equal_layouts_and_arguments():
    planned.clear()
    x, y = torch.ones(3, requires_grad=True), torch.ones(2, 3)
    for scale in (2.0, 3.0):
        for dim in (0, 1):
            assert Scaled.apply(x, dim, scale).tolist() == [scale] * 3
            assert Scaled.apply(y, dim=dim, scale=scale)[1, 2] == scale
    assert sorted(planned) == [((2, 3), 0), ((2, 3), 1), ((3,), 0), ((3,), 1)]
    Scaled.apply(x, 0, 5.0).sum().backward()
    assert x.grad.tolist() == [5.0] * 3
    assert Scaled.parameters == ("x", "dim", "scale")


def test_equal_arguments_of_another_type_are_no_argument_of_a_plan():
    x = torch.ones(2, 3)
    assert x.transpose(0, 1).shape == (3, 2) and x.unsqueeze(1).shape == (2, 1, 3) and x.select(1, 1).shape == (2,)
    for call in (lambda: x.transpose(0, True), lambda: x.unsqueeze(1.0), lambda: x.select(True, 1),
                 lambda: x.select(1, True), lambda: torch.cat([x, x], True)):  # fmt: skip
        torch.cat([x, x], 1)
        with pytest.raises(TypeError):
            call()


def test_calls_of_other_forms_find_the_same_plan():
    x = torch.arange(6.0).reshape(2, 3)
    Transpose.plans.clear()
    for y in (x.transpose(0, 1), torch.transpose(x, dim0=0, dim1=1), torch.swapaxes(input=x, axis0=0, axis1=1)):
        assert y.tolist() == x.t().tolist() and y._base is x._base
    assert len(Transpose.plans) == 1


def test_errors_of_planned_ops_have_no_look_up_behind_them():
    x = torch.ones(2, 3)
    for call in (lambda: x.select(0, 5), lambda: torch.transpose(x, 0), lambda: x.unsqueeze(7), lambda: x[0, 9]):
        with pytest.raises((IndexError, TypeError)) as caught:
            call()
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_windows_and_rows_of_a_tensor_share_a_plan():
    x = torch.arange(40.0)
    before = len(Slice.plans), len(Select.plans)
    assert [x[k : k + 4].sum().item() for k in range(30)] == [4.0 * k + 6 for k in range(30)]
    assert [x[k].item() for k in range(30)] == [float(k) for k in range(30)]
    assert len(Slice.plans) <= before[0] + 1 and len(Select.plans) <= before[1] + 1


def test_planned_views_have_their_bases_versions_and_histories():
    x = torch.zeros(3, 4, requires_grad=True)
    y = x * 1
    views = [y.t(), y[1], y[1:], y.reshape(12), y.unsqueeze(0), y.expand(2, 3, 4), y.select(1, 2), y.diagonal()]
    assert all(v._base is y for v in views)
    version = y._version
    views[1].add_(1)
    assert all(v._version == version + 1 for v in (y, *views))
    assert type(views[0].grad_fn).__name__ == "AsStridedBackward0" and y[1].tolist() == [1.0] * 4
    with torch.no_grad():
        assert y.t()._view_kind == "no_grad"


@pytest.mark.parametrize("view", [
    lambda x: x[1], lambda x: x[-1:], lambda x: x[:, ::2], lambda x: x.t(), lambda x: x.unsqueeze(1), lambda x: x[1, 2],
    lambda x: torch.stack([x[0], x[1] * 2]), lambda x: torch.cat([x, x * 3], 1), lambda x: x[torch.tensor([1, 0, 1])],
    lambda x: x.index_select(1, torch.tensor([2, 0])), lambda x: x.gather(1, torch.tensor([[0, 1], [2, 2]])),
    lambda x: torch.stack(x.unbind(1)), lambda x: torch.cat(x.split([2, 1], 1)[::-1], 1),
])  # fmt: skip
def test_transforms_of_planned_ops(view):
    x = torch.arange(6.0).reshape(2, 3)
    batch, v = torch.stack([x, x + 1]), torch.ones(2, 3)
    view(x)  # planned for plain tensors first
    each = vmap(view)(batch)
    assert all(each[k].tolist() == view(batch[k]).tolist() for k in range(2))
    assert jvp(view, (x,), (v,))[1].tolist() == view(v).tolist()
    leaf = x.clone().requires_grad_()
    out = view(leaf)
    (gradient,) = torch.autograd.grad(out, leaf, torch.ones_like(out), create_graph=True)
    (kernel,) = torch.autograd.grad(view(leaf), leaf, torch.ones_like(out))
    assert gradient.tolist() == kernel.tolist()


def test_small_tensors_with_bits_are_joined():
    c = torch.tensor([1 + 2j, 3 - 1j])
    assert torch.stack([c[0].conj(), c[1]]).tolist() == [1 - 2j, 3 - 1j]
    assert torch.cat([c.conj().imag, c.real]).tolist() == [-2.0, 1.0, 1.0, 3.0]
    assert torch.stack([c.conj(), c], 1).tolist() == [[1 - 2j, 1 + 2j], [3 + 1j, 3 - 1j]]


def test_an_index_is_checked_at_each_call_of_a_plan():
    x = torch.arange(6.0).reshape(2, 3)
    for index, wanted in (([0, 1], None), ([0, 2], IndexError), ([-1, 1], None), ([0, -3], IndexError)):
        if wanted is None:
            assert x[torch.tensor(index)].shape == (2, 3)
        else:
            with pytest.raises(wanted, match="out of bounds for dimension 0 with size 2"):
                x[torch.tensor(index)]
    assert x.index_select(0, torch.tensor([1, 0])).tolist() == [[3, 4, 5], [0, 1, 2]]
    for bad in ([1, 2], [-1, 0]):
        with pytest.raises(IndexError, match="index out of range in self"):
            x.index_select(0, torch.tensor(bad))
        with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 2"):
            x.gather(0, torch.tensor([[*bad, 0]]))


def test_tensors_as_sizes_are_read_in_each_call():
    """A plan must not be kept under a tensor, whose number may be another one in the next call."""
    x, k = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.tensor(0)
    for op in (lambda n: x.tril(n), lambda n: x.topk(n).values, lambda n: x.diag(n)):
        for n in (1, 0, 1):
            assert op(k.fill_(n)).equal(op(n))
