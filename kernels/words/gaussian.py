"""The normal distribution's density and its mass below x, which share an exponential: what `gelu` is made of.

In float32 the mass has an error of 1e-7 of the whole, not of itself where it is small; `special_ndtr` (normal.py) is
accurate there, and several times slower.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.error_function import erf
from jitgrad.kernels.words.exponential import _exp_tail, _nearest, _two_to, exp
from jitgrad.kernels.words.vocabulary import by_scipy, word

__all__ = ["normal_density", "normal_mass"]


@word(internal=True)
class _bell:
    """exp(-a * a / 2) for a >= 0; in float32 what would be denormal is 0."""

    def float32(a):
        # By the bound n is -127, of which `_two_to` makes 0. ln 2 as one float32 is off by 2e-9, so the relative error
        # is 2e-9 |n|; as the result is below 2**(n + 1), the absolute error stays below 3e-9.
        a = 13.27 if a > 13.27 else a
        y = -0.5 * (a * a)
        whole, n = _nearest(y * 1.4426950408889634)
        scale = _two_to(n)
        return scale + scale * _exp_tail(y - whole * 0.6931471805599453)

    def float64(a):
        return exp(-0.5 * (a * a))


def _density(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


@word(_density)
class normal_density:
    """exp(-x * x / 2) / sqrt(2 pi)."""

    def real(x):
        return _bell(np.abs(x)) * 0.3989422804014327


@word(by_scipy("ndtr"))
class normal_mass:
    """The normal distribution's mass below x."""

    def float32(x):
        a = np.abs(x)
        bell = _bell(a)
        a = 13.27 if a > 13.27 else a
        # exp(a * a / 2) times the mass beyond a, for a up to 5.6; beyond, the exponential is small enough for any.
        p = -3.238442616293469e-07
        p = p * a + 7.879536497057416e-06
        p = p * a - 8.626954513601959e-05
        p = p * a + 0.000571004580706358
        p = p * a - 0.0026122890412807465
        p = p * a + 0.009046659804880619
        p = p * a - 0.02552480436861515
        p = p * a + 0.06196513772010803
        p = p * a - 0.13282491266727448
        p = p * a + 0.24997738003730774
        p = p * a - 0.39894112944602966
        p = p * a + 0.5
        beyond = bell * p
        return 1.0 - beyond if x > 0.0 else beyond

    def float64(x):
        return 0.5 * (1.0 + erf(x * 0.7071067811865476))
