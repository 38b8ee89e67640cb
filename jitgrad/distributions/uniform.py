"""The uniform distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, expands, validated
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Uniform"]


class Uniform(Distribution):
    """On [low, high)."""

    has_rsample = True
    expand = expands("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: Any = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        """NaN: no value is likelier."""
        return jitgrad.nan * self.high

    @property
    def stddev(self):
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self):
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape=Size()):  # noqa: B008
        u = jitgrad.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    @validated
    def log_prob(self, value):
        within = (self.low <= value) & (self.high > value)
        return jitgrad.log(within.type_as(self.low)) - jitgrad.log(self.high - self.low)

    @validated
    def cdf(self, value):
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return jitgrad.log(self.high - self.low)
