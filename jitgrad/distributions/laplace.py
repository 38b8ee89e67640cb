"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Laplace"]


class Laplace(Distribution):
    """With the density exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    mean = mode = attribute("loc")
    expand = expands("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return (2**0.5) * self.scale

    def rsample(self, sample_shape=Size()):  # noqa: B008
        u = jitgrad.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u.uniform_(jitgrad.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * jitgrad.log1p(-u.abs())

    @validated
    def log_prob(self, value):
        return -jitgrad.log(2 * self.scale) - jitgrad.abs(value - self.loc) / self.scale

    @validated
    def cdf(self, value):
        offset = value - self.loc
        return 0.5 - 0.5 * offset.sign() * jitgrad.expm1(-offset.abs() / self.scale)

    def icdf(self, value):
        offset = value - 0.5
        return self.loc - self.scale * offset.sign() * jitgrad.log1p(-2 * offset.abs())

    def entropy(self):
        return 1 + jitgrad.log(2 * self.scale)
