"""PyTorch's CPU generator: MT19937 and the distributions drawn from it, number for number.

The generator is one uint32 array, so that a recorded launch, when replayed, draws fresh numbers:

    state[0:624]    the words of MT19937
    state[624]      how many of them are used; 0 after seeding, when the first draw refills as well
    state[625]      1 if a normal waits in 626-627: below 16 elements they are made in pairs
    state[626:628]  that normal, a float64
    state[628:630]  the seed, a uint64
    state[630:632]  unused

Kernels take flat contiguous arrays: inputs, ``out``, ``state``, scalars. "A uniform" is 24 bits of
one word in float32, 53 bits of two words (the high one first) in float64.

The numbers are PyTorch's to the bit where PyTorch runs its AVX2 or AVX-512 code, apart from the last
digit of float64 logarithms and sines, which are the C library's. Two things depend on PyTorch's
build. Its plain x86 and ARM code rounds the float32 normals of `normal32` differently. And on Intel's
processors it draws `bernoulli_(p)`, dropout and `exponential_` from a generator of MKL's; here, as
in PyTorch on all others, they come from MT19937 too.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words_random import (
    cephes_cos,
    cephes_log,
    cephes_octant,
    cephes_reduce,
    cephes_sin,
    draw,
    next_normals,
    unit32,
    unit64,
)
from jitgrad.kernels.words_registry import T

__all__ = [
    "STATE_WORDS",
    "bernoulli",
    "bernoulli_each32",
    "bernoulli_each64",
    "cauchy",
    "dropout_mask",
    "exponential",
    "geometric",
    "integer_range",
    "integers",
    "log_normal",
    "multinomial",
    "normal32",
    "normal64",
    "normal_few",
    "pack_state",
    "permutation",
    "seed",
    "uniform32",
    "uniform64",
    "unpack_state",
]

STATE_WORDS = 632


@loop
def seed(state, value):
    """Start afresh from ``value``, an int64 with the bits of the uint64 seed: the low 32 decide."""
    y = np.uint64(value) & np.uint64(0xFFFFFFFF)
    state[624:628] = 0
    state[628] = y
    state[629] = np.uint64(value) >> np.uint64(32)
    state[630:632] = 0
    for i in range(624):
        state[i] = y
        y = (y ^ (y >> np.uint64(30))) * np.uint64(1812433253) + np.uint64(i + 1)
        y &= np.uint64(0xFFFFFFFF)


@loop
def uniform32(out, state, low, high):
    """float32 in [low, high): one word an element."""
    words = np.empty(512, np.uint32)
    start = np.float32(low)
    width = np.float32(high) - start
    for first in range(0, out.size, 512):
        count = min(512, out.size - first)
        state[624] = draw(state, words, count)
        for i in range(count):
            out[first + i] = unit32(words[i]) * width + start


@loop
def uniform64(out, state, low, high):
    """float64 in [low, high): two words an element."""
    words = np.empty(512, np.uint32)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            out[first + i] = unit64(words[2 * i], words[2 * i + 1]) * (high - low) + low


@loop
def normal32(out, state, mean, std):
    """float32 normals, at least 16: Box and Muller in blocks of 16 uniforms, one word an element.

    An incomplete last block is drawn and dropped; the last 16 elements are drawn anew.
    """
    words = np.empty(512, np.uint32)
    mean, std = np.float32(mean), np.float32(std)
    whole = out.size - out.size % 16
    done = 0
    while done < out.size:
        first, count = done, min(512, whole - done)
        if count == 0:
            state[624] = draw(state, words, out.size - whole)
            first, count = out.size - 16, 16
        state[624] = draw(state, words, count)
        for block in range(0, count, 16):
            for i in range(block, block + 8):
                radius = np.sqrt(np.float32(-2.0) * cephes_log(np.float32(1.0) - unit32(words[i])))
                angle = np.float32(2 * np.pi) * unit32(words[i + 8])
                k = cephes_octant(angle)
                x = cephes_reduce(angle, k)
                s, c = cephes_sin(x), cephes_cos(x)
                s, c = (c, s) if k & 2 else (s, c)
                c = -c if (k + 2) & 4 else c
                s = -s if k & 4 else s
                out[first + i] = (radius * c) * std + mean
                out[first + i + 8] = (radius * s) * std + mean
        done = first + count


@loop
def normal64(out, state, mean, std):
    """float64 normals, at least 16: as `normal32`, with two words an element."""
    words = np.empty(512, np.uint32)
    whole = out.size - out.size % 16
    done = 0
    while done < out.size:
        first, count = done, min(256, whole - done)
        if count == 0:
            state[624] = draw(state, words, 2 * (out.size - whole))
            first, count = out.size - 16, 16
        state[624] = draw(state, words, 2 * count)
        for block in range(0, count, 16):
            for i in range(block, block + 8):
                u = 1 - unit64(words[2 * i], words[2 * i + 1])
                radius = np.sqrt(-2 * np.log(u))
                angle = (2 * np.pi) * unit64(words[2 * i + 16], words[2 * i + 17])
                out[first + i] = (radius * np.cos(angle)) * std + mean
                out[first + i + 8] = (radius * np.sin(angle)) * std + mean
        done = first + count


@loop
def normal_few(out, state, mean, std):
    """Normals of any real dtype below 16 elements: pairs in float64, the odd one kept."""
    words = np.empty(4, np.uint32)
    values = np.empty(out.size, np.float64)
    state[624] = next_normals(state, words, values)
    for i in range(out.size):
        out[i] = values[i] * std + mean


@loop
def log_normal(out, state, mean, std):
    """exp of normals of any real dtype and any number, made in pairs as in `normal_few`."""
    words = np.empty(4, np.uint32)
    values = np.empty(256, np.float64)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = next_normals(state, words, values[:count])
        for i in range(count):
            out[first + i] = np.exp(values[i] * std + mean)


@loop
def integers(out, state, low, span, wide):
    """low + a word modulo ``span``, in any dtype; ``wide``: a uint64 of two words modulo ``span``.

    ``span`` is an int64 with the bits of a uint64; 0 stands for 2^64. See `integer_range`.
    """
    words = np.empty(512, np.uint32)
    if wide:
        modulus = np.uint64(span)
        for first in range(0, out.size, 256):
            count = min(256, out.size - first)
            state[624] = draw(state, words, 2 * count)
            for i in range(count):
                y = (np.uint64(words[2 * i]) << np.uint64(32)) | np.uint64(words[2 * i + 1])
                y = y % modulus if span != 0 else y
                out[first + i] = np.int64(y) + low
    else:
        # A remainder without division, exact in float64: the quotient is off by one at most.
        size = np.float64(span)
        inverse = 1 / size
        for first in range(0, out.size, 512):
            count = min(512, out.size - first)
            state[624] = draw(state, words, count)
            for i in range(count):
                y = np.float64(words[i])
                y = y - np.floor(y * inverse) * size
                y = y + size if y < 0 else y
                y = y - size if y >= size else y
                out[first + i] = np.int64(y) + low


@loop
def permutation(out, state):
    """0 .. n - 1 in random order, in any integer or float dtype: n - 1 words."""
    words = np.empty(512, np.uint32)
    n = out.size
    for i in range(n):
        out[i] = i
    for first in range(0, n - 1, 512):
        count = min(512, n - 1 - first)
        state[624] = draw(state, words, count)
        for i in range(first, first + count):
            j = i + np.int64(np.uint64(words[i - first]) % np.uint64(n - i))
            out[i], out[j] = out[j], out[i]


@loop
def bernoulli(out, state, p):
    """1 with probability ``p``, else 0, in any dtype: two words an element."""
    words = np.empty(512, np.uint32)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            out[first + i] = T(1) if unit64(words[2 * i], words[2 * i + 1]) < p else T(0)


@loop(dtype_from="out")
def bernoulli_each32(p, out, state):
    """1 with the probability that its element of the float32 array ``p`` says: one word each."""
    words = np.empty(512, np.uint32)
    for first in range(0, out.size, 512):
        count = min(512, out.size - first)
        state[624] = draw(state, words, count)
        for i in range(count):
            out[first + i] = T(1) if unit32(words[i]) < p[first + i] else T(0)


@loop(dtype_from="out")
def bernoulli_each64(p, out, state):
    """1 with the probability that its element of the float64 array ``p`` says: two words each."""
    words = np.empty(512, np.uint32)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            u = unit64(words[2 * i], words[2 * i + 1])
            out[first + i] = T(1) if u < p[first + i] else T(0)


@loop
def dropout_mask(out, state, keep):
    """1 / keep with probability ``keep``, else 0: PyTorch's ``bernoulli_(keep).div_(keep)``."""
    words = np.empty(512, np.uint32)
    scale = T(1) / T(keep)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            out[first + i] = scale if unit64(words[2 * i], words[2 * i + 1]) < keep else T(0)


