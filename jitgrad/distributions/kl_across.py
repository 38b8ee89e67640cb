"""Kullback-Leibler divergences from one family of distributions to another.

KL(p || q) = -H(p) - E_p[log q(x)], and for each q the latter needs but few moments of p: mean and variance, the mean of
log(x), or that of exp(-t x). So there is one formula for each q, and a table of moments of the p that it is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.distributions.bernoulli import Bernoulli
from jitgrad.distributions.beta import Beta
from jitgrad.distributions.binomial import Binomial
from jitgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.exponential import Exponential
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.gumbel import Gumbel
from jitgrad.distributions.kl_registry import register_kl
from jitgrad.distributions.laplace import Laplace
from jitgrad.distributions.normal import Normal
from jitgrad.distributions.pareto import Pareto
from jitgrad.distributions.poisson import Poisson
from jitgrad.distributions.uniform import Uniform
from jitgrad.distributions.utils import euler_constant

__all__: list[str] = []

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _infinite_where(condition: Any, value: Any) -> Tensor:
    return jitgrad.where(condition, jitgrad.inf, value)


def _registered(*types: type[Distribution], to: type[Distribution]) -> Callable[[Any], Any]:
    """Register a function for several p and one q."""

    def decorator(function: Any) -> Any:
        for type_p in types:
            register_kl(type_p, to)(function)
        return function

    return decorator


# -- infinite: p has mass where q has none -----------------------------------------------------------------

for _type_p, _parameter, _narrower in (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
):
    for _type_q in _narrower:
        register_kl(_type_p, _type_q)(
            lambda p, q, name=_parameter: jitgrad.full_like(getattr(p, name), jitgrad.inf)
        )  # fmt: skip


# -- moments --------------------------------------------------------------------------------------------


def _mean(p: Any) -> Tensor:
    # Not Pareto's ``mean``, which is infinite where it is here to be hidden by a ``where``: its gradient is NaN.
    return p.scale * p.alpha / (p.alpha - 1) if isinstance(p, Pareto) else p.mean


def _variance(p: Any) -> Tensor:
    if isinstance(p, Pareto):
        return p.alpha * (p.scale / (p.alpha - 1)).pow(2) / (p.alpha - 2)
    return p.variance


def _mean_xlogx(p: Uniform, low: Any, high: Any) -> Tensor:
    """The mean of log(x) over [low, high]."""
    return (jitgrad.xlogy(high, high) - jitgrad.xlogy(low, low)) / (high - low) - 1


_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -p.rate.log() - euler_constant,
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_xlogx(p, p.low, p.high),
}
# The mean of exp(-t x).
_MEAN_EXP: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (1 + t / p.rate).pow(-p.concentration),
    Normal: lambda p, t: jitgrad.exp(0.5 * (t * p.scale).pow(2) - t * p.loc),
    Uniform: lambda p, t: (jitgrad.exp(-t * p.low) - jitgrad.exp(-t * p.high)) / (t * (p.high - p.low)),
}


def _of_type(table: dict[type, Any], p: Any) -> Any:
    return next(moment for kind, moment in table.items() if isinstance(p, kind))


# -- to a q that takes all numbers -----------------------------------------------------------------------


@_registered(Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform, to=Normal)
def _kl_to_normal(p: Any, q: Normal) -> Tensor:
    square = (_mean(p) - q.loc).pow(2) + _variance(p)
    result = q.scale.log() + _HALF_LOG_2PI - p.entropy() + 0.5 * square / q.scale.pow(2)
    return _infinite_where(p.alpha <= 2, result) if isinstance(p, Pareto) else result


@_registered(Exponential, Gamma, Normal, Uniform, to=Gumbel)
def _kl_to_gumbel(p: Any, q: Gumbel) -> Tensor:
    mean_exp = _of_type(_MEAN_EXP, p)(p, q.scale.reciprocal())
    return q.scale.log() - p.entropy() + (_mean(p) - q.loc) / q.scale + jitgrad.exp(q.loc / q.scale) * mean_exp


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    offset = p.loc - q.loc
    standard = offset / p.scale
    density = math.sqrt(2 / math.pi) * p.scale * jitgrad.exp(-0.5 * standard.pow(2))
    distance = density + offset * jitgrad.erf(math.sqrt(0.5) * standard)
    return (2 * q.scale).log() - p.entropy() + distance / q.scale


# -- to a q of positive numbers, or of an interval ----------------------------------------------------------


def _within(p: Any, q: Any, result: Tensor) -> Tensor:
    """``result``, infinite where p has no such moment, or reaches below 0, or below the end of q."""
    if isinstance(p, Pareto):
        return _infinite_where(p.alpha <= 1, result)
    return _infinite_where(p.low < q.support.lower_bound, result) if isinstance(p, Uniform) else result


@_registered(Beta, ContinuousBernoulli, Gamma, Pareto, Uniform, to=Exponential)
def _kl_to_exponential(p: Any, q: Exponential) -> Tensor:
    return _within(p, q, q.rate * _mean(p) - q.rate.log() - p.entropy())


@_registered(Beta, Exponential, Pareto, Uniform, to=Gamma)
def _kl_to_gamma(p: Any, q: Gamma) -> Tensor:
    normalizer = q.concentration.lgamma() - q.concentration * q.rate.log()
    powers = (q.concentration - 1) * _of_type(_MEAN_LOG, p)(p)
    return _within(p, q, normalizer - powers + q.rate * _mean(p) - p.entropy())


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    powers = (q.alpha + 1) * _of_type(_MEAN_LOG, p)(p)
    return _within(p, q, powers - (q.alpha * q.scale.pow(q.alpha)).log() - p.entropy())


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    powers = (q.concentration1 - 1) * _mean_xlogx(p, p.low, p.high)
    powers = powers + (q.concentration0 - 1) * _mean_xlogx(p, 1 - p.high, 1 - p.low)
    result = q._log_normalizer(q.concentration1, q.concentration0) - powers - p.entropy()
    return _infinite_where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), result)


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p: Beta, q: Uniform) -> Tensor:
    return _infinite_where((q.low > 0) | (q.high < 1), (q.high - q.low).log() - p.entropy())


# PyTorch has the next two infinite where an end of the uniform distribution is 0, or 1, already.


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    return _infinite_where((q.low >= 0) | (q.high <= 1), (q.high - q.low).log() - p.entropy())


@_registered(Beta, Uniform, to=ContinuousBernoulli)
def _kl_to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    normalizer = jitgrad.log1p(-q.probs) + q._cont_bern_log_norm()
    result = -p.entropy() - p.mean * q.logits - normalizer
    return _infinite_where((p.high >= 1) | (p.low <= 0), result) if isinstance(p, Uniform) else result


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()
