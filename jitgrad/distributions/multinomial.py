"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.binomial import Binomial
from jitgrad.distributions.categorical import Categorical
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.probs_or_logits import ByCategorical
from jitgrad.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(ByCategorical):
    """How often each class is drawn in ``total_count`` draws, an int; along the last dim of ``probs`` or ``logits``."""

    expand = expands("_categorical", "_binomial", same=("total_count",))

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: Any = None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=categorical.probs)
        self._init_over(categorical, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):  # noqa: B008
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, jitgrad.ones_like(drawn)).type_as(self.probs)

    def entropy(self):
        n = jitgrad.tensor(self.total_count)
        support = self._binomial.enumerate_support(expand=False)[1:]
        probs = jitgrad.exp(self._binomial.log_prob(support))
        log_factorials = (probs * jitgrad.lgamma(support + 1)).sum([0, -1])
        return n * self._categorical.entropy() - jitgrad.lgamma(n + 1) + log_factorials

    @validated
    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        # 0 times a logarithm of 0 counts as 0.
        logits = jitgrad.where((value == 0) & (logits == -jitgrad.inf), 0, logits)
        log_ways = jitgrad.lgamma(value.sum(-1) + 1) - jitgrad.lgamma(value + 1).sum(-1)
        return log_ways + (logits * value).sum(-1)
