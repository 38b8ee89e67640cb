"""Powers, and the inverse hyperbolic functions, which like them need a logarithm to spare."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.basic import sqrt
from jitgrad.kernels.words.exponential import _exp_tail, _nearest, _scaled
from jitgrad.kernels.words.logarithm import _split, log1p
from jitgrad.kernels.words.vocabulary import D, T, word

__all__ = ["acosh", "asinh", "atanh", "pow"]


@word(internal=True)
class _wide_log2:
    """log2 of a positive float64 that is a normal number, to 37 bits, in float64 everywhere."""

    def real(x):
        # As `_split` does for float64; 0x4338... are the bits of 1.5 * 2**52, D(6755399441055744).
        bits = np.int64(np.float64(x).view(np.int64) - np.int64(0x3FE6A09E667F3BCD))
        rest = np.int64((bits & np.int64(0xFFFFFFFFFFFFF)) + np.int64(0x3FE6A09E667F3BCD))
        e = np.int64((bits >> np.int64(52)) + np.int64(0x4338000000000000)).view(np.float64)
        m = rest.view(np.float64)
        # log2(m) = 2 / ln 2 * (s + s**3 / 3 + ...), odd in s; |s| is at most 0.172.
        s = (m - D(1.0)) / (m + D(1.0))
        z = s * s
        p = D(0.3408120601853278)
        p = p * z + D(0.4116684876626897)
        p = p * z + D(0.5770836518472353)
        p = p * z + D(0.9617966730128691)
        p = p * z + D(2.885390081790329)
        return (e - D(6755399441055744.0)) + s * p


@word(internal=True)
class _wide_exp2:
    """2 to the power x to 29 bits, in float64 everywhere; |x| at most 1000."""

    def real(x):
        # Rounds x to a whole n, as `_nearest` does.
        shifted = x + D(6755399441055744.0)
        r = x - (shifted - D(6755399441055744.0))
        p = D(0.0001534581853117861)
        p = p * r + D(0.0013399931071754255)
        p = p * r + D(0.00961848892694409)
        p = p * r + D(0.055503287778813366)
        p = p * r + D(0.24022646891088897)
        p = p * r + D(0.6931472057363749)
        p = p * r + D(1.000000000553975)
        n = np.int64(np.float64(shifted).view(np.int64) - np.int64(0x4338000000000000))
        return p * np.int64((n + np.int64(1023)) << np.int64(52)).view(np.float64)


@word(internal=True)
class _high:
    """x with the last 27 bits cleared: a product of two such numbers is exact."""

    def float64(x):
        return np.int64(np.float64(x).view(np.int64) & np.int64(-134217728)).view(np.float64)


@word(internal=True)
class _pair_log2:
    """log2(x) for 0 < x < inf as a sum of two floats, the first with its last 27 bits cleared.

    With s = f / (2 + f) it is (s + s**3 / 3 + s**5 R(s * s)) 2 / ln 2; up to the term in s**3 every
    product is split so that only its small part is rounded.
    """

    def float64(x):
        e, f = _split(x)
        under = 2.0 + f
        under_low = f - (under - 2.0)
        under_high = _high(under)
        s = f / under
        s_high = _high(s)
        rest = (f - s_high * under_high) - s_high * ((under - under_high) + under_low)
        s_low = rest / under
        z = s * s
        p = 0.06006727176478718
        p = p * z + 0.05835930446857821
        p = p * z + 0.06668232120616917
        p = p * z + 0.07692276512817973
        p = p * z + 0.09090909463552958
        p = p * z + 0.11111111108535067
        p = p * z + 0.14285714285723522
        p = p * z + 0.19999999999999987
        # cubic = z / 3 + z * z * p
        z_high = _high(s_high * s_high)
        z_low = (s_high * s_high - z_high) + s_low * (s_high + s)
        cubic_high = z_high * 0.33333331346511841
        cubic_low = z_high * 1.9868214925130207e-08 + (z_low * 0.3333333333333333 + z * z * p)
        top = _high(cubic_high + cubic_low)
        low = (cubic_high - top) + cubic_low
        # times s, then times 2 / ln 2
        low = s_low + (s_high * low + s_low * (top + low))
        first = s_high + s_high * top
        low = low + ((s_high - first) + s_high * top)
        first_high = _high(first)
        low = low + (first - first_high)
        scaled_high = first_high * 2.8853900432586670
        low = low * 2.8853900817779268 + first_high * 3.851925982253235e-08
        total = e + scaled_high
        low = low + (scaled_high - (total - e))
        result = _high(total + low)
        return result, (total - result) + low


@word(internal=True)
class _positive_pow:
    """x to the power y for 0 < x < inf and a finite y."""

    def float32(x, y):
        # 37 bits of log2(x) leave 29 after the whole part of y log2(x), at most 8 bits, is taken off.
        power = np.float64(y) * _wide_log2(np.float64(x))
        # 2**128 overflows and 2**-150 vanishes; beyond 2**1000 `_wide_exp2` would fail.
        power = D(200.0) if power > D(200.0) else power
        power = D(-200.0) if power < D(-200.0) else power
        return np.float32(_wide_exp2(power))

    def float64(x, y):
        high, low = _pair_log2(x)
        # Even of the float next to 1, whose log2 is 2e-16, such a power overflows or vanishes, and no product does.
        y = 1e30 if y > 1e30 else y
        y = -1e30 if y < -1e30 else y
        y_high = _high(y)
        power = y_high * high
        rest = (y - y_high) * high + y * low
        # Where the result overflows or vanishes anyway, the rest may be NaN, of inf - inf.
        rest = 0.0 if np.abs(power) > 1100.0 else rest
        power = 1100.0 if power > 1100.0 else power
        power = -1100.0 if power < -1100.0 else power
        whole, n = _nearest(power)
        return _scaled(1.0 + _exp_tail(((power - whole) + rest) * 0.6931471805599453), n)


@word(np.power, cuda="math.pow", ulp={"float32": 1, "float64": 2})
class pow:
    """a to the power b, with IEEE 754's table of special cases."""

    def real(a, b):
        size = np.abs(a)
        zero, endless = size == 0.0, size == T(np.inf)
        # What has no logarithm is kept from `_positive_pow`, and put right below.
        base = 1.0 if zero | endless | (a != a) else size
        last = np.abs(b) == T(np.inf)
        power = 0.0 if last | (b != b) else b
        y = _positive_pow(base, power)
        grows = T(np.inf) if b > 0.0 else 0.0
        shrinks = 0.0 if b > 0.0 else T(np.inf)
        y = shrinks if zero else (grows if endless else y)
        # Infinite powers: by whether |a| is above or below 1.
        y = (1.0 if size == 1.0 else (grows if size > 1.0 else shrinks)) if last else y
        return _signed_pow(a, b, y)

    def complex(a, b):
        of_zero = T(1) if b == T(0) else (T(0) if b.real > 0 else T(complex(np.inf, np.nan)))
        return of_zero if a == T(0) else np.power(a, b)


