"""Digamma, the derivative of the gamma function's logarithm.

Positive arguments: a series in 1 / x from 10 on; below, the recurrence leads to one interval on which a polynomial is
multiplied by the factor that has the function's zero. Negative arguments: the reflection formula, beside the zeros
between the poles in twice the digits (reflection.py).
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.gamma import _wide_sin
from jitgrad.kernels.words.logarithm import log
from jitgrad.kernels.words.power import _wide_log2
from jitgrad.kernels.words.reflection import digamma_reflected
from jitgrad.kernels.words.vocabulary import D, T, horner, word

__all__ = ["digamma"]


@word(internal=True)
class _digamma_start:
    """(w, total) with digamma(a) = digamma(1 + w) + total and 0 <= w < 1, for 0 < a < 10.

    The sum of 1 / (a - k) is gathered as one fraction: one division, not eight.
    """

    def real(a):
        one, zero = np.float64(1), np.float64(0)
        y, above, below = a, zero, one
        # digamma(y + 1) = digamma(y) + 1 / y; eight steps lead from below 10 to below 2.
        for _ in range(8):
            far = y >= one + one
            y = y - one if far else y
            above = above * y + below if far else above
            below = below * y if far else below
        tiny = a < one
        total = -one / a if tiny else above / below
        return a if tiny else y - one, total


@word(internal=True)
class _digamma_middle:
    """digamma(1 + w) for 0 <= w <= 1, of which a small w is not rounded; its zero is given to twice the digits."""

    def float32(w):
        v = w - D(0.5)
        p = D(0.01108385213948409)
        p = p * v - D(0.01638420884104666)
        p = p * v + D(0.01698717176327324)
        p = p * v - D(0.02578083436694424)
        p = p * v + D(0.04087960456312525)
        p = p * v - D(0.06205702397085176)
        p = p * v + D(0.09498207738936881)
        p = p * v - D(0.14839878490975192)
        p = p * v + D(0.24054261582233702)
        p = p * v - D(0.42362749889810625)
        p = p * v + D(0.9510558756342902)
        return (w - D(0.46163214496836225)) * p

    def float64(w):
        v = w - 0.5
        p = -8.316042158238228e-05
        p = p * v + 0.00012238837845953877
        p = p * v - 5.882922762885191e-05
        p = p * v + 9.162598135038049e-05
        p = p * v - 0.00021931971988597168
        p = p * v + 0.0003268707400444211
        p = p * v - 0.0004594463434893086
        p = p * v + 0.0006899503663650104
        p = p * v - 0.001042376786706861
        p = p * v + 0.0015635724278844603
        p = p * v - 0.002344633314992849
        p = p * v + 0.003518079480694872
        p = p * v - 0.005280019419713503
        p = p * v + 0.007927024118905545
        p = p * v - 0.01190821507471446
        p = p * v + 0.017907248193248626
        p = p * v - 0.026975796847933897
        p = p * v + 0.040760833944711264
        p = p * v - 0.06192213327158112
        p = p * v + 0.09498872445282866
        p = p * v - 0.14840492305391834
        p = p * v + 0.24054248424078736
        p = p * v - 0.42362742128146047
        p = p * v + 0.9510558760318328
        return ((w - 0.46163214496836225) - 9.549995429965697e-17) * p


@word(internal=True)
class _digamma_limits:
    """digamma(x) from its value y for other arguments: poles, zeros' signs, infinities."""

    def real(x, y):
        pole = (x < 0.0) & (np.floor(x) == x)
        y = T(np.nan) if pole else y
        y = np.copysign(T(np.inf), -x) if x == 0.0 else y
        return x if x == T(np.inf) else y


@word(internal=True)
class _digamma_series:
    """digamma(a) for a >= 10: log(a) - 1 / (2 a) - 1 / (12 a**2) + 1 / (120 a**4) - ..."""

    def float64(a):
        z = 1.0 / (a * a)
        p = 0.06851963108272774
        p = p * z - 0.02087288550806163
        p = p * z + 0.007574037575353192
        p = p * z - 0.004166659310503335
        p = p * z + 0.003968253951811115
        p = p * z - 0.008333333333316897
        p = p * z + 0.08333333333333333
        return log(a) - 0.5 / a - z * p


