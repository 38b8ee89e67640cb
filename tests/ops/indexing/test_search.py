"""searchsorted, bucketize and isin, distinct elements, choices and places, against NumPy."""

import itertools

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradgradcheck
from jitgrad.func import vmap

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_searchsorted(n, right):
    bounds = np.sort(RNG.integers(0, 20, n).astype(np.float64))
    values = np.array([-np.inf, *RNG.integers(-2, 22, 40), np.inf, np.nan, 3.5]).reshape(4, 11)
    expected = np.searchsorted(bounds, values, "right" if right else "left")
    b, v = torch.tensor(bounds), torch.tensor(values)
    for found in (
        torch.searchsorted(b, v, right=right), torch.searchsorted(b, v, side="right" if right else "left"),
        torch.bucketize(v, b, right=right), torch.searchsorted(b, v.t(), right=right, out_int32=True).t(),
        torch.searchsorted(b.expand(4, n), v, right=right), vmap(lambda v: torch.searchsorted(b, v, right=right))(v),
        torch.searchsorted(b.flip(0), v, right=right, sorter=torch.arange(n).flip(0)),
    ):  # fmt: skip
        np.testing.assert_array_equal(found.numpy(), expected)


def test_many_values_on_several_threads():
    bounds, values = np.sort(RNG.random((3, 50)), 1), RNG.random((3, 40_000))
    expected = [np.searchsorted(b, v) for b, v in zip(bounds, values, strict=True)]
    np.testing.assert_array_equal(torch.searchsorted(torch.tensor(bounds), torch.tensor(values)).numpy(), expected)


@pytest.mark.parametrize("m", [0, 1, 2, 60])
def test_isin(m):
    x, wanted = RNG.integers(0, 50, (6, 9)).astype(np.float64), RNG.integers(0, 50, m).astype(np.float64)
    for invert in (False, True):
        found = torch.isin(torch.tensor(x), torch.tensor(wanted), invert=invert)
        np.testing.assert_array_equal(found.numpy(), np.isin(x, wanted, invert=invert))
    x[0, 0] = np.nan
    assert not torch.isin(torch.tensor(x), torch.tensor([np.nan, *wanted]))[0, 0]


