"""The binomial distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.probs_or_logits import ProbsOrLogits

__all__ = ["Binomial"]


def _clamp_by_zero(x: Tensor) -> Tensor:
    """max(x, 0), with a derivative of 1 / 2 at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(ProbsOrLogits):
    """How many of ``total_count`` trials succeed, each with probability ``probs``, or of the log-odds ``logits``."""

    arg_constraints: Any = {"total_count": constraints.nonnegative_integer, **ProbsOrLogits.arg_constraints}
    has_enumerate_support = True
    expand = expands("total_count", "probs", "logits", "_param")

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self._set(probs, logits, total_count)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return jitgrad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    @validated
    def log_prob(self, value):
        # log C(n, k) + k logits - n log(1 + exp(logits)), the last of which is computed without overflow.
        n = self.total_count
        log_factorials = [jitgrad.lgamma(count + 1) for count in (n, value, n - value)]
        log_denominator = _clamp_by_zero(self.logits) + jitgrad.log1p(jitgrad.exp(-jitgrad.abs(self.logits)))
        normalize_term = n * log_denominator - log_factorials[0]
        return value * self.logits - log_factorials[1] - log_factorials[2] - normalize_term

    def _common_count(self, method: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return count

    def entropy(self):
        """By all values; NotImplementedError for different counts in a batch."""
        self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(jitgrad.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        count = self._common_count("enumerate_support")
        return self._enumerated(jitgrad.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)
