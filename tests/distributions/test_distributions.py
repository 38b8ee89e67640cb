"""Distributions: values that SciPy has too, gradients of samples, expansion, subclasses, errors."""

import copy
import math
import pickle

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import distributions as D
from jitgrad.distributions import constraints
from jitgrad.distributions.kl_registry import _KL_MEMOIZE, _KL_REGISTRY

stats = pytest.importorskip("scipy.stats")


def t(values, grad=False):
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


PAIRS = [
    (D.Beta(t([0.5, 2.0]), t(3.0)), stats.beta([0.5, 2.0], 3), [0.2, 0.7]),
    (D.Gamma(t([0.5, 2.0]), t(3.0)), stats.gamma([0.5, 2.0], scale=1 / 3), [0.2, 0.7]),
    (D.StudentT(t(3.0), t(1.0), t([2.0, 5.0])), stats.t(3, 1, [2.0, 5.0]), [0.2, 7.0]),
    (D.Normal(t(1.0), t([2.0, 5.0])), stats.norm(1, [2.0, 5.0]), [0.2, 7.0]),
    (D.Laplace(t(1.0), t([2.0, 5.0])), stats.laplace(1, [2.0, 5.0]), [0.2, 7.0]),
    (D.Gumbel(t(1.0), t([2.0, 5.0])), stats.gumbel_r(1, [2.0, 5.0]), [0.2, 7.0]),
    (D.Weibull(t([2.0, 5.0]), t(1.5)), stats.weibull_min(1.5, scale=[2.0, 5.0]), [0.2, 7.0]),
    (D.Pareto(t([0.1, 5.0]), t(2.5)), stats.pareto(2.5, scale=[0.1, 5.0]), [0.2, 7.0]),
    (D.LogNormal(t(0.3), t([0.5, 1.0])), stats.lognorm([0.5, 1.0], scale=math.exp(0.3)), [0.2, 7.0]),
    (D.GeneralizedPareto(t(0.0), t(2.0), t([0.3, -0.1])), stats.genpareto([0.3, -0.1], scale=2), [0.2, 7.0]),
    (D.FisherSnedecor(t([3.0, 5.0]), t(6.0)), stats.f([3.0, 5.0], 6), [0.2, 7.0]),
    (D.Poisson(t([0.5, 20.0])), stats.poisson([0.5, 20.0]), [1.0, 17.0]),
    (D.Binomial(9, t([0.5, 0.2])), stats.binom(9, [0.5, 0.2]), [1.0, 4.0]),
    (D.NegativeBinomial(t(3.0), t([0.5, 0.2])), stats.nbinom(3, [0.5, 0.8]), [1.0, 4.0]),
    (D.Geometric(t([0.5, 0.2])), stats.geom([0.5, 0.2], loc=-1), [1.0, 4.0]),
]


@pytest.mark.parametrize("ours, theirs, at", PAIRS, ids=lambda v: type(v).__name__)
def test_values_of_scipy(ours, theirs, at):
    log_prob = theirs.logpmf if hasattr(theirs.dist, "pmf") else theirs.logpdf
    np.testing.assert_allclose(ours.log_prob(t(at)).tolist(), log_prob(at), rtol=1e-9)
    np.testing.assert_allclose(ours.mean.tolist(), theirs.mean(), rtol=1e-9)
    np.testing.assert_allclose(ours.variance.tolist(), theirs.var(), rtol=1e-9)
    if type(ours).cdf is not D.Distribution.cdf:
        np.testing.assert_allclose(ours.cdf(t(at)).tolist(), theirs.cdf(at), rtol=1e-8)


def test_numbers_of_a_seed():
    torch.manual_seed(0)
    drawn = [D.Gamma(t([0.5, 3.0]), t(2.0)), D.Dirichlet(t([0.5, 3.0, 1.0])), D.StudentT(t([0.5, 3.0]))]
    # PyTorch 2.13's numbers.
    wanted = [
        [0.0003946791031737866, 0.636421708945544], [0.01558221829964499, 0.9222793260509488, 0.06213845564940626],
        [0.49427290797464196, -0.7841776477640728],
    ]  # fmt: skip
    for d, numbers in zip(drawn, wanted, strict=True):
        np.testing.assert_allclose(d.sample().tolist(), numbers, rtol=1e-12)
    with pytest.warns(UserWarning, match="Singular sample detected"):
        drawn = D.Wishart(t(4.0), torch.eye(2, dtype=torch.float64)).sample()
    numbers = [3.8536859120601976, -0.040988090875906436, -0.040988090875906436, 6.267090154610436]
    np.testing.assert_allclose(drawn.flatten().tolist(), numbers, rtol=1e-12)


