"""Gamma and Dirichlet numbers: those of a seed that PyTorch's have too, derivatives, vmap, errors."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels.elementwise.declaration import TABLE


def t(values, grad=False):
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


def test_numbers_of_a_seed():
    # PyTorch 2.13's numbers; a shape of 0 draws nothing, and NaN, which is never refused, is the smallest number.
    torch.manual_seed(0)
    drawn = torch._standard_gamma(torch.tensor([-1.0, -1.0, 2.0]))
    np.testing.assert_allclose(drawn.tolist(), [1.1754944e-38, 1.1754944e-38, 2.2434974], rtol=1e-6)
    torch.manual_seed(0)
    assert torch._standard_gamma(t([0.0, 0.0, 2.0])).tolist()[2] == pytest.approx(4.552622805135891, rel=1e-12)
    torch.manual_seed(0)
    assert torch._standard_gamma(t([float("nan"), float("inf"), 2.0])).tolist()[1:] == \
        [float("inf"), pytest.approx(0.6220217673923496, rel=1e-12)]  # fmt: skip
    torch.manual_seed(0)
    drawn = torch._sample_dirichlet(torch.tensor([-1.0, -1.0, 2.0]))
    np.testing.assert_allclose(drawn.tolist(), [1.1754944e-38, 1.1754944e-38, 0.99999994], rtol=1e-6)


def test_derivatives():
    """Of all expansions: small and large shapes, numbers close to the ends, close to the mean and far from it."""
    rng = np.random.default_rng(0)
    shapes = np.exp(rng.uniform(-4, 5, 400))
    x = rng.gamma(shapes) + 1e-12
    wanted = TABLE["standard_gamma_grad"].reference(shapes, x)
    np.testing.assert_allclose(torch._standard_gamma_grad(t(shapes), t(x)).numpy(), wanted, rtol=2e-3)
    other = np.exp(rng.uniform(-4, 5, 400))
    x = rng.beta(shapes, other)
    usual = (x > 1e-12) & (x < 1 - 1e-3)
    x, shapes, total = x[usual], shapes[usual], (shapes + other)[usual]
    wanted = TABLE["dirichlet_grad"].reference(x, shapes, total)
    np.testing.assert_allclose(torch._dirichlet_grad(t(x), t(shapes), t(total)).numpy(), wanted, rtol=2e-2)


def test_there_is_one_derivative():
    a = t([0.5, 2.0], grad=True)
    drawn = torch._standard_gamma(a)
    (g,) = torch.autograd.grad(drawn.sum(), a, create_graph=True)
    assert g.equal(torch._standard_gamma_grad(a.detach(), drawn.detach()))
    with pytest.raises(NotImplementedError, match="derivative for '_standard_gamma_grad' is not implemented"):
        g.sum().backward()
    with pytest.raises(RuntimeError, match="derivative for aten::_sample_dirichlet is not implemented"):
        torch._sample_dirichlet(a).sum().backward()
    with pytest.raises(RuntimeError, match="derivative for aten::_dirichlet_grad is not implemented"):
        torch._dirichlet_grad(a.detach() / 3, a, t([3.0, 3.0])).sum().backward()


def test_there_are_no_tangents():
    with pytest.raises(NotImplementedError, match="Trying to use forward AD with _standard_gamma"):
        torch.func.jvp(torch._standard_gamma, (t([2.0]),), (t([1.0]),))


def test_vmap_and_errors():
    a = t([[1.0], [2.0]])
    for draw in (torch._standard_gamma, torch._sample_dirichlet):
        torch.manual_seed(3)
        drawn = torch.vmap(draw, randomness="different")(a)
        torch.manual_seed(3)
        assert drawn.equal(draw(a))
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            torch.vmap(draw)(a)
    assert torch._standard_gamma(torch.ones(3, 2).t()).is_contiguous() and torch._sample_dirichlet(t(2.0)) < 1
    state = torch.get_rng_state()
    with pytest.raises(NotImplementedError, match="\"gamma_cpu\" not implemented for 'Long'"):
        torch._standard_gamma(torch.tensor([1]))
    with pytest.raises(NotImplementedError, match="\"dirichlet\" not implemented for 'BFloat16'"):
        torch._sample_dirichlet(torch.ones(2, dtype=torch.bfloat16))
    with pytest.raises(RuntimeError, match="Found dtype Float but expected Double"):
        torch._standard_gamma_grad(a, torch.ones(2))
    assert torch.get_rng_state().equal(state)
