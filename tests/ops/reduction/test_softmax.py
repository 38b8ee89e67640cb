"""Softmax, log-softmax and logsumexp against SciPy: values, extremes, layouts, gradients, errors."""

import numpy as np
import pytest
from scipy import special

import jitgrad as torch

RNG = np.random.default_rng(0)
INF = float("inf")
BOTH = {"softmax": special.softmax, "log_softmax": special.log_softmax}


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (4, 1, 3), (2, 200), (200, 2), (3, 70, 2)])
@pytest.mark.parametrize("name", BOTH)
def test_values_along_every_dim(name, shape):
    a = RNG.uniform(-5, 5, shape)
    for dtype, tolerance in (("float64", 1e-13), ("float32", 3e-6)):
        t = torch.tensor(a.astype(dtype))
        for d in range(-len(shape), len(shape)):
            expected = BOTH[name](a, axis=d)
            for view in (t, t.t().t() if t.ndim == 2 else t, t.transpose(0, -1).contiguous().transpose(0, -1)):
                result = getattr(view, name)(d)
                assert result.dtype is t.dtype and result.is_contiguous()
                np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_and_infinite_elements(dtype):
    x = torch.tensor([[1e4, 0.0, -1e4], [-INF, 0.0, 0.0], [3e38, 3e38, -3e38]], dtype=dtype)
    assert x.softmax(1).tolist() == [[1, 0, 0], [0, 0.5, 0.5], [0.5, 0.5, 0]]
    logs = x.log_softmax(1)
    assert logs[0].tolist() == [0, -1e4, -2e4] and logs[1, 0].item() == -INF
    for row in ([-INF, -INF], [INF, 0.0], [np.nan, 1.0]):
        for f in (torch.softmax, torch.log_softmax):
            assert f(torch.tensor(row, dtype=dtype), 0).isnan().all().item()
            assert f(torch.tensor([row, row], dtype=dtype), 1).isnan().all().item()
            assert f(torch.tensor([row, row], dtype=dtype).t(), 0).isnan().all().item()
    assert x.softmax(0).sum(0).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("dtype", "offset"), [(torch.float32, 1e7), (torch.float64, 2.0**50)])
def test_elements_that_are_all_large_keep_their_differences(dtype, offset):
    x = torch.tensor([[1, 5, 40, 47, 47], [3, 3, 2, 1, 0]], dtype=dtype)
    large, wanted = x + offset, special.log_softmax(x.numpy(), 1)
    for logs in (
        large.log_softmax(1), large.t().contiguous().log_softmax(0).t(),
        large.repeat(1, 9)[:, :5].log_softmax(1),
    ):
        np.testing.assert_allclose(logs.numpy(), wanted, rtol=1e-6)
    loss = torch.nn.functional.cross_entropy(large, torch.tensor([0, 1]))
    np.testing.assert_allclose(loss.item(), -(wanted[0, 0] + wanted[1, 1]) / 2, rtol=1e-6)


def test_logsumexp_of_infinities():
    rows = torch.tensor([[-INF, -INF], [INF, 0.0], [INF, -INF], [np.nan, 0.0], [1e4, 1e4]], dtype=torch.float64)
    expected = [-INF, INF, INF, np.nan, 1e4 + np.log(2)]
    np.testing.assert_allclose(rows.logsumexp(1).numpy(), expected)
    np.testing.assert_allclose(rows.t().contiguous().logsumexp(0).numpy(), expected)
    assert rows.logsumexp((0, 1)).shape == () and torch.tensor([1, 2]).logsumexp(0).dtype is torch.float32


def test_tiny_probabilities_are_kept_below_the_smallest_normal_number():
    x = torch.tensor([0.0, -87.0, -95.0, -200.0])
    p = x.softmax(0)
    assert p[1].item() == pytest.approx(np.exp(-87.0), rel=1e-6)
    assert p[2].item() == pytest.approx(np.exp(-95.0), rel=1e-2) and p[3].item() == 0  # a denormal has few digits
    p = torch.tensor([0.0, -700.0, -720.0], dtype=torch.float64).softmax(0)
    assert p[1].item() == pytest.approx(np.exp(-700.0))


@pytest.mark.parametrize("shape", [(600, 512), (4, 300, 256)])
def test_threads_share_rows(shape):
    a = RNG.standard_normal(shape).astype(np.float32)
    t = torch.tensor(a, requires_grad=True)
    for name, reference in BOTH.items():
        result = getattr(t, name)(1)
        np.testing.assert_allclose(result.detach().numpy(), reference(a, axis=1), atol=1e-5)
        g = torch.tensor(RNG.standard_normal(shape).astype(np.float32))
        (fast,) = torch.autograd.grad(result, t, g)
        (slow,) = torch.autograd.grad(getattr(t, name)(1), t, g, create_graph=True)
        np.testing.assert_allclose(fast.numpy(), slow.detach().numpy(), atol=1e-4)


def test_gradient_arrives_expanded_or_strided():
    x = torch.tensor(RNG.standard_normal((3, 4)), requires_grad=True)
    wide = torch.tensor(RNG.standard_normal((3, 8)))
    for g in (torch.ones((), dtype=torch.float64).expand(3, 4), wide[:, ::2], wide.t()[:4].t()):
        (fast,) = torch.autograd.grad(x.log_softmax(1), x, g)
        (slow,) = torch.autograd.grad(x.log_softmax(1), x, g.contiguous(), create_graph=True)
        np.testing.assert_allclose(fast.numpy(), slow.detach().numpy(), atol=1e-12)


def test_dtype_casts_first_and_names():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.softmax(0, dtype=torch.float64)
    assert y.dtype is torch.float64 and y.grad_fn.name() == "SoftmaxBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "ToCopyBackward0"
    assert x.log_softmax(0).grad_fn.name() == "LogSoftmaxBackward0"
    assert x.logsumexp(0).grad_fn.name() == "LogsumexpBackward0"
    assert torch.tensor([1, 2]).softmax(0, dtype=torch.float32).sum().item() == pytest.approx(1)
    y.sum().backward()
    assert x.grad.dtype is torch.float32


def test_errors():
    x = torch.ones(2, 3)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.softmax(2)
    with pytest.raises(TypeError, match='softmax\\(\\) missing 1 required positional arguments: "dim"'):
        x.softmax()
    with pytest.raises(TypeError, match="argument 'dim' \\(position 1\\) must be int, not str"):
        x.softmax("rows")
    with pytest.raises(NotImplementedError, match="\"softmax_kernel_impl\" not implemented for 'Long'"):
        x.long().softmax(0)
    with pytest.raises(NotImplementedError, match="\"log_softmax_lastdim_kernel_impl\" not implemented for 'Int'"):
        x.int().log_softmax(1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(("shape", "dim"), [((0,), 1), ((0,), -2), ((0, 3), 2)])
def test_a_dim_out_of_range_of_what_is_empty(name, shape, dim):
    with pytest.raises(IndexError, match="Dimension out of range"):
        getattr(torch, name)(torch.ones(shape), dim)
