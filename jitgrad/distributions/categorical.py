"""The categorical distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.probs_or_logits import ProbsOrLogits, one_of

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits):
    """A class 0 ... K - 1, along the last dim of ``probs``, normalised, or of ``logits``, their logarithms."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    expand = expands("probs", "logits", "_param", same=("_num_events",))

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None):
        name = one_of(probs, logits)
        given = probs if logits is None else logits
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self._param = self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self._param = self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        """NaN: classes have no order."""
        return jitgrad.full(self._extended_shape(), jitgrad.nan, dtype=self.probs.dtype, device=self.probs.device)

    variance = mean

    @property
    def mode(self):
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape=Size()):  # noqa: B008
        sample_shape = Size(sample_shape)
        probs = self.probs.reshape(-1, self._num_events)
        return jitgrad.multinomial(probs, sample_shape.numel(), True).T.reshape(self._extended_shape(sample_shape))

    @validated
    def log_prob(self, value):
        classes, log_probs = jitgrad.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_probs.gather(-1, classes[..., :1]).squeeze(-1)

    def entropy(self):
        # A logit of minus infinity counts as 0, that of an impossible class.
        logits = self.logits.clamp(min=jitgrad.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = jitgrad.arange(self._num_events, dtype=jitgrad.long, device=self._param.device)
        return self._enumerated(values, expand)
