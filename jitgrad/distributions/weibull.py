"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands
from jitgrad.distributions.exponential import Exponential
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import AffineTransform, PowerTransform
from jitgrad.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """scale x^(1 / concentration) for x of ``Exponential(1)``."""

    arg_constraints: Any = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive
    expand = expands("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale: Any, concentration: Any, validate_args: Any = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base_dist = Exponential(jitgrad.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base_dist, transforms, validate_args=validate_args)

    def _gamma(self, n: int) -> Any:
        """gamma(1 + n / concentration)."""
        return jitgrad.exp(jitgrad.lgamma(1 + n * self.concentration_reciprocal))

    @property
    def mean(self):
        return self.scale * self._gamma(1)

    @property
    def mode(self):
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self):
        return self.scale.pow(2) * (self._gamma(2) - self._gamma(1) ** 2)

    def entropy(self):
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + jitgrad.log(self.scale * reciprocal) + 1