@loop
def exponential(out, state, rate):
    """-log(1 - u) / rate for a float64 uniform u, in any real dtype."""
    words = np.empty(512, np.uint32)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            out[first + i] = (-1 / rate) * np.log1p(-unit64(words[2 * i], words[2 * i + 1]))


@loop
def geometric(out, state, p):
    """The number of trials up to the first success: ceil(log(1 - u) / log(1 - p))."""
    words = np.empty(512, np.uint32)
    scale = np.log1p(-p)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            u = unit64(words[2 * i], words[2 * i + 1])
            out[first + i] = np.ceil(np.log1p(-u) / scale)


@loop
def cauchy(out, state, median, sigma):
    """median + sigma tan(pi (u - 1/2)) for a float64 uniform u, in any real dtype."""
    words = np.empty(512, np.uint32)
    for first in range(0, out.size, 256):
        count = min(256, out.size - first)
        state[624] = draw(state, words, 2 * count)
        for i in range(count):
            u = unit64(words[2 * i], words[2 * i + 1])
            out[first + i] = median + sigma * np.tan(np.pi * (u - np.float64(0.5)))


@loop
def multinomial(weights, out, state):
    """Draw with replacement: int64 columns of ``weights`` (rows, n) into ``out`` (rows, samples)."""
    words = np.empty(2, np.uint32)
    upto = np.empty(weights.shape[1], T)
    for row in range(weights.shape[0]):
        total = T(0)
        for k in range(upto.size):
            total += weights[row, k]
            upto[k] = total
        for k in range(upto.size):
            upto[k] /= total
        for sample in range(out.shape[1]):
            state[624] = draw(state, words, 2)
            u = unit64(words[0], words[1])
            low, high = 0, upto.size - 1
            while low < high:
                middle = (low + high) // 2
                if upto[middle] < u:
                    low = middle + 1
                else:
                    high = middle
            out[row, sample] = low


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_BITS = {"bool": 1, "uint8": 8, "int8": 7, "int16": 15, "int32": 31, "int64": 63}
_BITS |= {"uint16": 16, "uint32": 32, "uint64": 64}


