"""The inverses of the circular functions, and the polar form's two."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words_registry import word

__all__ = ["acos", "asin", "atan", "atan2", "hypot"]


@word(np.arcsin, cuda="math.asin")
class asin:
    """The inverse sine."""

    def any(x):
        return np.arcsin(x)


@word(np.arccos, cuda="math.acos")
class acos:
    """The inverse cosine."""

    def any(x):
        return np.arccos(x)


@word(np.arctan, cuda="math.atan")
class atan:
    """The inverse tangent."""

    def any(x):
        return np.arctan(x)


@word(np.arctan2, cuda="math.atan2")
class atan2:
    """The angle of the point (x, y), from -pi to pi."""

    def real(y, x):
        return np.arctan2(y, x)


@word(np.hypot, cuda="math.hypot")
class hypot:
    """The square root of a*a + b*b, without overflow on the way."""

    def real(a, b):
        return np.hypot(a, b)