def test_gradients_of_samples():
    """At a fixed quantile: those of the parts, and of what is computed from them."""
    a = t([0.5, 2.0, 9.0], grad=True)
    d = D.Gamma(a, 2.0)
    x = d.rsample()
    (found,) = torch.autograd.grad(x.sum(), a)
    assert torch.allclose(found, torch._standard_gamma_grad(a.detach(), 2 * x.detach()) / 2)
    x = D.Beta(a, 3.0).rsample()
    (found,) = torch.autograd.grad(x.sum(), a)
    x = x.detach()
    assert torch.allclose(found, torch._dirichlet_grad(x, a.detach(), a.detach() + 3) * (1 - x))
    (g,) = torch.autograd.grad(D.Dirichlet(a).rsample()[0], a, create_graph=True)
    assert not g.requires_grad and g[0] > 0 > g[1]


def test_second_derivatives_and_vmap():
    scale = t(2.0, grad=True)
    (g,) = torch.autograd.grad(D.Normal(0.0, scale).log_prob(t(3.0)), scale, create_graph=True)
    (h,) = torch.autograd.grad(g, scale)
    assert g.item() == pytest.approx(9 / 8 - 0.5) and h.item() == pytest.approx(0.25 - 27 / 16)
    x, loc = t([0.1, 0.2, 0.3]), t([[1.0], [2.0]])
    each = torch.vmap(lambda m: D.Normal(m, 1.0).log_prob(x))(loc)
    assert torch.allclose(each, D.Normal(loc, 1.0).log_prob(x))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        torch.vmap(lambda m: D.Normal(0.0, m).log_prob(x))(1.5 - loc)


class Shifted(D.Normal):
    """A subclass with an ``__init__`` of its own."""

    def __init__(self, loc):
        super().__init__(loc, 1.0)


class Bare(D.Distribution):
    """What states nothing."""


def test_expand_and_copies():
    d = D.MultivariateNormal(torch.zeros(2), torch.eye(2)).expand((3, 4))
    assert d.batch_shape == (3, 4) and d.sample((5,)).shape == (5, 3, 4, 2)
    assert d.log_prob(torch.ones(2)).shape == (3, 4)
    d = D.Independent(D.Gamma(torch.ones(3, 2), 1.0), 1).expand((4, 3))
    assert d.batch_shape == (4, 3) and d.event_shape == (2,)
    assert D.Chi2(torch.tensor([3.0])).expand((2, 1)).df.shape == (2, 1)
    for copied in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert copied.mean.equal(d.mean) and repr(copied) == repr(d)
    loc = torch.tensor([1.0], requires_grad=True)
    assert D.Normal(loc, torch.ones(1)).loc is loc
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        Shifted(0.0).expand((2,))


def test_what_a_subclass_lacks():
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        d = Bare()
    for name in ("mean", "variance", "support", "mode"):
        with pytest.raises(NotImplementedError):
            getattr(d, name)
    for name in ("entropy", "rsample", "enumerate_support"):
        with pytest.raises(NotImplementedError):
            getattr(d, name)()
    with pytest.warns(UserWarning, match="does not define `support`"):
        d._validate_sample(torch.tensor(1.0))
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_divergences_are_dispatched():
    class P(D.Normal):
        """A class of its own."""

    class Q(P):
        """One below it."""

    p = P(0.0, 1.0)
    assert D.kl_divergence(p, D.Normal(1.0, 1.0)) == 0.5
    D.register_kl(P, D.Normal)(lambda p, q: "left")
    D.register_kl(D.Normal, Q)(lambda p, q: "right")
    try:
        assert D.kl_divergence(p, D.Normal(1.0, 1.0)) == "left"
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(P, Q\). Please register_kl\(P, Q\)"):
            assert D.kl_divergence(p, Q(0.0, 1.0)) == "left"
    finally:
        del _KL_REGISTRY[P, D.Normal], _KL_REGISTRY[D.Normal, Q]
        _KL_MEMOIZE.clear()
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(p, D.Cauchy(0.0, 1.0))
    with pytest.raises(TypeError, match="Expected type_q to be a Distribution subclass"):
        D.register_kl(P, 3)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"Expected parameter scale \(Tensor of shape \(2,\)\).*GreaterThan"):
        D.Normal(0.0, torch.tensor([1.0, -1.0]))
    D.Normal(0.0, torch.tensor([1.0, -1.0]), validate_args=False)
    with pytest.raises(ValueError, match="The right-most size of value must match event_shape"):
        D.Dirichlet(torch.ones(3)).log_prob(torch.ones(2))
    with pytest.raises(ValueError, match="value argument to log_prob must be a Tensor"):
        D.Normal(0.0, 1.0).log_prob(1.0)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args("yes")
    assert constraints.is_dependent(D.Uniform.support) and not constraints.is_dependent(D.Normal.support)
    assert repr(D.Uniform(0.0, 2.0).support) == "Interval(lower_bound=0.0, upper_bound=2.0)"
