"""Kullback-Leibler divergences of pairs of distributions of one family; kl_across.py has those of two families."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.distributions.bernoulli import Bernoulli
from jitgrad.distributions.beta import Beta
from jitgrad.distributions.binomial import Binomial
from jitgrad.distributions.categorical import Categorical
from jitgrad.distributions.cauchy import Cauchy
from jitgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from jitgrad.distributions.dirichlet import Dirichlet
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.exponential import Exponential
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.geometric import Geometric
from jitgrad.distributions.gumbel import Gumbel
from jitgrad.distributions.half_normal import HalfNormal
from jitgrad.distributions.independent import Independent
from jitgrad.distributions.kl_across import *  # noqa: F403  (registers its own)
from jitgrad.distributions.kl_registry import _KL_REGISTRY, kl_divergence, register_kl
from jitgrad.distributions.laplace import Laplace
from jitgrad.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
    _over_diagonal,
)  # fmt: skip
from jitgrad.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis, _half_log_det
from jitgrad.distributions.normal import Normal
from jitgrad.distributions.one_hot_categorical import OneHotCategorical
from jitgrad.distributions.pareto import Pareto
from jitgrad.distributions.poisson import Poisson
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.uniform import Uniform
from jitgrad.distributions.utils import _sum_rightmost, euler_constant

__all__ = ["kl_divergence", "register_kl"]


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    parameters, normalizer, gradients = p._normalizer_and_gradients()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for ours, theirs, gradient in zip(parameters, q._natural_params, gradients):
        result = result - _sum_rightmost((theirs - ours) * gradient, len(q.event_shape))
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


# -- of classes ---------------------------------------------------------------------------------------


def _expected_difference(prob: Any, difference: Any, prob_of_q: Any) -> Any:
    """prob * difference of logarithms: 0 where ``prob`` is, infinite where q alone allows nothing."""
    term = jitgrad.where(prob_of_q == 0, jitgrad.inf, prob * difference)
    return jitgrad.where(prob == 0, 0, term)


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    softplus = jitgrad.nn.functional.softplus
    success = softplus(-q.logits) - softplus(-p.logits)
    failure = softplus(q.logits) - softplus(p.logits)
    return _expected_difference(p.probs, success, q.probs) + _expected_difference(1 - p.probs, failure, 1 - q.probs)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    of_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return jitgrad.where(p.total_count > q.total_count, jitgrad.inf, p.total_count * of_trial)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    return _expected_difference(p.probs, p.logits - q.logits, q.probs).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - jitgrad.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


# -- of numbers ---------------------------------------------------------------------------------------


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    a, b = p.concentration, q.concentration
    expected_logs = a.digamma() - a.sum(-1, True).digamma()
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * expected_logs).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    of_p, of_q = (d._cont_bern_log_norm() + jitgrad.log1p(-d.probs) for d in (p, q))
    return p.mean * (p.logits - q.logits) + of_p - of_q


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    a, b = p.concentration, q.concentration
    shapes = jitgrad.lgamma(b) - jitgrad.lgamma(a) + (a - b) * jitgrad.digamma(a)
    return b * (p.rate / q.rate).log() + shapes + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio, offset = p.scale / q.scale, (q.loc - p.loc) / q.scale
    expected = ratio * euler_constant + jitgrad.exp(offset + (1 + ratio).lgamma())
    return -ratio.log() - offset + expected - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio, offset = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + offset / q.scale + ratio * jitgrad.exp(-offset / p.scale) - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return jitgrad.where(p.support.lower_bound < q.support.lower_bound, jitgrad.inf, result)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return jitgrad.where((q.low > p.low) | (q.high < p.high), jitgrad.inf, result)


# -- of vectors: (log det q - log det p + tr(q^-1 p) + the square of the means' distance - n) / 2 ----------


def _batch_trace_XXT(bmat: Tensor) -> Tensor:
    """The trace of X X^T, which is the sum of the squares of X."""
    return bmat.pow(2).sum((-2, -1))


def _log_det(d: Any) -> Tensor:
    return d._log_det if isinstance(d, LowRankMultivariateNormal) else 2 * _half_log_det(d._unbroadcasted_scale_tril)


def _roots(p: Any) -> list[Tensor]:
    """Matrices X, the sum of whose X X^T is the covariance of p."""
    if not isinstance(p, LowRankMultivariateNormal):
        return [p._unbroadcasted_scale_tril]
    return [p._unbroadcasted_cov_factor, jitgrad.diag_embed(p._unbroadcasted_cov_diag.sqrt())]


def _solved(factor: Tensor, root: Tensor) -> Tensor:
    """L^-1 X, for all pairs of a batch."""
    batch = jitgrad.broadcast_shapes(factor.shape[:-2], root.shape[:-2])
    factor, root = (m.expand((*batch, *m.shape[-2:])) for m in (factor, root))
    return jitgrad.linalg.solve_triangular(factor, root, upper=False)


def _distances(p: Any, q: Any) -> Tensor:
    """tr(q^-1 p) + the square of the means' distance by the covariance of q."""
    offset, roots = q.loc - p.loc, _roots(p)
    if not isinstance(q, LowRankMultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        traces = [_batch_trace_XXT(_solved(factor, root)) for root in roots]
        return sum(traces, _batch_mahalanobis(factor, offset))
    # q^-1 = D^-1 - A^T A, by Woodbury's identity.
    A = _solved(q._capacitance_tril, _over_diagonal(*q._parts))
    scale = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    traces = [_batch_trace_XXT(root * scale) - _batch_trace_XXT(A.matmul(root)) for root in roots]
    return sum(traces, _batch_lowrank_mahalanobis(*q._parts, offset, q._capacitance_tril))


def _kl_of_vectors(words: str) -> Any:
    def kl(p: Any, q: Any) -> Tensor:
        if p.event_shape != q.event_shape:
            raise ValueError(
                f"KL-divergence between two {words} with different event shapes cannot be computed"
            )
        return 0.5 * (_log_det(q) - _log_det(p) + _distances(p, q) - p.event_shape[0])

    return kl


for _p, _q, _words in (
    (MultivariateNormal, MultivariateNormal, "Multivariate Normals"),
    (LowRankMultivariateNormal, LowRankMultivariateNormal, "Low Rank Multivariate Normals"),
    (MultivariateNormal, LowRankMultivariateNormal, "(Low Rank) Multivariate Normals"),
    (LowRankMultivariateNormal, MultivariateNormal, "(Low Rank) Multivariate Normals"),
):
    register_kl(_p, _q)(_kl_of_vectors(_words))


def _add_kl_info() -> None:
    """List the pairs in the docstring of ``kl_divergence``."""
    pairs = sorted((p.__name__, q.__name__) for p, q in _KL_REGISTRY)
    rows = ["\n\nThere are divergences for these classes:\n", *(f"* {p} and {q}" for p, q in pairs)]
    kl_divergence.__doc__ = (kl_divergence.__doc__ or "") + "\n".join(rows)
