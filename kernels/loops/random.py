"""PyTorch's CPU generator: MT19937 and the distributions drawn from it, number for number.

Kernels take flat contiguous arrays: inputs, ``out``, ``state`` (see `generator_state`), scalars. "A
uniform" is 24 bits of one word in float32, 53 bits of two words (the high one first) in float64.

The numbers are PyTorch's to the bit where PyTorch runs its AVX2 or AVX-512 code and shares the C
library, whose float64 logarithms and sines both use. Elsewhere last digits differ: PyTorch's plain
x86 code has no fused multiply-add, and only its vector code the logarithm and sine of `normal32`.
On Intel's processors a PyTorch with MKL may draw `bernoulli_(p)`, dropout and `exponential_` from a
generator of MKL's. Here, as in PyTorch elsewhere, they come from MT19937 too.
"""

from __future__ import annotations

import threading

import numpy as np

from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.generator_state import PACKED_BYTES, STATE_WORDS, integer_range, pack_state, unpack_state
from jitgrad.kernels.words.random import box_muller, next_normals, uniforms32, uniforms64
from jitgrad.kernels.words.vocabulary import T, draw, scratch

__all__ = [
    "PACKED_BYTES",
    "STATE_WORDS",
    "ask_for_draws",
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
    "wide_integers",
]


_mersenne_twister, _seeding = np.random.RandomState(0), threading.Lock()


@library("state")
def seed(state, value):
    """Start afresh from ``value``, an int64 with the bits of the uint64 seed: the low 32 decide."""
    low, high = value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
    with _seeding:
        # NumPy starts its generator by Matsumoto and Nishimura's init_genrand, too: 30 us, and nothing to compile.
        _mersenne_twister.seed(low)
        state[:624] = _mersenne_twister.get_state()[1]
    state[624:628] = 0
    state[628:] = low, high, 0, 0


def ask_for_draws(state):
    """Have the kernels of the usual draws compiled ahead, for ``state`` was asked for: it will be drawn from."""
    for kernel in (uniform32, normal32):
        kernel.ask(np.empty(1, np.float32), state, 0.0, 1.0)


@loop
def uniform32(out, state, low, high):
    """float32 in [low, high): one word an element."""
    # Blocks of 512 numbers: what `uniforms32` makes is still in cache when it is scaled.
    start, end = np.float32(low), np.float32(high)
    width = end - start
    units = scratch(512, np.float32)
    n, step = np.uint64(out.size), np.uint64(512)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms32(state, units, count)
        for i in range(count):
            value = units[i] * width + start
            out[first + i] = start if value == end else value  # rounded up to the end, which is excluded


@loop
def uniform64(out, state, low, high):
    """float64 in [low, high): two words an element."""
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            value = units[i] * (high - low) + low
            out[first + i] = low if value == high else value


@loop
def normal32(out, state, mean, std):
    """float32 normals, at least 16: Box and Muller in blocks of 16 uniforms, one word an element.

    The first half of a block are the radii, the second the angles. An incomplete last block is
    drawn and dropped; the last 16 elements are drawn anew. For float16 and bfloat16 PyTorch drops
    nothing: launch this on the whole blocks, then on the last 16.
    """
    units = scratch(512, np.float32)
    cosines, sines = scratch(256, np.float32), scratch(256, np.float32)
    mean, std = np.float32(mean), np.float32(std)
    half = np.uint64(8)
    n, step = np.uint64(out.size), np.uint64(512)
    whole = n - n % np.uint64(16)
    done = np.uint64(0)
    while done < n:
        first, count, skip = done, step if whole - done > step else whole - done, np.uint64(0)
        # All whole blocks are done: the words of the incomplete one are skipped, then the last 16 drawn.
        if count == 0:
            first, count, skip = n - np.uint64(16), np.uint64(16), n - whole
        state[624] = uniforms32(state, units, skip + count)
        pairs = count >> np.uint64(1)
        # Moved apart, then together again: a loop of 8 is unrolled, not vectorised.
        for block in range(np.uint64(0), pairs, half):
            for i in range(block, block + half):
                cosines[i] = units[skip + block + i]
                sines[i] = units[skip + block + i + half]
        for i in range(pairs):
            c, s = box_muller(cosines[i], sines[i])
            cosines[i] = c * std + mean
            sines[i] = s * std + mean
        for block in range(np.uint64(0), pairs, half):
            for i in range(block, block + half):
                out[first + block + i] = cosines[i]
                out[first + block + i + half] = sines[i]
        done = first + count