def integer_range(dtype: str, low: int | None = None, high: int | None = None) -> tuple[int, int, bool]:
    """Return (low, span, wide) for `integers`, as PyTorch's ``random_`` chooses them.

    Without bounds: every value of an integer dtype from 0 on, or the integers that a float dtype
    holds exactly. With ``low`` alone: from there on. Else low <= x < high, where bounds that a
    float dtype cannot hold move inwards. Two words are drawn for a span of 2^28 or more, but without
    bounds only for dtypes of 64 bits.
    """
    digits = _DIGITS.get(dtype)
    top = 1 << digits if digits else (1 << _BITS[dtype]) - 1
    if low is None:
        return 0, _as_int64(top + 1), dtype in ("float64", "int64", "uint64")
    if high is None:
        span = top - low + 1
    else:
        low, high = (_up(low, digits), _down(high, digits)) if digits else (low, high)
        span = high - low
    return low, _as_int64(span), span >= 1 << 28


def _as_int64(value: int) -> int:
    """The int64 with the bits of a uint64; 2^64 becomes 0."""
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value


def pack_state(state: np.ndarray) -> np.ndarray:
    """Return the 5056 bytes, uint8, that ``torch.get_rng_state`` gives for this generator.

    That is: the seed; the words left before the next refill and a 1 (int32); the words used and the
    624 words (uint64); 8 bytes of zeros, the float64 normal in waiting, 8 of zeros and its flag
    (int32); padding, and the place of a float32 normal.
    """
    packed = np.zeros(5056, np.uint8)
    used = int(state[624])
    packed[0:8] = state[628:630].view(np.uint8)
    packed[8:16].view(np.int32)[:] = 625 - used if used else 1, 1
    packed[16:5016].view(np.uint64)[:] = used, *state[:624]
    packed[5024:5032] = state[626:628].view(np.uint8)
    packed[5040:5044].view(np.int32)[:] = state[625]
    return packed


def unpack_state(packed: np.ndarray, state: np.ndarray) -> None:
    """Set ``state`` from the bytes of `pack_state`.

    Raises RuntimeError, in PyTorch's words, where they are not 5056 or no state of MT19937.
    """
    if packed.size != 5056:
        raise RuntimeError(
            "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be "
            f"{packed.size}"
        )
    packed = np.ascontiguousarray(packed, np.uint8)
    left, seeded = packed[8:16].view(np.int32)
    used, words = packed[16:24].view(np.uint64)[0], packed[24:5016].view(np.uint64)
    if not (seeded == 1 and 0 < left <= 624 and used <= 624):
        raise RuntimeError("Invalid mt19937 state")
    state[:624] = words
    state[624] = used
    state[625] = packed[5040:5044].view(np.int32)[0]
    state[626:628] = packed[5024:5032].view(np.uint32)
    state[628:630] = packed[0:8].view(np.uint32)
    state[630:] = 0


def _up(x, digits): return x
def _down(x, digits): return x
