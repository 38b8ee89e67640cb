"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.probs_or_logits import ProbsOrLogits
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits):
    """The number of failures before the first success, of probability ``probs``, or log-odds ``logits``."""

    support: Any = constraints.nonnegative_integer
    expand = expands("probs", "logits", "_param")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            valid = value > 0
            if not valid.all():
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to be positive but found invalid values:\n{value.detach()[~valid]}"
                )

    @property
    def mean(self):
        return 1 / self.probs - 1

    @property
    def mode(self):
        return jitgrad.zeros_like(self.probs)

    @property
    def variance(self):
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            u = jitgrad.empty(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            u.uniform_(jitgrad.finfo(u.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    @validated
    def log_prob(self, value):
        value, probs = broadcast_all(value, self.probs)
        # log(1 - probs) is infinite where success is sure: 0 times it is to be 0.
        finite = jitgrad.where((probs == 1) & (value == 0), 0, probs)
        return value * (-finite).log1p() + self.probs.log()

    def entropy(self):
        return self._bce(self.logits, self.probs) / self.probs