@loop
def normal64(out, state, mean, std):
    """float64 normals, at least 16: as `normal32`, with two words an element."""
    units = scratch(256, np.float64)
    half = np.uint64(8)
    n, step = np.uint64(out.size), np.uint64(256)
    whole = n - n % np.uint64(16)
    done = np.uint64(0)
    while done < n:
        first, count, skip = done, step if whole - done > step else whole - done, np.uint64(0)
        if count == 0:
            first, count, skip = n - np.uint64(16), np.uint64(16), n - whole
        state[624] = uniforms64(state, units, skip + count)
        for block in range(np.uint64(0), count, np.uint64(16)):
            for i in range(block, block + half):
                radius = np.sqrt(-2 * np.log(1 - units[skip + i]))
                angle = (2 * np.pi) * units[skip + i + half]
                out[first + i] = (radius * np.cos(angle)) * std + mean
                out[first + i + half] = (radius * np.sin(angle)) * std + mean
        done = first + count


@loop
def normal_few(out, state, mean, std):
    """Normals of any real dtype: pairs in float64, the odd one kept.

    PyTorch's way below 16 elements, and for any number in a tensor that is not contiguous.
    """
    values = np.empty(out.size, np.float64)
    state[624] = next_normals(state, values, np.uint64(out.size))
    for i in range(out.size):
        out[i] = values[i] * std + mean


@loop
def log_normal(out, state, mean, std):
    """exp of normals of any real dtype and any number, made in pairs as in `normal_few`."""
    values = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = next_normals(state, values, count)
        for i in range(count):
            out[first + i] = np.exp(values[i] * std + mean)


@loop
def integers(out, state, low, span):
    """low + a word modulo ``span``, at most 2^32, in any dtype. See `integer_range`."""
    words = scratch(256, np.uint32)
    n, step, size = np.uint64(out.size), np.uint64(256), np.float64(span)
    inverse = 1 / size
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = draw(state, words, count)
        for i in range(count):
            # A remainder without division, exact in float64: the quotient is off by at most 1.
            y = np.float64(words[i])
            y = y - np.floor(y * inverse) * size
            y = y + size if y < 0 else y
            y = y - size if y >= size else y
            out[first + i] = np.int64(y) + low


@loop
def wide_integers(out, state, low, span):
    """low + a uint64 of two words modulo ``span``, an int64 with the bits of a uint64; 0 stands for 2^64."""
    words = scratch(512, np.uint32)
    n, step, modulus = np.uint64(out.size), np.uint64(256), np.uint64(span)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = draw(state, words, count + count)
        for i in range(count):
            high, low_word = np.uint64(words[i + i]), np.uint64(words[i + i + np.uint64(1)])
            y = (high << np.uint64(32)) | low_word
            # A span of 2**64 is no uint64: every word is a result.
            y = y if span == 0 else y % modulus
            out[first + i] = np.int64(y) + low


