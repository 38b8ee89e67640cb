"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.probs_or_logits import ProbsOrLogits
from jitgrad.distributions.utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ProbsOrLogits):
    """The number of successes before ``total_count`` failures; successes have probability ``probs``."""

    arg_constraints: Any = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer
    expand = expands("total_count", "probs", "logits", "_param")

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self._set(probs, logits, total_count)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * jitgrad.exp(self.logits)

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self):
        return self.mean / jitgrad.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self):
        """What the rates of the Poisson distribution follow of which this is a mixture."""
        return Gamma(concentration=self.total_count, rate=jitgrad.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            return jitgrad.poisson(self._gamma.sample(sample_shape=sample_shape))

    @validated
    def log_prob(self, value):
        log_sigmoid = jitgrad.nn.functional.logsigmoid
        unnormalized = self.total_count * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)
        total = self.total_count + value
        normalization = -jitgrad.lgamma(total) + jitgrad.lgamma(1.0 + value) + jitgrad.lgamma(self.total_count)
        # The difference of two infinities, for no failures, is 0.
        return unnormalized - normalization.masked_fill(total == 0, 0)