@pytest.mark.parametrize("dtype", ["bool", "int64", "float64"])
def test_unique(dtype):
    a = RNG.integers(0, 6, (5, 8)).astype(dtype)
    x = torch.tensor(a)
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    for found, expected in zip((values, inverse, counts), np.unique(a, False, True, True), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(x.t().unique().numpy(), np.unique(a))
    for d in (0, 1):
        slices = a.take([0, 1, 0, 2, 1], d)
        found = torch.tensor(slices).unique(return_inverse=True, return_counts=True, dim=d)
        for f, e in zip(found, np.unique(slices, False, True, True, d), strict=True):
            np.testing.assert_array_equal(f.numpy(), e)


def test_runs():
    x = torch.tensor([3, 3, 1, 1, 1, 3])
    found = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert [t.tolist() for t in found] == [[3, 1, 3], [0, 0, 1, 1, 1, 2], [2, 3, 1]]
    rows = torch.tensor([[1, 2], [1, 2], [0, 5], [1, 2]])
    assert rows.unique_consecutive(dim=0).tolist() == [[1, 2], [0, 5], [1, 2]]
    assert x[:0].unique_consecutive().tolist() == [] and x[:0].unique(return_counts=True)[1].tolist() == []


def test_many_elements_on_several_threads():
    a = RNG.integers(0, 1000, 100_000).astype(np.float64)
    np.testing.assert_array_equal(torch.tensor(a).unique().numpy(), np.unique(a))


@pytest.mark.filterwarnings("ignore:.*runs uncompiled")
def test_compiled_functions_end_where_a_shape_depends_on_values():
    f = torch.compile(lambda x: x.unique().sum() + x.bincount().numel())
    for values in ([1, 2, 2], [5, 0, 0], [3, 3, 3]):
        x = torch.tensor(values)
        assert f(x).item() == sum(set(values)) + max(values) + 1
    with pytest.raises(RuntimeError, match="dynamic shape"):
        vmap(torch.unique)(torch.ones(2, 3))


def test_places():
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    assert torch.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    f = torch.compile(lambda x: torch.nonzero_static(x, size=1) + 1)
    assert [f(x + k).tolist() for k in (0, 1, -2)] == [[[1, 2]], [[1, 1]], [[1, 1]]]
    places = torch.arange(24).view(4, 6)
    pairs = zip(torch.unravel_index(places, (2, 3, 4)), np.unravel_index(places, (2, 3, 4)), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("r", [1, 2, 3, 6])
def test_choices(r):
    x = torch.tensor([1.5, -2.0, 0.25, 4.0]).double().requires_grad_()
    for repeated, choose in ((False, itertools.combinations), (True, itertools.combinations_with_replacement)):
        found = torch.combinations(x, r, repeated)
        assert found.shape == (len(rows := [list(c) for c in choose(x.tolist(), r)]), r) and found.tolist() == rows
    none = torch.combinations(x[:1], r + 1)  # a result without elements is recorded, too
    assert none.shape == (0, r + 1) and torch.autograd.grad(none.sum(), x)[0].tolist() == [0] * 4
    grid = torch.cartesian_prod(x, x[:r])
    assert grid.tolist() == [list(p) for p in itertools.product(x.tolist(), x[:r].tolist())]


def test_blocks_and_parts():
    a, b = torch.tensor([[1.0, 2.0]]).double().requires_grad_(), torch.tensor([3.0]).double().requires_grad_()
    assert torch.block_diag(a, torch.tensor(4), b).tolist() == [[1, 2, 0, 0], [0, 0, 4, 0], [0, 0, 0, 3]]
    assert gradgradcheck(torch.block_diag, (a, b))
    x, src = torch.zeros(2, 3).double().requires_grad_(), torch.ones(2).double().requires_grad_()
    assert x.as_strided_scatter(src, (2,), (2,), 1).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert gradgradcheck(lambda x, s: x.as_strided_scatter(s, (2,), (2,), 1) ** 2, (x, src))
    chunks = torch._chunk_cat([torch.ones(3, 2), torch.ones(1, 2) * 2], 0, 2)
    assert chunks.tolist() == [[1, 1, 1, 1, 2, 2], [1, 1, 0, 0, 0, 0]]


def test_masked_indices():
    x, mask = torch.arange(4.0), torch.tensor([True, False, True])
    index = [torch.tensor([1, 99, -1])]
    assert torch._unsafe_masked_index(x, mask, index, 7).tolist() == [1, 7, 3]
    added = torch._unsafe_masked_index_put_accumulate(x, mask, index, torch.ones(3))
    assert added.tolist() == [0, 2, 2, 4]
    for dtype, title in ((torch.float32, "Float"), (torch.bool, "Bool"), (torch.uint8, "Byte")):
        with pytest.raises(RuntimeError, match=f"^_unsafe_masked_index found unexpected index type {title}$"):
            torch._unsafe_masked_index_put_accumulate(x, mask, [torch.ones(3, dtype=dtype)], torch.ones(3))


@pytest.mark.parametrize("call, node, op", [
    (lambda x: x.unique(), "Unique2Backward0", "_unique2"),
    (lambda x: x.unique(return_counts=True)[0], "Unique2Backward0", "_unique2"),
    (lambda x: x.unique(dim=0), "UniqueDimBackward0", "unique_dim"),
    (lambda x: x.unique_consecutive(), "UniqueConsecutiveBackward0", "unique_consecutive"),
    (lambda x: x.unique_consecutive(dim=0), "UniqueConsecutiveBackward0", "unique_consecutive"),
])  # fmt: skip
def test_distinct_elements_have_no_derivative_yet(call, node, op):
    x = torch.tensor([1.0, 2.0, 1.0])
    assert not call(x).requires_grad
    found = call(x.requires_grad_())
    assert found.grad_fn.name() == node and str(found).endswith(f"grad_fn=<{node}>)")
    with pytest.raises(NotImplementedError, match=f"the derivative for '{op}' is not implemented."):
        found.sum().backward()
    with torch.no_grad():
        assert not call(x).requires_grad