@loop
def permutation(out, state):
    """0 .. n - 1 in random order, in any dtype: n - 1 words, for the swaps of Fisher and Yates.

    PyTorch's order for n below 2^32 / 20; beyond, it draws two words a swap.
    """
    words = scratch(512, np.uint32)
    n, step = np.uint64(out.size), np.uint64(512)
    for i in range(n):
        out[i] = i
    for first in range(np.uint64(1), n, step):
        count = step if n - first > step else n - first
        state[624] = draw(state, words, count)
        for k in range(count):
            i = first - np.uint64(1) + k
            # Fisher and Yates: element i changes places with one of those from i on.
            j = i + np.uint64(words[k]) % (n - i)
            out[i], out[j] = out[j], out[i]


@loop
def bernoulli(out, state, p):
    """1 with probability ``p``, else 0, in any dtype: two words an element."""
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            # The comparison of PyTorch's bernoulli_distribution: u < p.
            out[first + i] = T(1) if units[i] < p else T(0)


@loop(dtype_from="out")
def bernoulli_each32(p, out, state, found):
    """1 with the probability that its element of the float32 array ``p`` says: one word each.

    Nothing but ``found[0]`` is written where one is not in [0, 1].
    """
    wrong = 0
    for i in range(p.size):
        wrong += not (p[i] >= 0 and p[i] <= 1)
    found[0] = wrong
    units = scratch(512, np.float32)
    n, step = np.uint64(0 if wrong else out.size), np.uint64(512)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms32(state, units, count)
        for i in range(count):
            out[first + i] = T(1) if units[i] < p[first + i] else T(0)


@loop(dtype_from="out")
def bernoulli_each64(p, out, state, found):
    """1 with the probability that its element of the float64 array ``p`` says: two words each.

    Nothing but ``found[0]`` is written where one is not in [0, 1].
    """
    wrong = 0
    for i in range(p.size):
        wrong += not (p[i] >= 0 and p[i] <= 1)
    found[0] = wrong
    units = scratch(256, np.float64)
    n, step = np.uint64(0 if wrong else out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            out[first + i] = T(1) if units[i] < p[first + i] else T(0)


@loop
def dropout_mask(out, state, keep):
    """1 / keep with probability ``keep``, else 0: PyTorch's ``bernoulli_(keep).div_(keep)``."""
    scale = T(1) / T(keep)
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            out[first + i] = scale if units[i] < keep else T(0)


@loop
def exponential(out, state, rate):
    """-log(1 - u) / rate for a float64 uniform u, in any real dtype."""
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            out[first + i] = (-1 / rate) * np.log1p(-units[i])


@loop
def geometric(out, state, p):
    """The number of trials up to the first success, in any dtype: ceil(log(u) / log(1 - p))."""
    scale = np.log1p(-p)
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            out[first + i] = np.ceil(np.log(units[i]) / scale)


@loop
def cauchy(out, state, median, sigma):
    """median + sigma tan(pi (u - 1/2)) for a float64 uniform u, in any real dtype."""
    units = scratch(256, np.float64)
    n, step = np.uint64(out.size), np.uint64(256)
    for first in range(np.uint64(0), n, step):
        count = step if n - first > step else n - first
        state[624] = uniforms64(state, units, count)
        for i in range(count):
            out[first + i] = median + sigma * np.tan(np.pi * (units[i] - np.float64(0.5)))


@loop
def multinomial(weights, out, state):
    """Draw columns of ``weights`` (rows, n) with replacement: int64 ``out`` (rows, samples)."""
    unit = scratch(1, np.float64)
    upto = np.empty(weights.shape[1], T)
    for row in range(weights.shape[0]):
        total = T(0)
        for k in range(upto.size):
            # The cumulative distribution, normalised by its last value.
            total += weights[row, k]
            upto[k] = total
        for k in range(upto.size):
            upto[k] /= total
        for sample in range(out.shape[1]):
            state[624] = uniforms64(state, unit, np.uint64(1))
            low, high = 0, upto.size - 1
            # Bisection for the first place whose cumulative weight is no less than the uniform.
            while low < high:
                middle = (low + high) // 2
                if upto[middle] < unit[0]:
                    low = middle + 1
                else:
                    high = middle
            out[row, sample] = low
