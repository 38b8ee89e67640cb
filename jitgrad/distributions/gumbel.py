"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import AffineTransform, ExpTransform
from jitgrad.distributions.uniform import Uniform
from jitgrad.distributions.utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """loc - scale log(-log(u)) for u uniform in (0, 1)."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    mode = attribute("loc")
    expand = expands("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        finfo = jitgrad.finfo(self.loc.dtype)
        low, high = (jitgrad.full_like(self.loc, bound) for bound in (finfo.tiny, 1 - finfo.eps))
        log = ExpTransform().inv
        minus = AffineTransform(loc=0, scale=-jitgrad.ones_like(self.scale))
        transforms = [log, minus, log, AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    @validated
    def log_prob(self, value):
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self):
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self):
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self):
        return self.stddev.pow(2)

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)
