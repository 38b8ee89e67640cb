"""The Bernoulli distribution relaxed to (0, 1), whose samples have gradients."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.probs_or_logits import ProbsOrLogits
from jitgrad.distributions.transformed_distribution import TransformedDistribution
from jitgrad.distributions.transforms import SigmoidTransform
from jitgrad.distributions.utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The log-odds of ``RelaxedBernoulli``."""

    support: Any = constraints.real
    expand = expands("probs", "logits", "_param", same=("temperature",))

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None):
        self.temperature = temperature
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniforms = clamp_probs(jitgrad.rand(shape, dtype=probs.dtype, device=probs.device))
        noise = uniforms.log() - (-uniforms).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    @validated
    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """On (0, 1), closer to 0 or 1 the smaller the tensor ``temperature``; of ``probs`` or ``logits``."""

    arg_constraints: Any = ProbsOrLogits.arg_constraints
    support: Any = constraints.unit_interval
    has_rsample = True
    temperature, logits, probs = (attribute(f"base_dist.{name}") for name in ("temperature", "logits", "probs"))
    expand = expands()

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None):
        base_dist = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base_dist, SigmoidTransform(), validate_args=validate_args)
