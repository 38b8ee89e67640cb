"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.probs_or_logits import ProbsOrLogits
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability ``probs``, else 0; or of ``logits``, the log-odds."""

    support: Any = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    expand = expands("probs", "logits", "_param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        """The likelier value; NaN where both are as likely."""
        return jitgrad.where(self.probs == 0.5, jitgrad.nan, (self.probs >= 0.5).to(self.probs))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            return jitgrad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value):
        return -self._bce(*broadcast_all(self.logits, value))

    def entropy(self):
        return self._bce(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        return self._enumerated(jitgrad.arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self):
        return (jitgrad.logit(self.probs),)

    def _log_normalizer(self, x):
        return jitgrad.log1p(jitgrad.exp(x))
