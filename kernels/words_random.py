"""Words of the random kernels: MT19937, uniforms, and Box and Muller as PyTorch rounds them."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words_registry import word

__all__ = [
    "cephes_cos",
    "cephes_log",
    "cephes_octant",
    "cephes_reduce",
    "cephes_sin",
    "draw",
    "next_normals",
    "refill",
    "unit32",
    "unit64",
]


@word(internal=True)
class refill:
    """Make the next 624 words of MT19937 from the last 624.

    A word needs the one 397 places on. Split where that wraps, the loops vectorise.
    """

    def any(state):
        for i in range(227):
            y = (state[i] & 0x80000000) | (state[i + 1] & 0x7FFFFFFF)
            state[i] = state[i + 397] ^ (y >> 1) ^ ((y & 1) * 0x9908B0DF)
        for i in range(396):
            y = (state[i + 227] & 0x80000000) | (state[i + 228] & 0x7FFFFFFF)
            state[i + 227] = state[i] ^ (y >> 1) ^ ((y & 1) * 0x9908B0DF)
        y = (state[623] & 0x80000000) | (state[0] & 0x7FFFFFFF)
        state[623] = state[396] ^ (y >> 1) ^ ((y & 1) * 0x9908B0DF)


@word(internal=True)
class draw:
    """Put the generator's next ``count`` words into ``words``; return how many are used now.

    The kernel stores that in ``state[624]`` itself: `loop` takes what a kernel's own text stores
    for its outputs.
    """

    def any(state, words, count):
        done = 0
        used = np.int64(state[624])
        while done < count:
            if used == 0 or used == 624:
                refill(state)
                used = 0
            take = min(count - done, 624 - used)
            source = state[used : used + take]
            target = words[done : done + take]
            for i in range(take):
                y = source[i]
                y ^= y >> 11
                y ^= (y << 7) & 0x9D2C5680
                y ^= (y << 15) & 0xEFC60000
                target[i] = y ^ (y >> 18)
            done += take
            used += take
        return used


@word(internal=True)
class unit32:
    """The float32 uniform in [0, 1) of one word."""

    def any(y):
        return np.float32(np.int32(y & 0xFFFFFF)) * np.float32(2.0**-24)


@word(internal=True)
class unit64:
    """The float64 uniform in [0, 1) of two words; each step is exact, and vectorises."""

    def any(high, low):
        top = np.float64(np.int32(high & 0x1FFFFF))
        return (top * np.float64(2.0**32) + np.float64(low)) * np.float64(2.0**-53)


@word(internal=True)
class cephes_log:
    """log(x) of a float32 in (0, 1], in the steps, and so with the rounding, of PyTorch's vectors.

    Cephes' logf: x = m 2^e, sqrt(1/2) <= m < sqrt(2); a polynomial in m - 1; log(2) in two parts.
    """

    def any(x):
        bits = np.float32(x).view(np.int32)
        m = np.int32((bits & 0x7FFFFF) | 0x3F000000).view(np.float32)
        e = np.float32(np.int32((bits >> 23) - 126))
        small = m < np.float32(0.707106781186547524)
        e = e - np.float32(1.0) if small else e
        x = (m - np.float32(1.0)) + (m if small else np.float32(0.0))
        z = x * x
        y = np.float32(7.0376836292e-2) * x + np.float32(-1.1514610310e-1)
        y = y * x + np.float32(1.1676998740e-1)
        y = y * x + np.float32(-1.2420140846e-1)
        y = y * x + np.float32(1.4249322787e-1)
        y = y * x + np.float32(-1.6668057665e-1)
        y = y * x + np.float32(2.0000714765e-1)
        y = y * x + np.float32(-2.4999993993e-1)
        y = y * x + np.float32(3.3333331174e-1)
        y = (y * x) * z + e * np.float32(-2.12194440e-4)
        y = y - z * np.float32(0.5)
        return (x + y) + e * np.float32(0.693359375)


@word(internal=True)
class cephes_octant:
    """How many eighths of a turn lie in a float32 in [0, 2 pi), rounded to an even number."""

    def any(x):
        return np.int32((np.int32(x * np.float32(1.27323954473516)) + 1) & ~1)


@word(internal=True)
class cephes_reduce:
    """x less k eighths of a turn, with an eighth in three parts."""

    def any(x, k):
        k = np.float32(k)
        x = k * np.float32(-0.78515625) + x
        x = k * np.float32(-2.4187564849853515625e-4) + x
        return k * np.float32(-3.77489497744594108e-8) + x


@word(internal=True)
class cephes_sin:
    """sin(x) of a float32 within pi / 4 of 0."""

    def any(x):
        z = x * x
        y = np.float32(-1.9515295891e-4) * z + np.float32(8.3321608736e-3)
        y = y * z + np.float32(-1.6666654611e-1)
        return (y * z) * x + x


@word(internal=True)
class cephes_cos:
    """cos(x) of a float32 within pi / 4 of 0."""

    def any(x):
        z = x * x
        y = np.float32(2.443315711809948e-5) * z + np.float32(-1.388731625493765e-3)
        y = y * z + np.float32(4.166664568298827e-2)
        return ((y * z) * z - z * np.float32(0.5)) + np.float32(1.0)


@word(internal=True)
class next_normals:
    """Fill ``values`` with standard normals; return how many words are used now, as `draw` does.

    Four words make a pair, by Box and Muller in float64. The second waits if nobody wants it yet.
    """

    def any(state, words, values):
        waiting = state[626:628].view(np.float64)
        used = np.int64(state[624])
        first = 0
        if values.size > 0 and state[625] == 1:
            values[0] = waiting[0]
            state[625] = 0
            first = 1
        for i in range(first, values.size, 2):
            used = draw(state, words, 4)
            state[624] = used
            angle = unit64(words[0], words[1]) * (2 * np.pi)
            radius = np.sqrt(-2 * np.log1p(-unit64(words[2], words[3])))
            values[i] = radius * np.cos(angle)
            waiting[0] = radius * np.sin(angle)
            if i + 1 < values.size:
                values[i + 1] = waiting[0]
            else:
                state[625] = 1
        if state[625] == 0:
            waiting[0] = 0
        return used
