"""Orthogonal polynomials by their recurrences in the degree n, whose fraction is dropped; 0 for n < 0."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.vocabulary import word

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
]  # fmt: skip

# In units in the last place errors are not bounded close to zeros.
_UNBOUNDED = {"float64": np.inf}


@word(internal=True)
class _degree:
    """n without its fraction; -1 below 0, and for NaN."""

    def float64(n):
        return np.int64(min(n, 9e18)) if n > -1.0 else np.int64(-1)


@word(internal=True)
class _alternating:
    """`value`, negated for an odd n."""

    def float64(n, value):
        return -value if n % 2 else value


@word(internal=True)
class _by_chebyshev:
    """The n-th of the sequence 1, second, ... whose every term is 2 x times the one before less that before it."""

    def float64(x, n, second):
        before, value, k = 1.0, second, 1
        # A NaN, which stays one, ends it early: of infinite terms.
        while (k < n) & (value == value):
            before, value, k = value, (x + x) * value - before, k + 1
        return value if n > 0 else 1.0


@word(ulp=_UNBOUNDED)
class chebyshev_polynomial_t:
    """Chebyshev's polynomial of the first kind: cos(n t) at x = cos(t)."""

    def float64(x, n):
        n = _degree(n)
        if n < 0:
            return 0.0
        if (n > 6) & (np.abs(x) < 1.0):
            return np.cos(n * np.arccos(x))
        if np.abs(x) == 1.0:
            return 1.0 if x > 0.0 else _alternating(n, 1.0)
        return _by_chebyshev(x, n, x)


@word(ulp=_UNBOUNDED)
class chebyshev_polynomial_u:
    """Chebyshev's polynomial of the second kind: sin((n + 1) t) / sin(t) at x = cos(t)."""

    def float64(x, n):
        n = _degree(n)
        if n < 0:
            return 0.0
        if (n > 8) & (np.abs(x) < 1.0):
            angle = np.arccos(x)
            return np.sin((n + 1.0) * angle) / np.sin(angle)
        if np.abs(x) == 1.0:
            return n + 1.0 if x > 0.0 else _alternating(n, n + 1.0)
        return _by_chebyshev(x, n, x + x)


@word(ulp=_UNBOUNDED)
class chebyshev_polynomial_v:
    """Chebyshev's polynomial of the third kind: cos((n + 1 / 2) t) / cos(t / 2) at x = cos(t)."""

    def float64(x, n):
        n = _degree(n)
        if n < 0:
            return 0.0
        if (n > 8) & (np.abs(x) < 1.0):
            angle = np.arccos(x)
            return np.cos((n + 0.5) * angle) / np.cos(0.5 * angle)
        if np.abs(x) == 1.0:
            return 1.0 if x > 0.0 else _alternating(n, n + n + 1.0)
        return _by_chebyshev(x, n, x + x - 1.0)


@word(ulp=_UNBOUNDED)
class chebyshev_polynomial_w:
    """Chebyshev's polynomial of the fourth kind: sin((n + 1 / 2) t) / sin(t / 2) at x = cos(t)."""

    def float64(x, n):
        n = _degree(n)
        if n < 0:
            return 0.0
        if (n > 8) & (np.abs(x) < 1.0):
            angle = np.arccos(x)
            return np.sin((n + 0.5) * angle) / np.sin(0.5 * angle)
        if np.abs(x) == 1.0:
            return n + n + 1.0 if x > 0.0 else _alternating(n, 1.0)
        return _by_chebyshev(x, n, x + x + 1.0)


@word(ulp=_UNBOUNDED)
class hermite_polynomial_h:
    """Hermite's polynomial of physics, orthogonal with the weight exp(-x * x); NaN for n > 512."""

    def float64(x, n):
        n = _degree(n)
        if n < 1:
            return 0.0 if n < 0 else 1.0
        if n > 512:
            return np.nan
        before, value = 1.0, x + x
        for k in range(1, n):
            before, value = value, (x + x) * value - (k + k) * before
        return value


@word(ulp=_UNBOUNDED)
class hermite_polynomial_he:
    """Hermite's polynomial of probability theory, orthogonal with the weight exp(-x * x / 2); NaN for n > 512."""

    def float64(x, n):
        n = _degree(n)
        if n < 1:
            return 0.0 if n < 0 else 1.0
        if n > 512:
            return np.nan
        before, value = 1.0, x
        for k in range(1, n):
            before, value = value, x * value - k * before
        return value


@word(ulp=_UNBOUNDED)
class laguerre_polynomial_l:
    """Laguerre's polynomial, orthogonal with the weight exp(-x) for x > 0."""

    def float64(x, n):
        n = _degree(n)
        if n < 1:
            return 0.0 if n < 0 else 1.0
        if x == 0.0:
            return 1.0
        before, value, k = 1.0, 1.0 - x, 1
        while (k < n) & (value == value):
            before, value, k = value, ((k + k + 1.0 - x) * value - k * before) / (k + 1.0), k + 1
        return value


@word(ulp=_UNBOUNDED)
class legendre_polynomial_p:
    """Legendre's polynomial, orthogonal between -1 and 1."""

    def float64(x, n):
        n = _degree(n)
        if n < 1:
            return 0.0 if n < 0 else 1.0
        if np.abs(x) == 1.0:
            return 1.0 if x > 0.0 else _alternating(n, 1.0)
        before, value, k = 1.0, x, 1
        while (k < n) & (value == value):
            before, value, k = value, ((k + k + 1.0) * x * value - k * before) / (k + 1.0), k + 1
        return value