@word(internal=True)
class _pi_cotangent:
    """pi cot(pi r) for 0 < abs(r) <= 1 / 2: its pole less r p(r**2), or next to 1 / 2, where it vanishes, s q(s**2).

    s is the distance from 1 / 2; p and q are Chebyshev's approximations.
    """

    def float64(r):
        if np.abs(r) < 0.34:
            p = horner(
                r * r, 4.132595459931988, 1.2662276751394101, 2.1360285183188616, 1.9844130205282502,
                2.001196539660707, 2.000064771973328, 2.000494045238594, 2.0019891118963833, 2.0081547128584147,
                2.034686123966023, 2.1646464674222834, 3.289868133696453,
            )  # fmt: skip
            return 1.0 / r - r * p
        s = np.copysign(0.5, r) - r
        p = horner(
            s * s, 63599238.940677285, 6130966.634135769, 2189207.915474, 521960.2985544368, 131110.44170953456,
            32767.58621010606, 8192.018466074702, 2048.0348870338976, 512.0794516974498, 128.18522580999036,
            32.469697011334176, 9.869604401089358,
        )  # fmt: skip
        return s * p


@word(internal=True)
class _digamma_above:
    """digamma(1 + a) for 0 < a < 10, the inverses from 1 + w to a added with what rounding takes off their sum."""

    def float64(a):
        w = a - np.floor(a)
        total, low = 0.0, 0.0
        while a >= 1.0:
            term = 1.0 / a
            grown = total + term
            # The difference from the greater of both is exact.
            low += (term - (grown - total)) if total > term else (total - (grown - term))
            total = grown
            a -= 1.0
        return total + (low + _digamma_middle(w))


@word(internal=True, ulp={"float64": 4})
class digamma_positive:
    """The derivative of lgamma where x is within `WORDS["digamma"].near`."""

    def float64(x):
        start, total = _digamma_start(x)
        y = _digamma_series(x) if x >= 10.0 else _digamma_middle(start) + total
        return x if x == T(np.inf) else y


_ABOVE_ZERO = {"float64": (5e-324, 1.7976931348623157e308)}


@word(ulp={"float32": 1, "float64": 4}, near=("digamma_positive", _ABOVE_ZERO))
class digamma:
    """The derivative of lgamma; NaN at negative integers, infinite at 0 by its sign."""

    def float32(x):
        a = np.float64(np.abs(x))
        start, total = _digamma_start(a)
        z = D(1.0) / (a * a)
        p = D(0.003847923736324775)
        p = p * z - D(0.008332258282222121)
        p = p * z + D(0.083333330587243)
        # log(a) - 1 / (2 a) - 1 / (12 a**2) + 1 / (120 a**4) - ...
        series = _wide_log2(a) * D(0.6931471805599453) - D(0.5) / a - z * p
        middle = _digamma_middle(start)
        y = series if a >= D(10.0) else middle + total
        # Reflection: digamma(-a) = digamma(a) + 1 / a + pi / tan(pi a).
        part = a - np.rint(a)
        sine = _wide_sin(D(3.141592653589793) * part)
        cosine = _wide_sin(D(3.141592653589793) * (D(0.5) - np.abs(part)))
        mirrored = middle if a < D(1.0) else y + D(1.0) / a
        mirrored = mirrored + D(3.141592653589793) * cosine / sine
        return _digamma_limits(x, np.float32(mirrored if x < 0.0 else y))

    def float64(x):
        if not x < 0.0:
            return np.copysign(T(np.inf), -x) if x == 0.0 else digamma_positive(x)
        a = -x
        part = a - np.rint(a)
        if (part == 0.0) | (a == np.inf):
            return T(np.nan)
        # Reflection: digamma(-a) = digamma(1 + a) + pi cot(pi a).
        above = _digamma_series(a) + 1.0 / a if a >= 10.0 else _digamma_above(a)
        below = _pi_cotangent(part)
        y = above + below
        return digamma_reflected(a) if np.abs(y) < 0.5 * np.maximum(np.abs(above), np.abs(below)) else y
