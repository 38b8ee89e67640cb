"""The inverse gamma distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x for x of ``Gamma(concentration, rate)``."""

    arg_constraints: Any = Gamma.arg_constraints
    support: Any = constraints.positive
    has_rsample = True
    concentration, rate = attribute("base_dist.concentration"), attribute("base_dist.rate")
    expand = expands()

    def __init__(self, concentration: Any, rate: Any, validate_args: Any = None):
        base_dist = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base_dist, PowerTransform(-base_dist.rate.new_ones(())), validate_args=validate_args)

    @property
    def mean(self):
        return jitgrad.where(self.concentration > 1, self.rate / (self.concentration - 1), jitgrad.inf)

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        value = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return jitgrad.where(self.concentration > 2, value, jitgrad.inf)

    def entropy(self):
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()
