"""The one-hot categorical distribution relaxed to the simplex, whose samples have gradients."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.categorical import Categorical
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.probs_or_logits import ByCategorical
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import ExpTransform
from jitgrad.distributions.utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(ByCategorical):
    """The logarithms of ``RelaxedOneHotCategorical``."""

    support: Any = constraints.real_vector
    has_rsample = True
    expand = expands("_categorical", same=("temperature",))

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self.temperature = temperature
        self._init_over(Categorical(probs, logits), validate_args)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        uniforms = clamp_probs(jitgrad.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbels = -(-uniforms.log()).log()
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    @validated
    def log_prob(self, value):
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        log_scale = jitgrad.full_like(self.temperature, float(k)).lgamma() + self.temperature.log() * (k - 1)
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """On the simplex, closer to its corners the smaller the tensor ``temperature``; of ``probs`` or ``logits``."""

    arg_constraints: Any = ByCategorical.arg_constraints
    support: Any = constraints.simplex
    has_rsample = True
    temperature, logits, probs = (attribute(f"base_dist.{name}") for name in ("temperature", "logits", "probs"))
    expand = expands()

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None):
        base_dist = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base_dist, ExpTransform(), validate_args=validate_args)
