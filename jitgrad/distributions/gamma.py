"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.utils import broadcast_all
from jitgrad.ops.random.gamma import _standard_gamma

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Of shape ``concentration`` and ``rate``: a density proportional to x^(concentration - 1) exp(-rate x)."""

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    expand = expands("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: Any = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=jitgrad.finfo(value.dtype).tiny)  # not a part of the graph
        return value

    def log_prob(self, value):
        value = jitgrad.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        powers = jitgrad.xlogy(self.concentration, self.rate) + jitgrad.xlogy(self.concentration - 1, value)
        return powers - self.rate * value - jitgrad.lgamma(self.concentration)

    def entropy(self):
        shape = self.concentration
        return shape - jitgrad.log(self.rate) + jitgrad.lgamma(shape) + (1.0 - shape) * jitgrad.digamma(shape)

    @property
    def _natural_params(self):
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, x, y):
        return jitgrad.lgamma(x + 1) + (x + 1) * jitgrad.log(-y.reciprocal())

    @validated
    def cdf(self, value):
        return jitgrad.special.gammainc(self.concentration, self.rate * value)
