"""Angles in turns: the argument reduction of the circular functions, exact for every float.

x / (2 pi) is wanted modulo 1. With x = m 2**k and a whole m that is m times the digits of 1 / (2 pi)
from the k-th on, in arithmetic modulo a power of 2: what lies above is whole turns and drops out by
itself. A few more digits than the result has keep it exact where x is close to a multiple of pi
(Payne and Hanek). The digits are cut out of constants by selects and shifts, so loops vectorise.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.vocabulary import word

__all__: list[str] = []


@word(internal=True)
class _window:
    """64 bits from bit ``shift`` (0 to 63) of ``high`` on, filled up from ``low``."""

    def any(high, low, shift):
        return (high << shift) | ((low >> np.uint64(1)) >> (shift ^ np.uint64(63)))


@word(internal=True)
class _turns:
    """abs(x) / (2 pi) modulo 1 for 1 <= abs(x) < inf, in units of 2**-64 turns; else any number.

    The float64 body returns the next 64 bits as well, for the zeros of sin and cos lie so close to
    floats that the first ones can all be 0.
    """

    def float32(x):
        bits = np.float32(x).view(np.int32)
        # The exponent, shifted so that the digits of 1 / (2 pi) that matter begin at bit ``place`` of the constants.
        place = np.int32(np.int32(np.int32(bits >> np.int32(23)) + np.int32(1)) & np.int32(127))
        m = np.int32(np.int32(bits & np.int32(0x7FFFFF)) | np.int32(0x800000))
        place, m = np.uint64(place), np.uint64(m)
        # Constants of 64 binary digits each; ``far`` picks the later three.
        far = place >= np.uint64(64)
        high = np.uint64(0x220A94FE13ABE8FA) if far else np.uint64(0x517CC1B727)
        middle = np.uint64(0x9A6EE06DB14ACC9E) if far else np.uint64(0x220A94FE13ABE8FA)
        low = np.uint64(0x21C820FF28B1D5EF) if far else np.uint64(0x9A6EE06DB14ACC9E)
        shift = place & np.uint64(63)
        # The last 32 digits with their carry: 24 bits of m by 32 of the window fit in 64.
        rest = m * (_window(middle, low, shift) >> np.uint64(32))
        return np.int64(m * _window(high, middle, shift) + (rest >> np.uint64(32)))

    def float64(x):
        bits = np.float64(x).view(np.uint64)
        place = ((bits >> np.uint64(52)) + np.uint64(1)) & np.uint64(1023)
        far = (place & np.uint64(512)) != np.uint64(0)
        # 1216 binary digits in 19 constants, of which selects by the bits of ``place`` leave the right four.
        w0 = np.uint64(0x08D7D4BAED1213A6) if far else np.uint64(0x000000000000028B)
        w1 = np.uint64(0x71C09AD17DF904E6) if far else np.uint64(0xE60DB9391054A7F0)
        w2 = np.uint64(0x4758E60D4CE7D272) if far else np.uint64(0x9D5F47D4D377036D)
        w3 = np.uint64(0x117E2EF7E4A0EC7F) if far else np.uint64(0x8A5664F10E4107F9)
        w4 = np.uint64(0xE25FFF7816603FBC) if far else np.uint64(0x458EAF7AEF1586DC)
        w5 = np.uint64(0xBC462D6829B47DB4) if far else np.uint64(0x91B8E909374B8019)
        w6 = np.uint64(0xD9FB3C9F2C26DD3D) if far else np.uint64(0x24BBA827464873F8)
        w7 = np.uint64(0x18FD9A797FA8B5D4) if far else np.uint64(0x77AC72C4A69CFBA2)
        w8 = np.uint64(0x9EEB1FAF97C5ECF4) if far else np.uint64(0x08D7D4BAED1213A6)
        w9 = np.uint64(0x1CE7DE294A4BA9AF) if far else np.uint64(0x71C09AD17DF904E6)
        w10 = np.uint64(0xED7EC47E35742158) if far else np.uint64(0x4758E60D4CE7D272)
        far = (place & np.uint64(256)) != np.uint64(0)
        w0 = w4 if far else w0
        w1 = w5 if far else w1
        w2 = w6 if far else w2
        w3 = w7 if far else w3
        w4 = w8 if far else w4
        w5 = w9 if far else w5
        w6 = w10 if far else w6
        far = (place & np.uint64(128)) != np.uint64(0)
        w0 = w2 if far else w0
        w1 = w3 if far else w1
        w2 = w4 if far else w2
        w3 = w5 if far else w3
        w4 = w6 if far else w4
        far = (place & np.uint64(64)) != np.uint64(0)
        w0 = w1 if far else w0
        w1 = w2 if far else w1
        w2 = w3 if far else w2
        w3 = w4 if far else w3
        shift = place & np.uint64(63)
        high, middle, low = _window(w0, w1, shift), _window(w1, w2, shift), _window(w2, w3, shift)
        return _times(bits, high, middle, low)


@word(internal=True)
class _times:
    """The 128 bits above the point of (the significand in ``bits``) * high.middle low."""

    def float64(bits, high, middle, low):
        mask = np.uint64(0xFFFFFFFF)
        half = np.uint64(32)
        m = (bits & np.uint64(0xFFFFFFFFFFFFF)) | np.uint64(0x10000000000000)
        m0, m1 = m & mask, m >> half
        b0, b1 = middle & mask, middle >> half
        c0, c1 = low & mask, low >> half
        tail = m1 * c1 + ((m0 * c1) >> half) + ((m1 * c0) >> half)
        # Columns of 32 bits with room for carries: an overflow test would not vectorise.
        first, cross = m0 * b0, m0 * b1
        last = (first & mask) + (tail & mask)
        between = (first >> half) + (cross & mask) + m1 * b0
        middle = (between & mask) + (tail >> half) + (last >> half)
        above = m1 * b1 + (cross >> half) + (between >> half) + (middle >> half)
        return np.int64(m * high + above), (middle << half) | (last & mask)
