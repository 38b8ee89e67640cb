"""Histograms, quantiles, running extrema, differences and integrals, against NumPy."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.func import jvp, vmap

RNG = np.random.default_rng(0)
NAN, INF = float("nan"), float("inf")


def test_bincount():
    a, w = RNG.integers(0, 9, 50), RNG.random(50)
    np.testing.assert_array_equal(torch.tensor(a).bincount(minlength=12).numpy(), np.bincount(a, minlength=12))
    found = torch.tensor(a).bincount(torch.tensor(w))
    np.testing.assert_allclose(found.numpy(), np.bincount(a, w))
    assert torch.tensor(a).bincount(torch.tensor(w).float()).dtype is torch.float32
    assert torch.tensor([1, 1]).bincount(torch.tensor([1, 2])).dtype is torch.float64


@pytest.mark.parametrize("size", [1, 50, 5000])
@pytest.mark.parametrize("most", [5, 255, 256, 1000])
def test_bincount_of_few_and_many(size, most):
    a = np.append(RNG.integers(0, most, size), most)
    for least in (0, 300):
        expected = np.bincount(a, minlength=least)
        for values in (torch.tensor(a), torch.tensor(np.repeat(a, 2))[::2], torch.tensor(a.astype(np.int16))):
            np.testing.assert_array_equal(values.bincount(minlength=least).numpy(), expected)
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.tensor(np.append(a, -1)).bincount()


@pytest.mark.parametrize("bins", [1, 7])
def test_histograms(bins):
    a, w = RNG.standard_normal(200), RNG.random(200)
    x = torch.tensor(a)
    np.testing.assert_array_equal(x.histc(bins).numpy(), np.histogram(a, bins)[0])
    np.testing.assert_array_equal(x.histc(bins, -1, 0.5).numpy(), np.histogram(a, bins, (-1, 0.5))[0])
    for range_ in (None, (-1.0, 0.5)):
        found = x.histogram(bins, range=range_, weight=torch.tensor(w), density=True)
        for f, e in zip(found, np.histogram(a, bins, range_, True, w), strict=True):
            np.testing.assert_allclose(f.numpy(), e)
    edges = np.array([-1.0, -0.5, 0.25, 2.0])
    np.testing.assert_array_equal(x.histogram(torch.tensor(edges)).hist.numpy(), np.histogram(a, edges)[0])
    points = RNG.random((50, 2))
    found, sides = torch.histogramdd(torch.tensor(points), [bins, 3])
    expected, expected_sides = np.histogramdd(points, [bins, 3])
    np.testing.assert_array_equal(found.numpy(), expected)
    for f, e in zip(sides, expected_sides, strict=True):
        np.testing.assert_allclose(f.numpy(), e)


def test_histc_of_other_values_when_compiled():
    f = torch.compile(lambda x: x.histc(4))
    for _ in range(3):
        a = RNG.random(9)
        np.testing.assert_array_equal(f(torch.tensor(a)).numpy(), np.histogram(a, 4)[0])
    with pytest.raises(RuntimeError, match="is not finite"):
        f(torch.tensor([0.0, INF] * 4 + [1.0]).double())


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile(interpolation):
    a, q = RNG.standard_normal((5, 6)), np.array([0.0, 0.31, 0.5, 1.0])
    x = torch.tensor(a)
    for dim in (None, 0, 1):
        for keepdim in (False, True):
            found = x.quantile(torch.tensor(q), dim, keepdim, interpolation=interpolation)
            expected = np.quantile(a, q, dim, method=interpolation, keepdims=keepdim)
            np.testing.assert_allclose(found.numpy(), expected)
    a[1, 2] = a[3, 3] = NAN
    x = torch.tensor(a)
    found = x.nanquantile(0.3, 1, interpolation=interpolation)
    np.testing.assert_allclose(found.numpy(), np.nanquantile(a, 0.3, 1, method=interpolation))
    assert np.isnan(x.quantile(0.3, 1).numpy()).tolist() == [False, True, False, True, False]
    rows = vmap(lambda r: r.nanquantile(0.3, interpolation=interpolation))(x)
    np.testing.assert_allclose(rows.numpy(), found.numpy())


def test_gradients_of_quantiles():
    x, q = torch.tensor(RNG.standard_normal((3, 4))).requires_grad_(), torch.tensor([0.2, 0.7]).double()
    assert gradgradcheck(lambda x, q: x.quantile(q, 1), (x, q.requires_grad_()))
    _, tangent = jvp(lambda x: x.quantile(0.5, 1), (x.detach(),), (torch.ones(3, 4).double(),))
    np.testing.assert_allclose(tangent.numpy(), np.ones(3))


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool"])
def test_running_extrema(dtype):
    a = RNG.integers(0, 5, (4, 6, 3)).astype(dtype)
    x = torch.tensor(a)
    for d in range(3):
        for op, ufunc in (("cummax", np.maximum), ("cummin", np.minimum)):
            values, indices = getattr(x, op)(d)
            np.testing.assert_array_equal(values.numpy(), ufunc.accumulate(a, d))
            np.testing.assert_array_equal(x.gather(d, indices).numpy(), values.numpy())
    values, indices = torch.tensor([1.0, NAN, 2.0, NAN]).cummax(0)
    assert indices.tolist() == [0, 1, 1, 3] and torch.tensor([2, 2, 1, 2]).cummax(0).indices.tolist() == [0, 1, 1, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tangents_of_logcumsumexp_of_large_numbers(dtype):
    """They are means of the tangents, which logarithms added to large numbers lose."""
    x, t = torch.tensor([9984.0, 9984.0, 9984.0], dtype=dtype), torch.tensor([3.0, -2.0, 0.5], dtype=dtype)
    tangent = torch.func.jvp(lambda v: v.logcumsumexp(0), (x,), (t,))[1]
    assert tangent.dtype is dtype
    rtol = 1e-2 if dtype is torch.bfloat16 else 1e-5
    np.testing.assert_allclose(tangent.float().numpy(), [3.0, 0.5, 0.5], rtol=rtol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_tangents_of_logcumsumexp_of_no_more_than_zeros_are_zeros(dtype):
    x, t = torch.tensor([-INF, -INF, 1.0, 2.0], dtype=dtype), torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=dtype)
    tangent = torch.func.jvp(lambda v: v.logcumsumexp(0), (x,), (t,))[1]
    share = np.exp(1) / (1 + np.exp(1))
    np.testing.assert_allclose(tangent.numpy(), [0, 0, 3, 3 + share], rtol=1e-6)


def test_logcumsumexp():
    a = RNG.standard_normal((3, 5)) * 400
    x = torch.tensor(a)
    for d, t, n in ((1, x, a), (0, x, a), (0, x.t(), a.T)):
        np.testing.assert_allclose(t.logcumsumexp(d).numpy(), np.logaddexp.accumulate(n, d))
    special = torch.tensor([-INF, -INF, 1.0, INF, 2.0, NAN, 1.0]).logcumsumexp(0)
    np.testing.assert_allclose(special.numpy(), [-INF, -INF, 1, INF, INF, NAN, NAN])
    small = (x / 400).requires_grad_()
    assert gradgradcheck(lambda x: x.logcumsumexp(1), (small,))
    z = torch.complex(small.detach(), small.detach().flip(1)).requires_grad_()
    assert gradcheck(lambda z: z.logcumsumexp(0), (z,))
    np.testing.assert_allclose(z.logcumsumexp(1).exp().detach().numpy(), np.cumsum(np.exp(z.detach().numpy()), 1))


def test_mode_and_medians():
    a = RNG.integers(0, 3, (6, 20))
    values, indices = torch.tensor(a).mode(1)
    np.testing.assert_array_equal(values.numpy(), [np.bincount(r).argmax() for r in a])
    np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy()[:, None], 1)[:, 0], values.numpy())
    x = torch.tensor([[NAN, 1.0, 3.0, 2.0], [NAN, NAN, NAN, NAN], [4.0, 3.0, 2.0, 1.0]])
    np.testing.assert_array_equal(x.nanmedian(1).values.numpy(), [2, NAN, 2])
    assert x.median(1).indices.tolist() == [0, 0, 2] and x.nanmedian(1).indices.tolist() == [3, 0, 2]


def test_differences():
    a = RNG.standard_normal((4, 5))
    x = torch.tensor(a).requires_grad_()
    for n, d in ((1, 0), (2, 1), (3, -1)):
        np.testing.assert_allclose(x.diff(n, d).detach().numpy(), np.diff(a, n, d))
    np.testing.assert_allclose(x.diff(prepend=x[:, :1]).detach().numpy(), np.diff(a, prepend=a[:, :1]))
    assert gradgradcheck(lambda x: x.diff(2) ** 2, (x,))


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient(edge_order):
    a, places = RNG.standard_normal((4, 5)), [np.array([0.0, 1, 3, 4]), np.array([-1.0, 0, 2, 2.5, 6])]
    for spacing, given in ((None, []), (2.0, [2.0]), ([2.0, 3.0], [2.0, 3.0]), ([*map(torch.tensor, places)], places)):
        found = torch.gradient(torch.tensor(a), spacing=spacing, edge_order=edge_order)
        for f, e in zip(found, np.gradient(a, *given, edge_order=edge_order), strict=True):
            np.testing.assert_allclose(f.numpy(), e)


def test_integrals():
    y, x = RNG.random((3, 4)), np.sort(RNG.random(4))
    t, s = torch.tensor(y).requires_grad_(), torch.tensor(x).requires_grad_()
    np.testing.assert_allclose(torch.trapezoid(t, s).detach().numpy(), np.trapezoid(y, x))
    np.testing.assert_allclose(torch.trapz(t, dx=0.5, dim=0).detach().numpy(), np.trapezoid(y, dx=0.5, axis=0))
    parts = torch.cumulative_trapezoid(t, s)
    np.testing.assert_allclose(parts[:, -1].detach().numpy(), np.trapezoid(y, x))
    assert gradgradcheck(torch.cumulative_trapezoid, (t, s))


def test_bounds_of_histc_are_looked_at_before_the_dtype():
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(torch.tensor([1, 2]), bins=4, min=5, max=1)


@pytest.mark.parametrize("op", [torch.quantile, torch.nanquantile])
def test_quantiles_are_written_in_their_own_dtype_only(op):
    out = torch.empty((), dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"quantile\(\) out tensor must be same dtype as the input tensor"):
        op(torch.tensor([1.0]), 0.5, out=out)


def test_a_number_as_range_of_histograms():
    with pytest.raises(TypeError, match=r"^histogramdd\(\) received an invalid combination of arguments"):
        torch.histogramdd(torch.ones(5, 2), [1, 1], 7)
