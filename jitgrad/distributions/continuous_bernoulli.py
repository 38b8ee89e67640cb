"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.probs_or_logits import ProbsOrLogits, one_of
from jitgrad.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """On [0, 1], with a density proportional to probs^x (1 - probs)^(1 - x).

    Formulas are 0 / 0 at ``probs`` of 1 / 2; between ``lims`` Taylor's polynomials take their place.
    """

    support: Any = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    expand = expands("probs", "logits", "_param", same=("_lims",))

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: Any = None,
    ):  # fmt: skip
        if one_of(probs, logits) == "probs":
            (probs,) = broadcast_all(probs)
            # Checked before they are clamped.
            if validate_args is not None and not self.arg_constraints["probs"].check(probs).all():
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(probs)
        self._set(probs, logits)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self):
        """Probabilities, of the logits."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _by_region(self, formula: Any, near_half: Tensor) -> Tensor:
        """``formula(probs)`` outside of the limits, where it is stable; ``near_half`` between them."""
        return jitgrad.where(self._outside_unstable_region(), formula(self._cut_probs()), near_half)

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        return jitgrad.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of what normalises the density."""

        def formula(p: Tensor) -> Tensor:
            below = jitgrad.where(p <= 0.5, p, 0)
            above = jitgrad.where(p >= 0.5, p, 1)
            distance = jitgrad.where(p <= 0.5, jitgrad.log1p(-2 * below), jitgrad.log(2 * above - 1))
            return jitgrad.log(jitgrad.abs(jitgrad.log1p(-p) - jitgrad.log(p))) - distance

        x = (self.probs - 0.5) ** 2
        return self._by_region(formula, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self):
        x = self.probs - 0.5
        return self._by_region(
            lambda p: p / (2 * p - 1) + 1 / (jitgrad.log1p(-p) - jitgrad.log(p)), 0.5 + (1 / 3 + 16 / 45 * x**2) * x
        )

    @property
    def variance(self):
        x = (self.probs - 0.5) ** 2
        return self._by_region(
            lambda p: p * (p - 1) / (1 - 2 * p) ** 2 + 1 / (jitgrad.log1p(-p) - jitgrad.log(p)) ** 2,
            1 / 12 - (1 / 15 - 128 / 945 * x) * x,
        )

    def _uniforms(self, sample_shape: Any) -> Tensor:
        return jitgrad.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            return self.icdf(self._uniforms(sample_shape))

    def rsample(self, sample_shape=Size()):  # noqa: B008
        return self.icdf(self._uniforms(sample_shape))

    @validated
    def log_prob(self, value):
        return -self._bce(*broadcast_all(self.logits, value)) + self._cont_bern_log_norm()

    @validated
    def cdf(self, value):
        inside = self._by_region(lambda p: (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1), value)
        return jitgrad.where(value <= 0, 0, jitgrad.where(value >= 1, 1, inside))

    def icdf(self, value):
        def formula(p: Tensor) -> Tensor:
            failure = jitgrad.log1p(-p)
            return (jitgrad.log1p(-p + value * (2 * p - 1)) - failure) / (jitgrad.log(p) - failure)

        return self._by_region(formula, value)

    def entropy(self):
        log_failure, log_success = jitgrad.log1p(-self.probs), jitgrad.log(self.probs)
        return self.mean * (log_failure - log_success) - self._cont_bern_log_norm() - log_failure

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log((e^x - 1) / x), by Taylor's polynomial where that is close to 0 / 0."""
        low, high = (limit - 0.5 for limit in self._lims)
        outside = (x <= low) | (x > high)
        cut = jitgrad.where(outside, x, low)
        formula = jitgrad.log(jitgrad.abs(jitgrad.expm1(cut))) - jitgrad.log(jitgrad.abs(cut))
        return jitgrad.where(outside, formula, 0.5 * x + x**2 / 24 - x**4 / 2880)
