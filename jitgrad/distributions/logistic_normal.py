"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands
from jitgrad.distributions.normal import Normal
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Points of the simplex, with one element more than the vectors of ``Normal(loc, scale)`` that make them."""

    arg_constraints: Any = Normal.arg_constraints
    support: Any = constraints.simplex
    has_rsample = True
    loc, scale = attribute("base_dist.base_dist.loc"), attribute("base_dist.base_dist.scale")
    expand = expands()

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None):
        base_dist = Normal(loc, scale, validate_args=validate_args)
        if not base_dist.batch_shape:
            base_dist = base_dist.expand([1])
        super().__init__(base_dist, StickBreakingTransform(), validate_args=validate_args)
