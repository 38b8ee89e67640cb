"""The log-normal distribution."""

from __future__ import annotations

from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands
from jitgrad.distributions.normal import Normal
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import ExpTransform

__all__ = ["LogNormal"]


class LogNormal(TransformedDistribution):
    """exp(x) for x of ``Normal(loc, scale)``."""

    arg_constraints: Any = Normal.arg_constraints
    support: Any = constraints.positive
    has_rsample = True
    loc, scale = attribute("base_dist.loc"), attribute("base_dist.scale")
    expand = expands()

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None):
        base_dist = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base_dist, ExpTransform(), validate_args=validate_args)

    @property
    def mean(self):
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self):
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc
