"""Fisher and Snedecor's F distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, expands, validated
from jitgrad.distributions.gamma import Gamma
from jitgrad.distributions.utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """(x / df1) / (y / df2) for x, y of the chi-squared distributions of ``df1`` and ``df2``."""

    arg_constraints: Any = {"df1": constraints.positive, "df2": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True
    expand = expands("df1", "df2", "_gamma1", "_gamma2")

    def __init__(self, df1: Any, df2: Any, validate_args: Any = None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = (Gamma(df * 0.5, df) for df in (self.df1, self.df2))
        super().__init__(self.df1.size(), validate_args=validate_args)

    def _df2_above(self, bound: int) -> Any:
        return jitgrad.where(self.df2 <= bound, jitgrad.nan, self.df2)

    @property
    def mean(self):
        df2 = self._df2_above(2)
        return df2 / (df2 - 2)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return jitgrad.where(self.df1 <= 2, jitgrad.nan, mode)

    @property
    def variance(self):
        df2 = self._df2_above(4)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        above, below = (gamma.rsample(sample_shape).view(shape) for gamma in (self._gamma1, self._gamma2))
        tiny = jitgrad.finfo(below.dtype).tiny
        return (above / below.clamp_(min=tiny)).clamp_(min=tiny)

    @validated
    def log_prob(self, value):
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_beta = half1.lgamma() + half2.lgamma() - (half1 + half2).lgamma()
        powers = half1 * ratio.log() + (half1 - 1) * jitgrad.log(value)
        return powers - log_beta - (half1 + half2) * jitgrad.log1p(ratio * value)
