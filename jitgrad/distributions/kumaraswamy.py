"""The Kumaraswamy distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import AffineTransform, PowerTransform
from jitgrad.distributions.uniform import Uniform
from jitgrad.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moments(a: Any, b: Any, n: int) -> Any:
    """The mean of x ** n: b B(1 + n / a, b)."""
    first = 1 + n / a
    return b * jitgrad.exp(jitgrad.lgamma(first) + jitgrad.lgamma(b) - jitgrad.lgamma(first + b))


class Kumaraswamy(TransformedDistribution):
    """(1 - u^(1 / concentration0))^(1 / concentration1) for u uniform in (0, 1)."""

    arg_constraints: Any = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval
    has_rsample = True
    expand = expands("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = (jitgrad.full_like(self.concentration0, bound) for bound in (0, 1))
        inner, outer = (PowerTransform(c.reciprocal()) for c in (self.concentration0, self.concentration1))
        transforms = [inner, AffineTransform(loc=1.0, scale=-1.0), outer]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    @property
    def mean(self):
        return _moments(self.concentration1, self.concentration0, 1)

    @property
    def mode(self):
        """NaN where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return jitgrad.where((b < 1) | (a < 1), jitgrad.nan, log_mode).exp()

    @property
    def variance(self):
        return _moments(self.concentration1, self.concentration0, 2) - self.mean.pow(2)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = jitgrad.digamma(b + 1) + euler_constant
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - jitgrad.log(a) - jitgrad.log(b)
