"""The scaled complementary error function, and the normal distribution with its logarithm and inverse."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.basic import sqrt
from jitgrad.kernels.words.exponential import _exp_reduced, _exp_tail, _scaled
from jitgrad.kernels.words.logarithm import log, log1p
from jitgrad.kernels.words.power import _high
from jitgrad.kernels.words.vocabulary import T, by_scipy, horner, word

__all__ = ["special_erfcx", "special_log_ndtr", "special_ndtr", "special_ndtri"]


@word(internal=True)
class _exp_of_square:
    """exp(factor * x * x) for a power of 2 as factor, the exponent at most 750 in size."""

    def float64(factor, x):
        # The square of the high part is exact, so it leaves nothing for the exponential to magnify.
        high = _high(x)
        n, r = _exp_reduced(factor * (high * high))
        return _scaled(1.0 + _exp_tail(r + factor * ((x - high) * (x + high))), n)


@word(internal=True)
class _erfcx_positive:
    """exp(a * a) erfc(a) for a >= 0: 1 / (1 + 2 a) times a polynomial in (a - 4) / (a + 4)."""

    def float64(a):
        t = 1.0 - 8.0 / (a + 4.0)
        return (horner(
            t, -2.659599690242689e-10, 9.311744978232572e-10, 3.1695881915648173e-09, -1.234686604382353e-08,
            -2.05606492756992e-08, 1.0633855618594884e-07, 7.746992727017941e-08, -8.210939042560568e-07,
            2.919733377963012e-07, 5.706604414895734e-06, -1.1221287012353486e-05, -2.4397746422436416e-05,
            0.0001506214900124047, -0.00019925714661091188, -0.0007577732613730956, 0.005031970067657489,
            -0.016197734059799265, 0.03716751552655567, -0.06633036581218697, 0.0937328349990944,
            -0.10103906603630056, 0.06809705425466908, 0.015379652102619604, -0.1396211168405623, 1.2329951186255526,
        )) / (1.0 + 2.0 * a)  # fmt: skip


@word(by_scipy("erfcx"), ulp={"float64": 6})
class special_erfcx:
    """exp(x * x) times the complementary error function: 1 / (x sqrt(pi)) for large x, infinite below -26.7."""

    def float64(x):
        y = _erfcx_positive(np.abs(x))
        # exp(26.7 ** 2) overflows.
        below = 2.0 * _exp_of_square(1.0, -27.0 if x < -27.0 else (x if x < 0.0 else 0.0)) - y
        return below if x < 0.0 else y


@word(internal=True)
class _normal_tail:
    """The normal distribution's mass beyond a >= 0."""

    def float64(a):
        # 38.6 ** 2 / 2: what is beyond is less than half the smallest number.
        a = 38.7 if a > 38.7 else a
        return 0.5 * _erfcx_positive(0.7071067811865476 * a) * _exp_of_square(-0.5, a)


@word(by_scipy("ndtr"), ulp={"float64": 8})
class special_ndtr:
    """The normal distribution's mass below x."""

    def float64(x):
        tail = _normal_tail(np.abs(x))
        return 1.0 - tail if x > 0.0 else tail


@word(by_scipy("log_ndtr"), ulp={"float64": 8})
class special_log_ndtr:
    """The logarithm of the normal distribution's mass below x, for any x."""

    def float64(x):
        a = np.abs(x)
        below = log(0.5 * _erfcx_positive(0.7071067811865476 * a)) - 0.5 * a * a
        return log1p(-_normal_tail(a)) if x > 0.0 else below


@word(by_scipy("ndtri"), ulp={"float64": 8})
class special_ndtri:
    """The x below which lies the mass p of the normal distribution; infinite at 0 and 1, NaN outside."""

    def float64(p):
        upper = p > 0.5
        y = 1.0 - p if upper else p
        # The distance from 0.5 by its square; beyond 0.37, sqrt(-2 log(y)) times a function of its logarithm.
        d = y - 0.5
        t = d * d * 14.609203798392988 - 1.0
        near = d * (horner(
            t, 8.686615508594859e-11, 2.338812641518712e-10, 1.7535987620039165e-10, 5.402870891915361e-10,
            2.67173479888767e-09, 7.457158708500748e-09, 1.9648771513282814e-08, 5.6265314963096216e-08,
            1.6291370388335484e-07, 4.707760980971025e-07, 1.3700852650082798e-06, 4.024493434073348e-06,
            1.1946982390494772e-05, 3.592713765149373e-05, 0.00010981546074526596, 0.00034282391609433225,
            0.0011010723122772373, 0.003681672810790002, 0.013090302501352543, 0.05169835541356769,
            0.25452134422279055, 2.71970097264798,
        ))  # fmt: skip
        square = -2.0 * log(y)
        t = (log(square) - 4.356708826689592) * 0.33665335648983524
        far = -sqrt(square) * (horner(
            t, -3.2905641026859943e-10, -6.559616760405322e-10, 4.066427699841399e-09, 3.7046243998787247e-09,
            -2.3585827962646276e-08, 3.646357355473013e-10, 7.986128512866178e-08, -7.90810294300035e-08,
            -1.3130909121626764e-07, 3.968755526076441e-07, -2.1805467850164902e-07, -8.674199760403912e-07,
            2.190084743908766e-06, -8.890117789011704e-07, -6.4065283225387905e-06, 1.659782768658999e-05,
            -1.3189699432287238e-05, -4.927937092062354e-06, -0.00016210797879732613, 0.0015227320120788776,
            -0.007121487090468257, 0.022941716171306806, -0.054832722207144094, 0.09753336063552057,
            -0.12383153158943445, 0.10110414109819811, 0.959837543192937,
        ))  # fmt: skip
        x = near if y >= 0.13 else far
        x = -T(np.inf) if y == 0.0 else x
        x = T(np.nan) if (y < 0.0) else x
        return -x if upper else x
