"""Divisors and multiples of integers, and the parts of a float."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["binary_exponent", "frexp_mantissa", "gcd", "lcm"]


@word(np.gcd)
class gcd:
    """The greatest common divisor of the sizes of a and b; that of 0 and 0 is 0."""

    def int(a, b):
        a, b = T(-a if a < T(0) else a), T(-b if b < T(0) else b)
        while b != T(0):
            a, b = b, T(a % b)
        return T(-a if a < T(0) else a)  # the smallest integer has no counterpart, and keeps its sign


@word(np.lcm)
class lcm:
    """The least common multiple of the sizes of a and b; 0 if either is."""

    def int(a, b):
        # The size of the exact multiple, as in PyTorch; what does not fit loses its upper bits afterwards.
        divisor = gcd(a, b)
        multiple = np.int64(np.int64(a) // np.int64(divisor if divisor != T(0) else T(1))) * np.int64(b)
        return T(-multiple if multiple < np.int64(0) else multiple)


@word(lambda x: np.frexp(x)[0])
class frexp_mantissa:
    """m of x = m * 2 ** e with m from 1 / 2 to 1 in size; zeros, infinities and NaN are their own."""

    def float32(x):
        # A denormal number has no exponent of its own: times 2**25 (2**54) it is normal.
        normal = x if np.abs(x) >= 1.1754943508222875e-38 else x * 33554432.0
        bits = np.int32(np.float32(normal).view(np.int32) & np.int32(-0x7F800001))
        m = np.int32(bits | np.int32(0x3F000000)).view(np.float32)
        return m if (x != 0.0) & (np.abs(x) < T(np.inf)) else x

    def float64(x):
        normal = x if np.abs(x) >= 2.2250738585072014e-308 else x * 18014398509481984.0
        bits = np.int64(np.float64(normal).view(np.int64) & np.int64(-0x7FF0000000000001))
        m = np.int64(bits | np.int64(0x3FE0000000000000)).view(np.float64)
        return m if (x != 0.0) & (np.abs(x) < T(np.inf)) else x


@word(lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.asarray(x).dtype))
class binary_exponent:
    """e of x = m * 2 ** e with m from 1 / 2 to 1 in size; 0 for zeros, infinities and NaN."""

    def float32(x):
        denormal = np.abs(x) < 1.1754943508222875e-38
        normal = x * 33554432.0 if denormal else x
        bits = np.int32(np.int32(np.float32(normal).view(np.int32) >> np.int32(23)) & np.int32(255))
        e = np.float32(np.int32(bits - np.int32(126))) - (25.0 if denormal else 0.0)
        return e if (x != 0.0) & (np.abs(x) < T(np.inf)) else 0.0

    def float64(x):
        denormal = np.abs(x) < 2.2250738585072014e-308
        normal = x * 18014398509481984.0 if denormal else x
        bits = np.int64(np.int64(np.float64(normal).view(np.int64) >> np.int64(52)) & np.int64(2047))
        e = np.float64(np.int64(bits - np.int64(1022))) - (54.0 if denormal else 0.0)
        return e if (x != 0.0) & (np.abs(x) < T(np.inf)) else 0.0
