"""The gamma function's logarithm.

Positive arguments: a series in 1 / x from 7.5 on; below, the recurrence leads to one interval on which a polynomial is
multiplied by the factor that has the function's zeros. Negative arguments: the reflection formula. It loses digits
close to the zeros between the poles. There lgamma has the recurrence with an exact product, and next to the first four
zeros a polynomial in the distance from them; beside its further zeros, which lie within 1 / 20 of a pole, float64 has
the formula in twice the digits (reflection.py).
"""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.logarithm import log
from jitgrad.kernels.words.power import _wide_log2
from jitgrad.kernels.words.reflection import _lgamma_by_zero, exact_product, lgamma_reflected
from jitgrad.kernels.words.trig import _sin_reduced
from jitgrad.kernels.words.vocabulary import D, T, vectorized, word

__all__ = ["lgamma"]


@word(internal=True)
class _wide_sin:
    """sin(r) for abs(r) <= pi / 2 to 30 bits, in float64 everywhere."""

    def real(r):
        z = r * r
        p = D(-2.550328837003235e-08)
        p = p * z + D(2.7627061172097456e-06)
        p = p * z - D(0.00019843093468807638)
        p = p * z + D(0.008333350531756878)
        p = p * z - D(0.1666666716337204)
        return r + r * z * p


@word(internal=True)
class _lgamma_start:
    """(v, product): lgamma(a) is a polynomial in v and plus or minus the logarithm of a product.

    Plus for 1.25 <= a < 7.5, where v is a - 2 less as many ones as bring it below 1 / 2; minus for
    smaller a. At 1.25, where both come to much the same, the difference loses least.
    """

    def real(a):
        # Literals would be read in the kernel's dtype, which may be float32: these are float64 in both.
        one, half = np.float64(1), np.float64(0.5)
        quarter = half * half
        v, product = a - (one + one), one
        for _ in range(5):
            far = v >= half
            product = product * (v + one) if far else product
            v = v - one if far else v
        below = a < one + quarter
        v = (a - one if a >= half else a) if below else v
        product = (a if a >= half else a * (a + one)) if below else product
        return v, product


@word(internal=True)
class _lgamma_middle:
    """lgamma(v + 2) for -3 / 4 <= v <= 1 / 2."""

    def float32(v):
        t = v + D(0.125)
        p = D(9.943312564061225e-05)
        p = p * t - D(0.00019731025523072977)
        p = p * t + D(0.0002976168164502968)
        p = p * t - D(0.0006260743024516395)
        p = p * t + D(0.0013686482321621646)
        p = p * t - D(0.0029540838851982395)
        p = p * t + D(0.006561733687676307)
        p = p * t - D(0.015252227314028229)
        p = p * t + D(0.0381225110594984)
        p = p * t - D(0.10918087018252066)
        p = p * t + D(0.4358645521767639)
        return v * (v + D(1.0)) * p

    def float64(v):
        t = v + 0.125
        p = 1.3736661770283546e-07
        p = p * t - 2.6160485185704703e-07
        p = p * t + 2.3043999612071916e-07
        p = p * t - 4.6948636468185993e-07
        p = p * t + 1.179069831795578e-06
        p = p * t - 2.323428477160938e-06
        p = p * t + 4.494348157509546e-06
        p = p * t - 8.975349713373035e-06
        p = p * t + 1.8028808585592163e-05
        p = p * t - 3.632151921461649e-05
        p = p * t + 7.36159917807771e-05
        p = p * t - 0.00015031765410415904
        p = p * t + 0.0003097323724536263
        p = p * t - 0.0006455970857202277
        p = p * t + 0.0013661088707803712
        p = p * t - 0.0029506371998197813
        p = p * t + 0.0065619712415999785
        p = p * t - 0.015252472846072564
        p = p * t + 0.03812250298427572
        p = p * t - 0.10918086531277564
        p = p * t + 0.43586455222115017
        return v * (v + 1.0) * p


@word(internal=True)
class _lgamma_factors:
    """(v, p, e): lgamma(-a) = lgamma(2 + v) - log(p + e) for 3 / 2 < a < 17 / 2.

    With k an integer next to a and v = k - a, between -3 / 4 and 1 / 2, 2 + v is -a + (k + 2), and p + e is the product
    of the k + 2 numbers -a, 1 - a, ..., k + 1 - a without signs: |v| (1 + v) (1 - v) (2 - v) ... (k - v), all of which
    are exact. e is what rounding took off the product.
    """

    def float64(a):
        k = 2.0 if a < 2.75 else np.rint(a)  # between the first two zeros lgamma(2 + v) is so the smaller one
        v = k - a
        p, e = exact_product(np.abs(v), 1.0 + v)
        m = 1.0
        for _ in range(8):
            factor = m - v if m <= k else 1.0
            p, rest = exact_product(p, factor)
            e = e * factor + rest
            m = m + 1.0
        return v, p, e