@word(internal=True)
class _signed_pow:
    """abs(a)**b with the sign that a and b call for, and the cases that are NaN or 1 anyway."""

    def real(a, b, y):
        whole = np.floor(b) == b
        # A large b is even: half of it is whole, too.
        odd = whole & (np.floor(b * 0.5) != b * 0.5)
        negative = np.copysign(1.0, a) < 0.0
        y = -y if negative & odd else y
        y = T(np.nan) if (a < 0.0) & (a != -T(np.inf)) & (not whole) else y
        y = a + b if (a != a) | (b != b) else y
        # IEEE 754: 1 to any power and anything to the power 0 are 1, NaN included.
        return 1.0 if (a == 1.0) | (b == 0.0) else y


@word(internal=True)
class _ln:
    """The logarithm of a float64 of at least 1e-30 in a float32 word."""

    def real(x):
        return np.float32(_wide_log2(x) * D(0.6931471805599453))


@word(np.arcsinh, cuda="math.asinh", ulp={"float32": 1, "float64": 3})
class asinh:
    """The inverse hyperbolic sine."""

    def float32(x):
        # In float64 log(x + sqrt(x**2 + 1)) has digits enough for float32, but for the smallest x.
        size = np.float64(np.abs(x))
        y = _ln(size + np.sqrt(size * size + D(1.0)))
        y = np.copysign(y, x) if np.abs(x) < T(np.inf) else x
        # 2**-12: x**3 / 6 is less than half a unit of x.
        return x if np.abs(x) < 0.000244140625 else y

    def float64(x):
        size = np.abs(x)
        huge = size > 1e17
        square = 0.0 if huge else size * size
        # asinh(x) = log1p(x + x**2 / (1 + sqrt(1 + x**2))); for huge x it is log(2 x).
        y = log1p(size if huge else size + square / (1.0 + sqrt(1.0 + square)))
        return np.copysign(y + (0.6931471805599453 if huge else 0.0), x)

    def complex(x):
        return np.arcsinh(x)


@word(np.arccosh, cuda="math.acosh", ulp={"float32": 1, "float64": 3})
class acosh:
    """The inverse hyperbolic cosine; NaN below 1."""

    def float32(x):
        wide = np.float64(x)
        y = _ln(wide + np.sqrt((wide - D(1.0)) * (wide + D(1.0))))
        y = y if x < T(np.inf) else x
        return y if x >= 1.0 else T(np.nan)

    def float64(x):
        huge = x > 1e17
        # acosh(1 + t) = log1p(t + sqrt(t (2 + t))), exact near 1 because x - 1 is.
        over = x - 1.0
        y = log1p(over if huge else over + sqrt(over * (2.0 + over)))
        y = y + (0.6931471805599453 if huge else 0.0)
        return y if x >= 1.0 else T(np.nan)

    def complex(x):
        # W. Kahan's formula: two roots in place of one, so that the branch cut lies on (-inf, 1).
        below = np.sqrt(complex(x.real - 1, x.imag))
        above = np.sqrt(complex(x.real + 1, x.imag))
        size = np.arcsinh(below.real * above.real + below.imag * above.imag)
        return T(complex(size, 2 * np.arctan2(below.imag, above.real)))


@word(np.arctanh, cuda="math.atanh", ulp={"float32": 1, "float64": 3})
class atanh:
    """The inverse hyperbolic tangent; infinite at 1 and -1, NaN beyond."""

    def float32(x):
        wide = np.float64(np.abs(x))
        y = np.copysign(0.5 * _ln((D(1.0) + wide) / (D(1.0) - wide)), x)
        y = y if np.abs(x) < 1.0 else x * T(np.inf)
        y = y if np.abs(x) <= 1.0 else T(np.nan)
        return x if np.abs(x) < 0.000244140625 else y

    def float64(x):
        size = np.abs(x)
        return np.copysign(0.5 * log1p(2.0 * size / (1.0 - size)), x)

    def complex(x):
        return np.arctanh(x)
