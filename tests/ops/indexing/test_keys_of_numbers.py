"""Keys of tensors that are one number, and of lists of numbers; indices that don't lie row by row as int64."""

import numpy as np
import pytest

import jitgrad as torch

A = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
ONE, LAST = torch.tensor(1), torch.tensor(-1, dtype=torch.int32)
KEYS = {
    "a number": (ONE, 1),
    "of int32, from the end": (LAST, -1),
    "two": ((ONE, LAST), (1, -1)),
    "three": ((ONE, torch.tensor(2), torch.tensor(0)), (1, 2, 0)),
    "and an int": ((0, ONE), (0, 1)),
    "and a slice": ((slice(None), ONE), (slice(None), 1)),
    "and None": ((ONE, None), (1, None)),
    "in the middle": ((slice(None), ONE, slice(1, 3)), (slice(None), 1, slice(1, 3))),
    "a list": ([1, 0, -1], [1, 0, -1]),
    "two lists": (([1, 0], [2, 2]), ([1, 0], [2, 2])),
    "a list behind": ((slice(None), [2, 0]), (slice(None), [2, 0])),
    "a list and a number": ((ONE, [2, 0]), (1, [2, 0])),
    "a tensor and a number": ((torch.tensor([0, 1]), ONE), (np.array([0, 1]), 1)),
    "flags": ([True, False], [True, False]),
    "a flag": (torch.tensor(True), True),
}


@pytest.mark.parametrize("name", KEYS)
def test_read_and_written_as_numpy_does(name):
    key, same = KEYS[name]
    x = torch.from_numpy(A.copy())
    np.testing.assert_array_equal(x[key].numpy(), A[same])
    assert x[key].shape == A[same].shape
    x[key] = 7.0
    expected = A.copy()
    expected[same] = 7.0
    np.testing.assert_array_equal(x.numpy(), expected)


def test_numbers_select_views_that_are_recorded():
    x = torch.ones(3, 2, requires_grad=True)
    y = x[ONE]
    assert y.grad_fn.name() == "SelectBackward0" and y._is_view()
    (y.sum() + x[ONE, LAST] * 2 + x[[0, 0]].sum()).backward()
    assert x.grad.tolist() == [[2, 2], [1, 3], [0, 0]]
    z = torch.zeros(3)
    z[ONE].add_(5)
    assert z.tolist() == [0, 5, 0]


def test_numbers_out_of_bounds():
    x = torch.zeros(2, 3)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 2"):
        x[torch.tensor(3)]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
        x[0, torch.tensor(3)]
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[[0, 2]]
    with pytest.raises(IndexError, match="tensors used as indices must be long"):
        x[torch.tensor(1.0)]
    with pytest.raises(IndexError, match="too many indices"):
        x[0, ONE, ONE]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 1"):
        x[0][torch.tensor([0, 1]), :]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 1"):
        x[0][:, torch.tensor([0, 1])] = 1


def test_numbers_and_lists_in_transforms_and_compiled_functions():
    x = torch.from_numpy(A.copy())
    np.testing.assert_array_equal(torch.vmap(lambda t: t[ONE])(x).numpy(), A[:, 1])
    np.testing.assert_array_equal(torch.vmap(lambda t, i: t[i])(x, torch.tensor([0, 2])).numpy(), A[[0, 1], [0, 2]])
    np.testing.assert_array_equal(torch.vmap(lambda t: t[[2, 0]])(x).numpy(), A[:, [2, 0]])
    compiled = torch.compile(lambda t: t[[1, 0]][0] * 2 + t[1])
    for k in (0, 1, 1, 0):
        found = compiled(x + k)
        np.testing.assert_array_equal(found.numpy(), (A[1] + k) * 3)


ARRANGED = {
    "expanded": lambda i: i.view(-1, 1).expand(3, 4),
    "transposed": lambda i: i.repeat(4, 1).t(),
    "int32": lambda i: i.to(torch.int32).view(-1, 1).repeat(1, 4),
    "with gaps": lambda i: i.view(-1, 1).repeat(1, 8)[:, ::2],
}
OPS = {
    "gather": lambda x, i, s: x.gather(0, i),
    "scatter": lambda x, i, s: x.scatter(0, i, s),
    "scatter number": lambda x, i, s: x.scatter(0, i, 2.0),
    "scatter_add": lambda x, i, s: x.scatter_add(0, i, s),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
    "take_along_dim": lambda x, i, s: x.take_along_dim(i.long(), 0),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("arranged", ARRANGED)
def test_indices_in_other_orders_and_dtypes(name, arranged):
    if name == "scatter_reduce" and arranged == "int32":
        pytest.skip("PyTorch takes int64 alone")
    x, source = (torch.from_numpy(np.random.default_rng(k).standard_normal((5, 4)).astype("float32")) for k in (0, 1))
    source = source[:3]
    index = ARRANGED[arranged](torch.tensor([4, 0, 4]))
    plain = torch.tensor([4, 0, 4]).view(-1, 1).repeat(1, 4)
    for _ in range(2):  # planned, and by the plan
        if name in ("scatter", "scatter number"):
            index = ARRANGED[arranged](torch.tensor([4, 0, 1]))
            plain = torch.tensor([4, 0, 1]).view(-1, 1).repeat(1, 4)
        torch.testing.assert_close(OPS[name](x, index, source), OPS[name](x, plain, source))
        wrong = ARRANGED[arranged](torch.tensor([4, 5, 1]))
        if name == "take_along_dim":  # which counts on from the other end, as PyTorch's does
            continue
        with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
            OPS[name](x, wrong, source)
