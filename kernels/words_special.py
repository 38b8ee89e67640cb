"""Error functions, the gamma function's logarithm and its derivative."""

from __future__ import annotations

import math

from jitgrad.kernels.words_registry import word

__all__ = ["erf", "erfc", "lgamma"]


@word(cuda="math.erf")
class erf:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""

    def real(x):
        return math.erf(x)


@word(cuda="math.erfc")
class erfc:
    """1 - erf(x), without cancellation for large x."""

    def real(x):
        return math.erfc(x)


@word(cuda="math.lgamma")
class lgamma:
    """The logarithm of the absolute value of the gamma function."""

    def real(x):
        return math.lgamma(x)
