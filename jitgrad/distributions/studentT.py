"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.chi2 import Chi2
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated
from jitgrad.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """loc + scale x / sqrt(z / df) for a standard normal x and z of the chi-squared distribution of ``df``."""

    arg_constraints: Any = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    mode = attribute("loc")
    expand = expands("df", "loc", "scale", "_chi2")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: Any = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self):
        """NaN where df <= 1."""
        return jitgrad.where(self.df <= 1, jitgrad.nan, self.loc)

    @property
    def variance(self):
        """Infinite where df <= 2, NaN where df <= 1."""
        finite = self.df > 2
        df = jitgrad.where(finite, self.df, 3)
        variance = jitgrad.where(finite, self.scale.pow(2) * df / (df - 2), jitgrad.inf)
        return jitgrad.where(self.df <= 1, jitgrad.nan, variance)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * jitgrad.rsqrt(z / self.df))

    def _log_beta(self) -> Any:
        """log(gamma(df / 2) gamma(1 / 2) / gamma((df + 1) / 2))."""
        return jitgrad.lgamma(0.5 * self.df) + 0.5 * math.log(math.pi) - jitgrad.lgamma(0.5 * (self.df + 1.0))

    @validated
    def log_prob(self, value):
        y = (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1.0) * jitgrad.log1p(y**2.0 / self.df) - z

    def entropy(self):
        half = 0.5 * (self.df + 1)
        digammas = jitgrad.digamma(half) - jitgrad.digamma(0.5 * self.df)
        return self.scale.log() + half * digammas + 0.5 * self.df.log() + self._log_beta()
