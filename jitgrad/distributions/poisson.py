"""The Poisson distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Counts with the probabilities rate^k exp(-rate) / k!."""

    arg_constraints: Any = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer
    mean = variance = attribute("rate")
    expand = expands("rate")

    def __init__(self, rate: Any, validate_args: Any = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mode(self):
        return self.rate.floor()

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            return jitgrad.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value):
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (jitgrad.log(self.rate),)

    def _log_normalizer(self, x):
        return jitgrad.exp(x)
