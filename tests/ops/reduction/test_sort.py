"""Sorting and what is chosen by rank, against NumPy."""

import numpy as np
import pytest

import jitgrad as torch

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(dtype, descending):
    a = RNG.integers(0, 4, (6, 7, 3)).astype(dtype)
    for t, n in ((torch.tensor(a), a), (torch.tensor(a).permute(2, 0, 1), a.transpose(2, 0, 1))):
        for d in range(-3, 3):
            values, indices = t.sort(d, descending)
            keys = -n.astype(float) if descending else n.astype(float)
            order = np.argsort(keys, axis=d, kind="stable")
            np.testing.assert_array_equal(indices.numpy(), order)
            np.testing.assert_array_equal(values.numpy(), np.take_along_axis(n, order, d))
            np.testing.assert_array_equal(t.argsort(d, descending).numpy(), order)


def test_nan_is_largest():
    x = torch.tensor([2.0, float("nan"), -1.0, float("inf")])
    assert x.argsort().tolist() == [2, 0, 3, 1] and x.argsort(descending=True).tolist() == [1, 3, 0, 2]
    assert x.topk(2).indices.tolist() == [1, 3] and x.topk(1, largest=False).values.tolist() == [-1]
    assert np.isnan(x.median().item()) and x.median(0).indices.item() == 1


@pytest.mark.parametrize("k", [0, 1, 3, 70, 200])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(k, largest):
    a = RNG.permutation(600).reshape(3, 200).astype(np.float32)
    values, indices = torch.tensor(a).topk(k, largest=largest)
    expected = np.sort(a, 1)[:, ::-1][:, :k] if largest else np.sort(a, 1)[:, :k]
    np.testing.assert_array_equal(values.numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), 1), expected)
    values, indices = torch.tensor(a.T.copy()).topk(k, 0, largest)
    np.testing.assert_array_equal(values.numpy(), expected.T)


def test_median_and_kthvalue():
    a = RNG.standard_normal((4, 6))
    t = torch.tensor(a)
    lower = np.sort(a, 1)[:, 2]
    np.testing.assert_array_equal(t.median(1).values.numpy(), lower)
    np.testing.assert_array_equal(np.take_along_axis(a, t.median(1, True).indices.numpy(), 1)[:, 0], lower)
    np.testing.assert_array_equal(t.kthvalue(3).values.numpy(), lower)
    assert t.median().item() == np.sort(a.ravel())[11]


def test_gradients_go_back_to_where_elements_came_from():
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    weights = torch.tensor([10.0, 20.0, 30.0])
    (g,) = torch.autograd.grad(x.sort().values, x, weights)
    assert g.tolist() == [30, 10, 20]
    (g,) = torch.autograd.grad(x.topk(2).values, x, weights[:2])
    assert g.tolist() == [10, 0, 20]
    (g,) = torch.autograd.grad(x.median(), x)
    assert g.tolist() == [0, 0, 1]


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("choose", [lambda x, d: x.sort(d), lambda x, d: x.topk(2, d), lambda x, d: x.topk(0, d)])
def test_gradients_along_any_dim_are_those_of_the_rule(choose, dim):
    x = torch.tensor(RNG.standard_normal((3, 4, 2)).transpose(1, 0, 2), requires_grad=True)
    values, _ = choose(x, dim)
    g = torch.tensor(RNG.standard_normal(tuple(values.shape)), requires_grad=True)
    (by_kernel,) = torch.autograd.grad(values, x, g.detach(), retain_graph=True)
    (by_rule,) = torch.autograd.grad(values, x, g, create_graph=True)
    np.testing.assert_array_equal(by_kernel.numpy(), by_rule.detach().numpy())


def test_names_and_numbers():
    x = torch.tensor(2.0, requires_grad=True)
    assert x.sort().values.item() == 2 and x.sort().indices.item() == 0
    row = torch.tensor([2.0, 1.0], requires_grad=True)
    assert row.sort().values.grad_fn.name() == "SortBackward0"
    assert row.sort(stable=True).values.grad_fn.name() == "SortBackward1"
    assert row.topk(1).values.grad_fn.name() == "TopkBackward0"


def test_errors():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        x.topk(4)
    with pytest.raises(RuntimeError, match="topk does not support bool dtypes on CPU"):
        x.bool().topk(1)
    with pytest.raises(RuntimeError, match="Sort does not support complex dtypes on CPU"):
        x.to(torch.complex64).sort()
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.sort(2)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        x.bool().median()


def hard_rows(dtype, rows, n):
    """Rows with what is hard to order: many equal elements, or 64-bit numbers that differ in their last bits only."""
    if dtype == "close":
        return 1 + RNG.integers(0, 5 * n, (rows, n)) * 2.0**-52
    a = RNG.integers(-3, 4, (rows, n)).astype(dtype)
    if a.dtype.kind == "f":
        a[a == 3], a[a == 2] = np.nan, np.inf
        a[(a == 0) & (RNG.random(a.shape) < 0.5)] = -0.0
    else:
        a[a == 3], a[a == -3] = np.iinfo(dtype).max, np.iinfo(dtype).min
    return a


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "close"])
@pytest.mark.parametrize(("rows", "n"), [(300, 9), (1, 64), (3, 100), (64, 4200), (1, 270_001)])
def test_sort_is_stable_on_any_number_of_threads(dtype, rows, n):
    a, before = hard_rows(dtype, rows, n), torch.get_num_threads()
    want = np.argsort(a, axis=1, kind="stable")
    falling = n - 1 - np.argsort(a[:, ::-1], axis=1, kind="stable")[:, ::-1]
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for descending, order in ((False, want), (True, falling)):
                values, index = torch.tensor(a).sort(1, descending)
                np.testing.assert_array_equal(index.numpy(), order)
                np.testing.assert_array_equal(values.numpy(), np.take_along_axis(a, order, 1))
                assert (np.signbit(values.numpy()) == np.signbit(np.take_along_axis(a, order, 1))).all()
    finally:
        torch.set_num_threads(before)
