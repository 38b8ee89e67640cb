"""Elementwise ops of three operands and more: calls that find the plan of an earlier one."""

import numpy as np
import pytest

import jitgrad as torch


def test_plans_are_found_by_layouts_and_types_of_numbers():
    where, mask = torch.where, torch.tensor([True, False])
    x, whole = torch.tensor([1.0, 2.0]), torch.tensor([1, 2])
    for _ in range(2):
        assert where(mask, x, 0).tolist() == [1.0, 0.0]
        assert where(mask, 0, x).tolist() == [0.0, 2.0]
        assert where(mask, whole, 0.5).dtype is torch.float32
        assert where(mask, whole, 5).dtype is torch.int64
        assert where(mask, whole, True).tolist() == [1, 1]
        assert where(mask, 3, 4).tolist() == [3, 4]
        assert where(mask, whole, np.float64(0.5)).tolist() == [1.0, 0.5]


def test_numbers_of_a_later_call_count_not_those_of_the_first():
    x, y = torch.zeros(2), torch.ones(2)
    assert [torch.lerp(x, y, w).tolist()[0] for w in (0.25, 0.5, 0.75)] == [0.25, 0.5, 0.75]
    assert [torch.addcmul(x, y, y, value=v).tolist()[0] for v in (1, 2, 3)] == [1, 2, 3]
    assert torch.addcmul(x, y, y).tolist() == [1, 1]


@pytest.mark.parametrize("value", [1, 2.5])
def test_gradients_of_the_second_call_are_those_of_the_first(value):
    found = []
    for _ in range(2):
        tensors = [torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(3)]
        torch.addcmul(*tensors, value=value).sum().backward()
        found.append([t.grad.tolist() for t in tensors])
    assert found[0] == found[1] == [[1, 1], [value, 2 * value], [value, 2 * value]]


def test_some_operands_without_gradients():
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    for wanted in ((x, y), (y, x), (x, x)):
        x.grad = None
        torch.where(torch.tensor([True, False]), *wanted).sum().backward()
        assert x.grad.tolist() == [float(wanted[0] is x), float(wanted[1] is x)]


def test_parameters_and_batches_have_plans_of_their_own():
    weight = torch.nn.Parameter(torch.ones(2))
    mask = torch.tensor([True, False])
    for _ in range(2):
        assert torch.where(mask, weight, 0.0).grad_fn is not None
        batched = torch.vmap(lambda x: torch.where(mask, x, 0.0))(torch.ones(3, 2))
        assert batched.tolist() == [[1.0, 0.0]] * 3


def test_row_major_operands_of_strided_loops_have_their_numbers():
    rows, column = torch.arange(12.0).reshape(3, 4), torch.arange(3.0).reshape(3, 1)
    whole = rows.numpy()
    assert np.array_equal((rows * column).numpy(), whole * column.numpy())
    assert np.array_equal((rows[:, 1:] + column).numpy(), whole[:, 1:] + column.numpy())  # an offset and gaps
    assert np.array_equal((rows.t() - torch.arange(3.0)).numpy(), whole.T - np.arange(3))
    target = torch.zeros(3, 4)
    target[1:].add_(rows[0])
    assert target.tolist() == [[0.0] * 4, *[[0.0, 1.0, 2.0, 3.0]] * 2]
