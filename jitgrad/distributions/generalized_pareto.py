"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated
from jitgrad.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """With the tail (1 + concentration z)^(-1 / concentration), z = (x - loc) / scale; exp(-z) for concentration 0."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    mode = attribute("loc")
    expand = expands("loc", "scale", "concentration")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: Any = None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        return self.icdf(jitgrad.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _by_concentration(self, at_zero: Tensor, formula: Any) -> Tensor:
        """``formula(concentration)``; ``at_zero`` where that is 0."""
        is_zero = jitgrad.isclose(self.concentration, jitgrad.zeros_like(self.concentration))
        return jitgrad.where(is_zero, at_zero, formula(jitgrad.where(is_zero, 1, self.concentration)))

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    @validated
    def log_prob(self, value):
        z = self._z(value)

        def formula(c: Tensor) -> Tensor:
            y = 1 / c + jitgrad.ones_like(z)
            return jitgrad.where(y == 0, y, y * jitgrad.log1p(c * z))

        log_scale = math.log(self.scale) if isinstance(self.scale, (int, float)) else self.scale.log()
        return -log_scale - self._by_concentration(z, formula)

    @validated
    def log_survival_function(self, value):
        """The logarithm of the tail, the probability of more than ``value``."""
        z = self._z(value)
        return self._by_concentration(-z, lambda c: -jitgrad.log1p(c * z) / c)

    def log_cdf(self, value):
        """The logarithm of ``cdf``."""
        return jitgrad.log1p(-jitgrad.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return jitgrad.exp(self.log_cdf(value))

    def icdf(self, value):
        log_tail = jitgrad.log1p(-value)
        at_zero = self.loc - self.scale * log_tail
        return self._by_concentration(at_zero, lambda c: self.loc + self.scale / c * jitgrad.expm1(-c * log_tail))

    def _below(self, bound: float, formula: Any) -> Tensor:
        """``formula(concentration)``; NaN from ``bound`` on, where there is no such moment."""
        valid = self.concentration < bound
        return jitgrad.where(valid, formula(jitgrad.where(valid, self.concentration, bound / 2)), jitgrad.nan)

    @property
    def mean(self):
        return self._below(1, lambda c: self.loc + self.scale / (1 - c))

    @property
    def variance(self):
        return self._below(0.5, lambda c: self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)))

    def entropy(self):
        return (jitgrad.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, jitgrad.where(self.concentration < 0, end, jitgrad.inf))
