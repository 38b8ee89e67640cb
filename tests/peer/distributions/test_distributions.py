"""Distributions beside PyTorch's: samples of a seed, values, gradients, divergences, errors."""

import warnings

import pytest

import jitgrad
from tests.peer.beside import leaves, same, torch

VECTORS = "t([.5, 2., 7.]), t([1.5, .3, 9.])"
ROWS = "t([[.1, .2, .7], [.3, .3, .4]])"
COVARIANCE = "t([[2., .3], [.3, 1.]])"
CASES = [
    "Bernoulli(logits=t([.5, 2., -7.]))", f"Beta({VECTORS})", "Binomial(t([3., 40., 9.]), t([.1, .5, .9]))",
    f"Categorical({ROWS})", f"Cauchy({VECTORS})", "ContinuousBernoulli(t([.1, .5, .9]))", f"Dirichlet({ROWS})",
    "Exponential(t([.5, 2., 7.]))", f"FisherSnedecor({VECTORS})", f"Gamma({VECTORS})",
    f"GeneralizedPareto({VECTORS}, t([.4, .2, -.3]))", "Geometric(t([.1, .5, .9]))", f"Gumbel({VECTORS})",
    "HalfCauchy(t([.5, 2.]))", "HalfNormal(t([.5, 2.]))", f"InverseGamma({VECTORS})", f"Kumaraswamy({VECTORS})",
    "LKJCholesky(3, t([.5, 2.]))", f"Laplace({VECTORS})", f"LogNormal({VECTORS})",
    "LogisticNormal(t([.5, 2.]), t([1.5, .3]))",
    "LowRankMultivariateNormal(t([.5, 2., .7]), t([[1., 2.], [.3, .1], [.5, -1.]]), t([.1, 2., .3]))",
    "MixtureSameFamily(D.Categorical(t([.3, .7])), D.Normal(t([.5, 2.]), t([1.5, .3])))", f"Multinomial(5, {ROWS})",
    f"MultivariateNormal(t([[.5, 2.], [1., 0.]]), {COVARIANCE})",
    "NegativeBinomial(t([3., 10.]), logits=t([-1., .5]))", f"Normal({VECTORS})", f"OneHotCategorical({ROWS})",
    f"Pareto({VECTORS})", "Poisson(t([.5, 2., 70.]))", "RelaxedBernoulli(t(.7), t([.1, .5, .9]))",
    f"RelaxedOneHotCategorical(t(.7), {ROWS})", f"StudentT({VECTORS}, t([1., 2., 3.]))",
    "Uniform(t([.5, 2.]), t([1.5, 3.]))", f"VonMises({VECTORS})", f"Weibull({VECTORS})",
]  # fmt: skip


def made(library, text):
    """The distribution that a text describes, and the tensors in it."""
    parameters = []

    def t(values):
        parameters.append(library.tensor(values, dtype=library.float64, requires_grad=True))
        return parameters[-1]

    return eval(f"D.{text}", {"D": library.distributions, "t": t}), parameters


def attempt(function, *args):
    """The result in comparable form, or the error."""
    try:
        return leaves(function(*args))
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__, " ".join(str(error).replace("jitgrad", "torch").split())


def beside(function, *args):
    """The same of both libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(attempt(function, jitgrad, *args), attempt(function, torch, *args))


def sampled(library, text):
    library.manual_seed(5)
    d, parameters = made(library, text)
    found = [d.sample(), d.sample((17,)), repr(d), repr(d.support)]
    if not d.has_rsample:
        return found
    drawn = d.rsample((2,))
    weights = library.arange(drawn.numel(), dtype=drawn.dtype).reshape(drawn.shape).cos()
    gradients = library.autograd.grad((drawn * weights).sum(), parameters)
    return [*found, drawn, *[g.round(decimals=9) for g in gradients]]


def valued(library, text):
    d, parameters = made(library, text)
    library.manual_seed(5)
    value = d.sample((2,))
    log_prob = d.log_prob(value)
    return [log_prob, *library.autograd.grad(log_prob.sum(), parameters), d.expand((3, *d.batch_shape)).batch_shape]


def described(library, text, name):
    d, _ = made(library, text)
    found = getattr(d, name)
    return found() if callable(found) else found


@pytest.mark.parametrize("text", CASES)
def test_beside(text):
    beside(sampled, text)
    if "GeneralizedPareto" not in text:  # PyTorch compares with a tensor of the default dtype, and raises
        beside(valued, text)
    for name in ("mean", "mode", "variance", "entropy", "enumerate_support"):
        beside(described, text, name)


def diverged(library, p, q):
    p, q = (made(library, text)[0] for text in (p, q))
    return library.distributions.kl_divergence(p, q)


def test_divergences():
    texts = [
        "Bernoulli(t([.1, 1.]))", "Beta(t([.5, 2.]), t([1.5, .3]))", "Cauchy(t([.5, 2.]), t([1.5, .3]))",
        "ContinuousBernoulli(t([.1, .9]))", "Exponential(t([.5, 2.]))", "Gamma(t([.5, 2.]), t([1.5, .3]))",
        "Gumbel(t([.5, 2.]), t([1.5, .3]))", "Laplace(t([.5, 2.]), t([1.5, .3]))", "Normal(t([.5, 2.]), t([1.5, .3]))",
        "Pareto(t([.5, 2.]), t([1.5, .3]))", "Uniform(t([.5, -2.]), t([.9, .3]))", "Poisson(t([.5, 2.]))",
    ]  # fmt: skip
    for p in texts:
        for q in texts:
            beside(diverged, p, q)
    vectors = f"MultivariateNormal(t([.5, 2.]), {COVARIANCE})", \
        "LowRankMultivariateNormal(t([.5, 2.]), t([[1.], [.3]]), t([.1, 2.]))"  # fmt: skip
    for p in vectors:
        for q in vectors:
            beside(diverged, p, q)


def refused(library, text, value):
    d, _ = made(library, text)
    return d.log_prob(library.tensor(value, dtype=library.float64))


@pytest.mark.parametrize(
    "text, value",
    [
        ("Normal(t(0.), t(-1.))", 0.0), ("Gamma(t([1., 2.]), t(1.))", [-1.0, 1.0]),
        ("Normal(t([1., 2.]), t(1.))", [1.0, 2.0, 3.0]), ("Bernoulli()", 1.0), ("Categorical(t(.5))", 1.0),
        ("Uniform(t(0.), t(1.))", 2.0), ("Poisson(t(1.))", 0.5), ("Dirichlet(t([1., 2.]))", [0.5, 0.6]),
    ],
)  # fmt: skip
def test_errors(text, value):
    beside(refused, text, value)
