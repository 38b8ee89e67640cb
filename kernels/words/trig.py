"""Circular functions."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.exponential import _nearest
from jitgrad.kernels.words.turns import _turns
from jitgrad.kernels.words.vocabulary import D, T, word

__all__ = ["cos", "sin", "tan"]


@word(internal=True)
class _sin_reduced:
    """sin(r) for abs(r) <= pi / 2."""

    def float32(r):
        z = r * r
        p = 2.606081807243754e-06
        p = p * z - 0.00019809773948509246
        p = p * z + 0.008333069272339344
        p = p * z - 0.16666659712791443
        y = r + r * z * p
        # The polynomial may exceed 1 by a unit near pi / 2.
        y = 1.0 if y > 1.0 else y
        return -1.0 if y < -1.0 else y

    def float64(r):
        z = r * r
        p = 2.7214140407745974e-15
        p = p * z - 7.64301896083033e-13
        p = p * z + 1.6058940990503358e-10
        p = p * z - 2.5052106904260067e-08
        p = p * z + 2.7557319211568406e-06
        p = p * z - 0.00019841269841212476
        p = p * z + 0.008333333333333207
        p = p * z - 0.16666666666666666
        y = r + r * z * p
        y = 1.0 if y > 1.0 else y
        return -1.0 if y < -1.0 else y


@word(internal=True)
class _folded:
    """From an angle in units of 2**-64 turns the r in -pi / 2 to pi / 2 that has its cosine as sine.

    That is a quarter turn less the angle's size: a triangle wave, for the integers wrap round.
    """

    def float32(turns):
        v = np.float64(np.int64(np.int64(0x4000000000000000) - np.abs(turns)))
        return np.float32(v * D(3.4061215800865545e-19))  # 2 pi * 2**-64

    def float64(turns, below):
        negative = turns < np.int64(0)
        # The size in 128 bits, by ~ of both halves: 2**-128 turns short, but without a carry.
        size = np.int64(~turns) if negative else turns
        rest = ~below if negative else below
        first = np.int64(np.int64(0x4000000000000000) - size)
        # 2**-63 for the second half, which is shifted by one bit to be an int64.
        v = np.float64(first) - np.float64(np.int64(rest >> np.uint64(1))) * 1.0842021724855044e-19
        return v * 3.4061215800865545e-19


@word(internal=True)
class _flipped:
    """The float r, negated where x is negative."""

    def float32(r, x):
        sign = np.int32(np.float32(x).view(np.int32) & np.int32(-2147483648))
        return np.int32(np.float32(r).view(np.int32) ^ sign).view(np.float32)

    def float64(r, x):
        sign = np.int64(np.float64(x).view(np.int64) & np.int64(-9223372036854775808))
        return np.int64(np.float64(r).view(np.int64) ^ sign).view(np.float64)


@word(internal=True)
class _less_pi:
    """x - n pi for a moderate n that is a multiple of 1 / 2; the first products are exact."""

    def float32(x, n):
        # pi in parts of 8, 9 and 9 bits and a rest (Cody and Waite): n times each of the first is exact.
        r = (x - n * 3.140625) - n * 0.0009670257568359375
        return (r - n * 6.277114152908325e-07) - n * 1.215420125655342e-10

    def float64(x, n):
        r = (x - n * 3.1415926534682512) - n * 1.2154201012607932e-10
        return r - n * 4.044532497591901e-21


@word(internal=True)
class _sign_of_parity:
    """A float whose sign bit is set where the integer n is odd."""

    def float32(n):
        return np.int32(n << np.int32(31)).view(np.float32)

    def float64(n):
        return np.int64(n << np.int64(63)).view(np.float64)


_NEAR = {"float32": (-16384.0, 16384.0), "float64": (-524288.0, 524288.0)}


@word(internal=True, ulp={"float32": 2.5, "float64": 2.5})
class sin_near:
    """The sine where x is within `WORDS["sin"].near`."""

    def real(x):
        size = np.abs(x)
        # x / pi rounded; the sine changes its sign where n is odd.
        whole, n = _nearest(size * 0.3183098861837907)
        y = _sin_reduced(_less_pi(size, whole))
        return _flipped(_flipped(y, x), _sign_of_parity(n))


@word(internal=True, ulp={"float32": 2.5, "float64": 2.5})
class cos_near:
    """The cosine where x is within `WORDS["cos"].near`."""

    def real(x):
        size = np.abs(x)
        # cos(x) = -sin(x - (n + 1/2) pi) times (-1)**n.
        whole, n = _nearest(size * 0.3183098861837907 - 0.5)
        y = _sin_reduced(_less_pi(size, whole + 0.5))
        return -_flipped(y, _sign_of_parity(n))


@word(np.sin, cuda="math.sin", ulp={"float32": 2, "float64": 3}, near=("sin_near", _NEAR))
class sin:
    """The sine of x radians."""

    def float32(x):
        size = np.abs(x)
        # sin(x) = cos(x - pi / 2): less a quarter turn. x - x makes NaN of infinities, for which `_turns` has any
        # number.
        r = _folded(np.int64(_turns(x) - np.int64(0x4000000000000000))) + (x - x)
        return _flipped(_sin_reduced(size if size < 1.0 else r), x)

    def float64(x):
        size = np.abs(x)
        turns, below = _turns(x)
        r = _folded(np.int64(turns - np.int64(0x4000000000000000)), below) + (x - x)
        return _flipped(_sin_reduced(size if size < 1.0 else r), x)

    def complex(x):
        real = x.real if x.real == 0 else np.sin(x.real) * np.cosh(x.imag)
        return T(complex(real, np.cos(x.real) * np.sinh(x.imag)))


@word(np.cos, cuda="math.cos", ulp={"float32": 2, "float64": 3}, near=("cos_near", _NEAR))
class cos:
    """The cosine of x radians."""

    def float32(x):
        size = np.abs(x)
        r = _folded(_turns(x)) + (x - x)
        # cos(x) = sin(pi / 2 - x), pi / 2 in two parts; `_turns` is for |x| >= 1.
        small = (1.5707963705062866 - size) - 4.371138828673793e-08
        return _sin_reduced(small if size < 1.0 else r)

    def float64(x):
        size = np.abs(x)
        turns, below = _turns(x)
        r = _folded(turns, below) + (x - x)
        small = (1.5707963267948966 - size) + 6.123233995736766e-17
        return _sin_reduced(small if size < 1.0 else r)

    def complex(x):
        axis = (x.real == 0) | (x.imag == 0)
        turned = x.real * x.imag if axis else np.sin(x.real) * np.sinh(x.imag)
        return T(complex(np.cos(x.real) * np.cosh(x.imag), -turned))


@word(internal=True)
class _radians:
    """(high + low / 2**63) * 2 pi / 2**64 as a rounded sum and what the rounding lost.

    The leading 26 bits are multiplied exactly, so the sum has one rounding only.
    """

    def float64(high, low):
        negative = high < np.int64(0)
        high = np.int64(~high) if negative else high
        low = np.int64(np.int64(0x7FFFFFFFFFFFFFFF) - low) if negative else low
        start = np.float64(np.int64(high & np.int64(-274877906944)))
        rest = np.float64(np.int64(high & np.int64(274877906943)))
        rest = rest + np.float64(low) * 1.0842021724855044e-19
        large = start * 3.406121610247037e-19
        small = rest * 3.4061215800865545e-19 - start * 3.016048264905552e-27
        total = large + small
        tail = (large - total) + small
        return (-total if negative else total), (-tail if negative else tail)


@word(internal=True)
class _tan_reduced:
    """tan(r) for abs(r) <= 1, or -1 / tan(r) where `turned`."""

    def float32(r, turned):
        z = r * r
        p = 0.005208663642406464
        p = p * z - 0.010471908375620842
        p = p * z + 0.01760057732462883
        p = p * z - 8.132294897222891e-05
        p = p * z + 0.025087999179959297
        p = p * z + 0.05334045737981796
        p = p * z + 0.13339173793792725
        p = p * z + 0.33333149552345276
        t = r + r * z * p
        return -1.0 / t if turned else t

    def float64(r, low, turned):
        z = r * r
        p = -7.533635178077065e-13
        p = p * z + 1.605717600178112e-10
        p = p * z - 2.505209241889803e-08
        p = p * z + 2.7557319148827677e-06
        p = p * z - 0.0001984126984108023
        p = p * z + 0.008333333333333106
        p = p * z - 0.16666666666666666
        sine = r * z * p
        q = -1.128789344804891e-11
        q = q * z + 2.087394379077332e-09
        q = q * z - 2.7557297218870926e-07
        q = q * z + 2.4801587210437652e-05
        q = q * z - 0.0013888888888702537
        q = q * z + 0.041666666666665235
        cosine = 1.0 + (z * z * q - (0.5 * z + low * r))
        sine = r + (sine + low * cosine)
        return (-cosine if turned else sine) / (sine if turned else cosine)


@word(np.tan, cuda="math.tan", ulp={"float32": 3, "float64": 3})
class tan:
    """The tangent of x radians."""

    def float32(x):
        size = np.abs(x)
        turns = _turns(x)
        # The angle in units of a quarter turn: rest is its distance to the nearest multiple, turned whether that is
        # odd.
        rest = np.int64(turns << np.int64(2))
        turned = ((turns << np.int64(1)) ^ rest) < np.int64(0)
        r = np.float32(np.float64(rest) * D(8.515303950216386e-20)) + (x - x)  # pi * 2**-65
        near = size < 1.0
        return _flipped(_tan_reduced(size if near else r, turned & (size >= 1.0)), x)

    def float64(x):
        size = np.abs(x)
        turns, below = _turns(x)
        rest = np.int64((turns << np.int64(2)) | np.int64(below >> np.uint64(62)))
        tail = np.int64((below << np.uint64(1)) & np.uint64(0x7FFFFFFFFFFFFFFF))
        turned = ((turns << np.int64(1)) ^ rest) < np.int64(0)
        r, low = _radians(rest, tail)
        r, low = 0.25 * r + (x - x), 0.25 * low
        near = size < 1.0
        r, low = (size, 0.0) if near else (r, low)
        return _flipped(_tan_reduced(r, low, turned & (size >= 1.0)), x)

    def complex(x):
        return np.tan(x)
