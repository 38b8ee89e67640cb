"""The exponential distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """With the density rate exp(-rate x)."""

    arg_constraints: Any = {"rate": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    expand = expands("rate")

    def __init__(self, rate: Any, validate_args: Any = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self):
        return jitgrad.zeros_like(self.rate)

    @property
    def variance(self):
        return self.rate.pow(-2)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        return jitgrad.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    @validated
    def log_prob(self, value):
        return self.rate.log() - self.rate * value

    @validated
    def cdf(self, value):
        return 1 - jitgrad.exp(-self.rate * value)

    def icdf(self, value):
        return -jitgrad.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - jitgrad.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -jitgrad.log(-x)
