"""Writes by indices into views whose elements share memory, and from the tensor that is written to."""

import numpy as np
import pytest

import jitgrad as torch

ROW, PLACES = torch.tensor([1]), torch.tensor([[0], [1], [2], [0]])
WRITES = {
    "index": (lambda w: w.__setitem__(ROW, 9.0), [0, 9, 9, 9, 4, 5]),
    "two indices": (lambda w: w.__setitem__((torch.tensor([0, 2]), torch.tensor([1, 1])), 9.0), [0, 9, 2, 9, 4, 5]),
    "mask": (lambda w: w.__setitem__(w > 3, -1.0), [0, 1, 2, 3, -1, -1]),
    "put_": (lambda w: w.put_(ROW, torch.tensor([9.0])), [0, 9, 2, 3, 4, 5]),
    "index_fill_": (lambda w: w.index_fill_(0, ROW, 7.0), [0, 7, 7, 7, 4, 5]),
    "index_copy_": (lambda w: w.index_copy_(0, ROW, torch.tensor([[7.0, 8, 9]])), [0, 7, 8, 9, 4, 5]),
    "index_add_": (lambda w: w.index_add_(0, ROW, torch.tensor([[7.0, 8, 9]])), [0, 8, 10, 12, 4, 5]),
    "scatter_": (lambda w: w.scatter_(1, PLACES, 50.0), [50, 1, 50, 50, 50, 5]),
}


@pytest.mark.parametrize("name", WRITES)
def test_windows(name):
    write, expected = WRITES[name]
    x = torch.arange(6.0)
    write(x.unfold(0, 3, 1))
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_tensor_is_not_written_to_from_itself():
    x = torch.arange(4.0)
    for values in (x, x[:], x.view(4)):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            x[torch.tensor([3, 2, 1, 0])] = values
    assert x.tolist() == [0, 1, 2, 3]


def test_strides_of_parts_of_a_new_dim():
    x = torch.zeros(4, 4).unsqueeze(0)
    assert (x[..., 1].stride(), x[:, 1].stride()) == ((16, 4), (16, 1))


def test_a_number_in_a_part_is_one_write():
    x = torch.zeros(3, 4)
    x[1], x[:, 2], x[0, 0], x[1:3, ::2] = 1, 2.0, True, 3
    assert x._version == 4 and x.tolist() == [[1, 0, 2, 0], [3, 1, 3, 1], [3, 0, 3, 0]]
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.zeros(1, 3).expand(2, 3)[:, 1] = 1.0
    with torch.inference_mode():
        y = torch.zeros(3)
    with pytest.raises(RuntimeError, match="inference tensor"):
        y[0] = 1.0


def test_a_hessian_through_a_mask():
    def f(y):
        r = y * 1
        r[y > 0] = 0.5
        return (r * r * y).sum()

    found = torch.func.hessian(f)(torch.tensor([1.0, -2.0, 3.0]))
    np.testing.assert_array_equal(found.numpy(), np.diag([0.0, -12, 0]))
