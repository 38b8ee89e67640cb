"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.utils import _standard_normal, broadcast_all

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """Of mean ``loc`` and standard deviation ``scale``."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0
    mean = mode = attribute("loc")
    stddev = attribute("scale")
    expand = expands("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def variance(self):
        return self.stddev.pow(2)

    def sample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return jitgrad.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=Size()):  # noqa: B008
        eps = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + eps * self.scale

    @validated
    def log_prob(self, value):
        # A subclass may keep a number for its scale.
        log_scale = math.log(self.scale) if isinstance(self.scale, (int, float)) else self.scale.log()
        square = -((value - self.loc) ** 2) / (2 * self.scale**2)
        return square - log_scale - math.log(math.sqrt(2 * math.pi))

    @validated
    def cdf(self, value):
        return 0.5 * (1 + jitgrad.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * jitgrad.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + jitgrad.log(self.scale)

    @property
    def _natural_params(self):
        return (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal())

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * jitgrad.log(-math.pi / y)
