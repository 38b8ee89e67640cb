"""Words of the random kernels: uniforms, and Box and Muller as PyTorch rounds them.

Indices are uint64 here and in the kernels: a signed one might be negative, and the code that would
wrap it round keeps loops from vectorising (half the speed).
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.vocabulary import draw, scratch, word

__all__ = ["box_muller", "next_normal", "next_normals", "uniform64", "uniforms32", "uniforms64"]


@word(internal=True)
class uniforms32:
    """Put ``count`` float32 uniforms, 24 bits of a word, into ``units``, of at most 512; return as `draw` does."""

    def any(state, units, count):
        words = scratch(512, np.uint32)
        used = draw(state, words, count)
        for i in range(count):
            units[i] = np.float32(np.int32(words[i] & 0xFFFFFF)) * np.float32(2.0**-24)
        return used


@word(internal=True)
class uniforms64:
    """Put ``count`` float64 uniforms, 53 bits of two words, into ``units``; return as `draw` does.

    Made of two exact pieces, for not every CPU converts vectors of int64.
    """

    def any(state, units, count):
        words = np.empty(count + count, np.uint32)
        used = draw(state, words, count + count)
        for i in range(count):
            high, low = words[i + i], words[i + i + np.uint64(1)]
            top = np.float64(np.int32(high & 0x1FFFFF)) * np.float64(2.0**32)
            units[i] = (top + np.float64(low)) * np.float64(2.0**-53)
        return used


@word(internal=True)
class uniform64:
    """The next float64 uniform, and how many words are used now: `uniforms64` of one, without memory of its own."""

    def any(state):
        words = scratch(2, np.uint32)
        used = draw(state, words, np.uint64(2))
        top = np.float64(np.int32(words[0] & 0x1FFFFF)) * np.float64(2.0**32)
        return (top + np.float64(words[1])) * np.float64(2.0**-53), used


@word(internal=True)
class box_muller:
    """Two float32 normals of two uniforms, by the steps and with the rounding of PyTorch's.

    The logarithm, sine and cosine are Cephes' logf, sinf and cosf. log(u): u = m 2^e, m from
    sqrt(1/2) to sqrt(2), a polynomial in m - 1, log(2) in two parts. sin, cos: less k eighths of a
    turn, k even and an eighth in three parts; two polynomials within pi / 4 of 0, which change
    places with k.
    """

    def any(first, second):
        u = np.float32(1.0) - first
        bits = np.float32(u).view(np.int32)
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
        radius = np.sqrt(np.float32(-2.0) * ((x + y) + e * np.float32(0.693359375)))

        x = np.float32(2 * np.pi) * second
        k = np.int32((np.int32(x * np.float32(1.27323954473516)) + 1) & ~1)
        eighths = np.float32(k)
        x = eighths * np.float32(-0.78515625) + x
        x = eighths * np.float32(-2.4187564849853515625e-4) + x
        x = eighths * np.float32(-3.77489497744594108e-8) + x
        z = x * x
        s = np.float32(-1.9515295891e-4) * z + np.float32(8.3321608736e-3)
        s = s * z + np.float32(-1.6666654611e-1)
        s = (s * z) * x + x
        c = np.float32(2.443315711809948e-5) * z + np.float32(-1.388731625493765e-3)
        c = c * z + np.float32(4.166664568298827e-2)
        c = ((c * z) * z - z * np.float32(0.5)) + np.float32(1.0)
        s, c = (c, s) if k & 2 else (s, c)
        c = -c if (k + 2) & 4 else c
        s = -s if k & 4 else s
        return radius * c, radius * s


@word(internal=True)
class next_normals:
    """Put ``count`` standard normals into ``values``; return as `draw` does.

    Two float64 uniforms make a pair, by Box and Muller. The second waits if nobody wants it yet.
    """

    def any(state, values, count):
        waiting = state[626:628].view(np.float64)
        first = np.uint64(0)
        if count > 0 and state[625] == 1:
            values[0] = waiting[0]
            waiting[0] = 0
            state[625] = 0
            first = np.uint64(1)
        missing = count - first
        units = np.empty(missing + np.uint64(1), np.float64)
        used = uniforms64(state, units, missing + (missing & np.uint64(1)))
        for i in range(np.uint64(0), missing, np.uint64(2)):
            # The second uniform is the radius's, as in PyTorch's normal_distribution.
            radius = np.sqrt(-2 * np.log1p(-units[i + np.uint64(1)]))
            angle = units[i] * (2 * np.pi)
            values[first + i] = radius * np.cos(angle)
            if i + np.uint64(1) < missing:
                values[first + i + np.uint64(1)] = radius * np.sin(angle)
            else:
                waiting[0] = radius * np.sin(angle)
                state[625] = 1
        return used


@word(internal=True)
class next_normal:
    """The next standard normal, and how many words are used now: `next_normals` of one, without memory of its own."""

    def any(state):
        waiting = state[626:628].view(np.float64)
        if state[625] == 1:
            value = waiting[0]
            waiting[0] = 0
            state[625] = 0
            return value, np.uint64(state[624])
        turn, state[624] = uniform64(state)
        u, used = uniform64(state)
        radius, angle = np.sqrt(-2 * np.log1p(-u)), turn * (2 * np.pi)
        waiting[0] = radius * np.sin(angle)
        state[625] = 1
        return radius * np.cos(angle), used