@word(internal=True)
class _lgamma_series:
    """lgamma(a) for a >= 15 / 2 and its logarithm: (a - 1/2) log(a) - a + log(2 pi) / 2 + 1 / (12 a) - ..."""

    def float32(a, logarithm):
        z = D(1.0) / (a * a)
        p = D(-0.002760393164147964)
        p = p * z + D(0.0833332565202409)
        # 0.4189 = log(2 pi) / 2 - 1/2
        return (a - D(0.5)) * (logarithm - D(1.0)) + (D(0.4189385332046727) + p / a)

    def float64(a, logarithm):
        z = 1.0 / (a * a)
        p = 0.004851151043819418
        p = p * z - 0.001879814355892945
        p = p * z + 0.0008412724765653173
        p = p * z - 0.0005952348448018029
        p = p * z + 0.0007936507825608188
        p = p * z - 0.0027777777777622204
        p = p * z + 0.08333333333333333
        return (a - 0.5) * (logarithm - 1.0) + (0.4189385332046727 + p / a)


_POSITIVE = {"float32": (0.0, 3.4028234663852886e38), "float64": (0.0, 1.7976931348623157e308)}


@word(internal=True, ulp={"float32": 1, "float64": 4})
class lgamma_positive:
    """The logarithm of the gamma function where x is within `WORDS["lgamma"].near`."""

    def float32(x):
        a = np.float64(x)
        v, product = _lgamma_start(a)
        large = a >= D(7.5)
        logarithm = _wide_log2(a if large else product) * D(0.6931471805599453)
        middle = _lgamma_middle(v) + (logarithm if a >= D(1.25) else -logarithm)
        y = _lgamma_series(a, logarithm) if large else middle
        return T(np.inf) if x == 0.0 else np.float32(y)

    def float64(x):
        v, product = _lgamma_start(x)
        large = x >= 7.5
        logarithm = log(x if large else product)
        middle = _lgamma_middle(v) + (logarithm if x >= 1.25 else -logarithm)
        return _lgamma_series(x, logarithm) if large else middle


@word(
    vectorized(math.lgamma), cuda="math.lgamma", ulp={"float32": 1, "float64": 4}, near=("lgamma_positive", _POSITIVE)
)
class lgamma:
    """The logarithm of the absolute value of the gamma function."""

    def float32(x):
        a = np.float64(np.abs(x))
        v, product = _lgamma_start(a)
        large = a >= D(7.5)
        logarithm = _wide_log2(a if large else product) * D(0.6931471805599453)
        middle = _lgamma_middle(v) + (logarithm if a >= D(1.25) else -logarithm)
        y = _lgamma_series(a, logarithm) if large else middle
        # Reflection: lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a).
        part = a - np.floor(a)
        sine = _wide_sin(D(3.141592653589793) * (part if part < D(0.5) else D(1.0) - part))
        mirrored = _wide_log2(D(3.141592653589793) / (a * sine)) * D(0.6931471805599453) - y
        # Below 1e-20 lgamma(-a) is -log(a), as lgamma(a) is; a * sine would vanish.
        y = mirrored if (x < 0.0) & (a > D(1e-20)) else y
        pole = (a == T(np.inf)) | ((x <= 0.0) & (part == D(0.0)))
        return T(np.inf) if pole else np.float32(y)

    def float64(x):
        if x >= 0.0:
            return lgamma_positive(x)
        a = -x
        part = a - np.floor(a)
        if (part == 0.0) | (a == np.inf):
            return T(np.inf)
        if (a > 1.5) & (a < 8.5):
            # Between its poles the function has zeros, near which it is small and the reflection's terms are not.
            near, at_zero = _lgamma_by_zero(x)
            if near:
                return at_zero
            offset, factors, rest = _lgamma_factors(a)
            y, small = _lgamma_middle(offset) - log(factors) - rest / factors, 0.4
        else:
            y = lgamma_positive(a)
            small = 0.6 * y
            if a > 1e-20:  # below, lgamma(-a) is -log(a), as lgamma(a) is
                sine = _sin_reduced(3.141592653589793 * (part if part < 0.5 else 1.0 - part))
                y = log(3.141592653589793 / (a * sine)) - y
        if (a > 4.0) & (np.abs(y) < small):
            return lgamma_reflected(a)
        return y
