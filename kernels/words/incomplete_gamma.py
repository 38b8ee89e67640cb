"""The regularised incomplete gamma functions.

For large a and x of about the same size, Temme's uniform expansion; else a power series for x < a, and Legendre's
continued fraction for x > a. Which of the two functions is small is computed, the other one is 1 less that.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.error_function import erfc
from jitgrad.kernels.words.exponential import exp, expm1
from jitgrad.kernels.words.gamma import _lgamma_middle, lgamma_positive
from jitgrad.kernels.words.logarithm import _log1p_tail, log, log1p
from jitgrad.kernels.words.vocabulary import by_scipy, horner, word

__all__ = ["igamma", "igammac"]

# In units in the last place errors grow with the logarithm of a small result.
_UNBOUNDED = {"float64": np.inf}


@word(internal=True)
class _gamma_density:
    """x ** a exp(-x) / gamma(a + 1), without the cancellation of its factors' logarithms for large a."""

    def float64(a, x):
        if a < 10.0:
            return exp(a * log(x) - x - lgamma_positive(a + 1.0))
        m = (x - a) / a
        exponent = _log1p_tail(m) if np.abs(m) < 0.29 else log1p(m) - m
        square = 1.0 / (a * a)
        # Stirling's series, gamma(a + 1) = sqrt(2 pi a) (a / e) ** a exp(1 / (12 a) - ...)
        series = horner(
            square, 0.00641025641025641, -0.0019175269175269176, 0.0008417508417508417, -0.0005952380952380953,
            0.0007936507936507937, -0.002777777777777778, 0.08333333333333333,
        )  # fmt: skip
        return exp(a * exponent - series / a) / np.sqrt(6.283185307179586 * a)


@word(internal=True)
class _gamma_series:
    """P(a, x) by powers of x."""

    def float64(a, x):
        n, term, total = a, 1.0, 1.0
        for _ in range(2000):
            n += 1.0
            term *= x / n
            total += term
            if term <= 1e-17 * total:
                break
        return _gamma_density(a, x) * total


@word(internal=True)
class _gamma_fraction:
    """Q(a, x) by a continued fraction, for x >= a and x > 1."""

    def float64(a, x):
        # Numerator and denominator of the k-th and of the previous convergent, scaled before they overflow.
        top, bottom, before_top, before_bottom = x + 1.0, (x + 2.0 - a) * x, 1.0, x
        value, k = top / bottom, 1.0
        while k < 2000.0:
            b, c = x + 2.0 * k + 2.0 - a, k * (k + 1.0 - a)
            top, before_top = top * b - before_top * c, top
            bottom, before_bottom = bottom * b - before_bottom * c, bottom
            last, value = value, top / bottom
            if np.abs(value - last) <= 1e-16 * value:
                break
            if bottom > 1e200:
                top, before_top = top * 1e-200, before_top * 1e-200
                bottom, before_bottom = bottom * 1e-200, before_bottom * 1e-200
            k += 1.0
        return _gamma_density(a, x) * a * value


@word(internal=True)
class _gamma_near_zero:
    """Q(a, x) where P is close to 1, for small a and x: by the series of P without its leading 1."""

    def float64(a, x):
        n, term, total = 0.0, 1.0, 0.0
        for _ in range(100):
            n += 1.0
            term *= -x / n
            total += term / (a + n)
            if np.abs(term) <= 1e-17 * np.abs(total):
                break
        # The logarithm of gamma(a + 1), exact for small a as well.
        of_gamma = _lgamma_middle(a) - log1p(a) if a < 0.5 else lgamma_positive(a + 1.0)
        exponent = a * log(x) - of_gamma
        return -expm1(exponent) - exp(exponent) * a * total


