"""The categorical distribution over vectors of zeros and a one."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.categorical import Categorical
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.probs_or_logits import ByCategorical

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(ByCategorical):
    """A class along the last dim of ``probs`` or ``logits``, as a vector with a 1 in its place."""

    support: Any = constraints.one_hot
    has_enumerate_support = True
    _param = attribute("_categorical._param")
    mean = attribute("_categorical.probs")
    expand = expands("_categorical")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self._init_over(Categorical(probs, logits), validate_args)

    def _one_hot(self, classes: Any) -> Any:
        return jitgrad.nn.functional.one_hot(classes, self._categorical._num_events).to(self.probs)

    @property
    def mode(self):
        return self._one_hot(self.probs.argmax(dim=-1))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):  # noqa: B008
        return self._one_hot(self._categorical.sample(Size(sample_shape)))

    @validated
    def log_prob(self, value):
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        return self._enumerated(jitgrad.eye(n, dtype=self._param.dtype, device=self._param.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, whose ``rsample`` has the gradient that a sample would have if it were ``probs``."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):  # noqa: B008
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
