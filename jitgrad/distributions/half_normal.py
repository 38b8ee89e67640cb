"""The half-normal distribution, and what the two halves of symmetric distributions here have in common."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.normal import Normal
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import AbsTransform

__all__ = ["HalfNormal"]


class Halved(TransformedDistribution):
    """|x| for x of a distribution that is symmetric about 0."""

    arg_constraints: Any = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    scale = attribute("base_dist.scale", "The scale of the whole.")

    def _init_of(self, whole: Any, validate_args: Any) -> None:
        super().__init__(whole, AbsTransform(), validate_args=validate_args)

    @property
    def mode(self):
        return jitgrad.zeros_like(self.scale)

    @validated
    def log_prob(self, value):
        return jitgrad.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -jitgrad.inf)

    @validated
    def cdf(self, value):
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Halved):
    """|x| for x of ``Normal(0, scale)``."""

    expand = expands()

    def __init__(self, scale: Any, validate_args: Any = None):
        self._init_of(Normal(0, scale, validate_args=False), validate_args)

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)