@word(internal=True)
class _gamma_uniform:
    """(P, Q) for a > 100 and abs(x - a) < 0.29 a, by N. M. Temme's expansion in 1 / a.

    The polynomials are Taylor's of its terms, derived with 60 digits by their recurrence, in a variable whose square
    is 2 (x / a - 1 - log(x / a)).
    """

    def float64(a, x):
        exponent = _log1p_tail((x - a) / a)
        side = np.copysign(1.0, x - a)
        e = side * np.sqrt(-2.0 * exponent)
        c = horner(
            e, 0.0002708782096718045, -0.0005921664373536939, 0.0005313079364639922,
        )  # fmt: skip
        total = c
        c = horner(
            e, 6.797780477937208e-05, -0.00019932570516188847, 0.0002772753244959392, -6.972813758365857e-05,
            -0.00033679855336635813,
        )  # fmt: skip
        total = total / a + c
        c = horner(
            e, 1.1375726970678419e-05, -3.968365047179435e-05, 6.641498215465122e-05, -1.4638452578843418e-06,
            -0.0002990724803031902, 0.0007840392217200666, -0.0008618882909167117,
        )  # fmt: skip
        total = total / a + c
        c = horner(
            e, 1.4230900732435883e-06, -5.6749528269915965e-06, 1.1082654115347302e-05, -2.396505113867297e-07,
            -7.561801671883977e-05, 0.00026772063206283885, -0.0004691894943952557, 0.00022947209362139917,
            0.0006494341563786008,
        )  # fmt: skip
        total = total / a + c
        c = horner(
            e, 1.4280614206064242e-07, -6.298992138380055e-07, 1.3721957309062934e-06, 3.423578734096138e-08,
            -1.2760635188618728e-05, 5.2923448829120125e-05, -0.0001073665322636516, 2.0093878600823047e-06,
            0.0007716049382716049, -0.0026813271604938273, 0.004133597883597883,
        )  # fmt: skip
        total = total / a + c
        c = horner(
            e, 1.1951628599778148e-08, -5.752545603517705e-08, 1.378633446915721e-07, 4.647127802807434e-09,
            -1.6120900894563446e-06, 7.64916091608111e-06, -1.8098550334489977e-05, -4.018775720164609e-07,
            0.00020576131687242798, -0.0009902263374485596, 0.0026455026455026454, -0.003472222222222222,
            -0.001851851851851852,
        )  # fmt: skip
        total = total / a + c
        c = horner(
            e, 9.14769958223679e-10, -4.382036018453353e-09, 1.0261809784240309e-08, 6.707853543401498e-09,
            -1.7665952736826078e-07, 8.296711340953087e-07, -1.85406221071516e-06, -2.185448510679992e-06,
            3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194, 0.0011574074074074073,
            -0.014814814814814815, 0.08333333333333333, -0.3333333333333333,
        )  # fmt: skip
        total = total / a + c
        rest = total * exp(a * exponent) / np.sqrt(6.283185307179586 * a)
        small = 0.5 * erfc(np.sqrt(-a * exponent)) + side * rest
        return (1.0 - small, small) if side > 0.0 else (small, 1.0 - small)


@word(internal=True)
class _gamma_pair:
    """(P, Q) for finite a > 0 and x > 0."""

    def float64(a, x):
        if (a > 100.0) & (np.abs(x - a) < 0.29 * a):
            return _gamma_uniform(a, x)
        if x <= 1.1:
            p = _gamma_series(a, x)
            return p, 1.0 - p if p < 0.5 else _gamma_near_zero(a, x)
        if x < a:
            p = _gamma_series(a, x)
            return p, 1.0 - p
        q = _gamma_fraction(a, x)
        return 1.0 - q, q


@word(internal=True)
class _gamma_limits:
    """P at the ends of the ranges of a and x, -1 between them."""

    def float64(a, x):
        if (not (a >= 0.0)) | (not (x >= 0.0)) | ((a == 0.0) & (x == 0.0)) | ((a == np.inf) & (x == np.inf)):
            return np.nan
        if (a == 0.0) | (x == np.inf):
            return 1.0
        return 0.0 if (x == 0.0) | (a == np.inf) else -1.0


@word(by_scipy("gammainc"), ulp=_UNBOUNDED)
class igamma:
    """P(a, x), the integral of t ** (a - 1) exp(-t) / gamma(a) from 0 to x; NaN if a or x is negative.

    Off by some 1e-14 of itself; far from 1 by as many units in the last place as its logarithm is large.
    """

    def float64(a, x):
        limit = _gamma_limits(a, x)
        return _gamma_pair(a, x)[0] if limit == -1.0 else limit


@word(by_scipy("gammaincc"), ulp=_UNBOUNDED)
class igammac:
    """Q(a, x) = 1 - P(a, x), the integral of t ** (a - 1) exp(-t) / gamma(a) from x on; as exact as `igamma`."""

    def float64(a, x):
        limit = _gamma_limits(a, x)
        return _gamma_pair(a, x)[1] if limit == -1.0 else 1.0 - limit
