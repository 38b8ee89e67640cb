"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """With the density 1 / (pi scale (1 + ((x - loc) / scale)^2)); it has no mean."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    mode = attribute("loc")
    expand = expands("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _all(self, value: float) -> Any:
        return jitgrad.full(self._extended_shape(), value, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mean(self):
        return self._all(jitgrad.nan)

    @property
    def variance(self):
        return self._all(jitgrad.inf)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        eps = jitgrad.empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()
        return self.loc + eps * self.scale

    @validated
    def log_prob(self, value):
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    @validated
    def cdf(self, value):
        return jitgrad.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return jitgrad.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()
