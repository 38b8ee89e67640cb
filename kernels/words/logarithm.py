"""Logarithms."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.exponential import _two_to
from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["log", "log1p", "log2", "log10"]


@word(internal=True)
class _split:
    """(e, f) with x = 2**e * (1 + f), 1 + f from sqrt(1/2) to sqrt(2), e a float; 0 < x < inf."""

    def float32(x):
        # A denormal number has no exponent of its own: times 2**23 (2**52) it is normal.
        tiny = x < 1.1754943508222875e-38
        scaled = x * 8388608.0 if tiny else x
        # 0x3F3504F3 are the bits of sqrt(1/2). Taken away first, they make the exponent step there and not at 1.
        bits = np.int32(np.float32(scaled).view(np.int32) - np.int32(0x3F3504F3))
        rest = np.int32(np.int32(bits & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3))
        e = np.float32(np.int32(bits >> np.int32(23)))
        return e - (23.0 if tiny else 0.0), rest.view(np.float32) - 1.0

    def float64(x):
        tiny = x < 2.2250738585072014e-308
        scaled = x * 4503599627370496.0 if tiny else x
        bits = np.float64(scaled).view(np.int64) - np.int64(0x3FE6A09E667F3BCD)
        rest = np.int64((bits & np.int64(0xFFFFFFFFFFFFF)) + np.int64(0x3FE6A09E667F3BCD))
        # The exponent as a float by way of the low bits of 1.5 * 2**52: no conversion needed.
        e = np.int64((bits >> np.int64(52)) + np.int64(0x4338000000000000)).view(np.float64)
        e = e - 6755399441055744.0
        return e - (52.0 if tiny else 0.0), rest.view(np.float64) - 1.0


@word(internal=True)
class _log1p_tail:
    """log(1 + f) - f for 1 + f from sqrt(1/2) to sqrt(2)."""

    def float32(f):
        p = 0.0870114341378212
        p = p * f - 0.14275772869586945
        p = p * f + 0.1491801142692566
        p = p * f - 0.16576749086380005
        p = p * f + 0.19962716102600098
        p = p * f - 0.2500135600566864
        p = p * f + 0.3333391845226288
        return f * f * (p * f - 0.5)

    def float64(f):
        # log(1 + f) = log((1 + s) / (1 - s)) = 2 s + 2 s**3 / 3 + ...: odd in s, and |s| is at most 0.172.
        s = f / (2.0 + f)
        z = s * s
        p = 0.14802164090445555
        p = p * z + 0.15313465648668087
        p = p * z + 0.1818358570173879
        p = p * z + 0.22222198192096398
        p = p * z + 0.28571428745787947
        p = p * z + 0.39999999999400904
        p = p * z + 0.6666666666666736
        # f - s f = 2 s: so the sum is f - f**2 / 2 and a correction that is small against it.
        half = 0.5 * f * f
        return s * (half + z * p) - half


@word(internal=True)
class _log_limits:
    """The logarithm y of x, put right where x is 0, negative, infinite or NaN."""

    def real(x, y):
        # Infinity and NaN fail the comparison, and are their own results.
        y = y if x < T(np.inf) else x
        y = y if x >= 0.0 else T(np.nan)
        return -T(np.inf) if x == 0.0 else y


@word(np.log, cuda="math.log", ulp={"float32": 1.5, "float64": 1})
class log:
    """The natural logarithm."""

    def float32(x):
        e, f = _split(x)
        y = f + _log1p_tail(f)
        # ln 2 = 0.693359375 - 0.000212...; the first has 9 bits, so e times it is exact.
        return _log_limits(x, e * 0.693359375 + (y - e * 0.00021219444005469057))

    def float64(x):
        e, f = _split(x)
        low = _log1p_tail(f) + e * 1.90821492927058770002e-10
        return _log_limits(x, e * 0.693147180369123816490 + (f + low))

    def complex(x):
        return np.log(x)


@word(np.log2, cuda="math.log2", ulp={"float32": 2, "float64": 2})
class log2:
    """The logarithm to base 2; whole for powers of two."""

    def real(x):
        e, f = _split(x)
        # f / ln 2 without a rounded product: one f of it is exact.
        low = f * 0.4426950408889634 + _log1p_tail(f) * 1.4426950408889634
        return _log_limits(x, e + (f + low))

    def complex(x):
        return np.log2(x)


@word(np.log10, cuda="math.log10", ulp={"float32": 2, "float64": 2})
class log10:
    """The logarithm to base 10."""

    def float32(x):
        e, f = _split(x)
        # f / ln 10 = f / 2 - f * 0.0657...: half of f is exact. 0.30078125, close to log10(2), has 7 bits.
        low = _log1p_tail(f) * 0.4342944819032518 - f * 0.06570551809674817
        low = low + e * 0.000248745663981
        return _log_limits(x, e * 0.30078125 + (0.5 * f + low))

    def float64(x):
        e, f = _split(x)
        low = _log1p_tail(f) * 0.4342944819032518 - f * 0.06570551809674817
        low = low + e * 3.69423907715893078616e-13
        return _log_limits(x, e * 0.301029995663611771306 + (0.5 * f + low))

    def complex(x):
        return np.log10(x)


@word(np.log1p, cuda="math.log1p", ulp={"float32": 2, "float64": 2})
class log1p:
    """log(1 + x), without cancellation near 0."""

    def float32(x):
        # 1 + x loses x's last bits. The exponent e is right all the same, and 2**-e (1 + x) - 1 is computed from x.
        e, f = _split(1.0 + x)
        scale = _two_to(np.int32(-e))
        # There 1 + x is x to the last place, and 2**-e may be a denormal number.
        f = f if x > 1e9 else scale * x + (scale - 1.0)
        low = _log1p_tail(f) - e * 0.00021219444005469057
        y = _log_limits(1.0 + x, e * 0.693359375 + (f + low))
        return x if x == 0.0 else y

    def float64(x):
        e, f = _split(1.0 + x)
        scale = _two_to(np.int64(-e))
        f = f if x > 1e18 else scale * x + (scale - 1.0)
        low = _log1p_tail(f) + e * 1.90821492927058770002e-10
        y = _log_limits(1.0 + x, e * 0.693147180369123816490 + (f + low))
        return x if x == 0.0 else y

    def complex(x):
        # |1 + z|**2 - 1, which keeps its digits where z is small.
        square = x.real * (x.real + 2) + x.imag * x.imag
        far = np.log(np.hypot(x.real + 1, x.imag))
        size = far if (square > 1) | (2 * square < -1) else np.divide(np.log1p(square), 2)
        return T(complex(size, np.arctan2(x.imag, x.real + 1)))
