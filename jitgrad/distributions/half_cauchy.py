"""The half-Cauchy distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.distributions.cauchy import Cauchy
from jitgrad.distributions.distribution import attribute, expands, validated
from jitgrad.distributions.half_normal import Halved

__all__ = ["HalfCauchy"]


class HalfCauchy(Halved):
    """|x| for x of ``Cauchy(0, scale)``."""

    expand = expands()
    variance = attribute("base_dist.variance")

    def __init__(self, scale: Any, validate_args: Any = None):
        self._init_of(Cauchy(0, scale, validate_args=False), validate_args)

    @validated
    def log_prob(self, value):
        return super().log_prob(jitgrad.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))

    @property
    def mean(self):
        return jitgrad.full(self._extended_shape(), jitgrad.inf, dtype=self.scale.dtype, device=self.scale.device)
