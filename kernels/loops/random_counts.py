"""Counts drawn one after another: Poisson's and the binomial distribution, number for number PyTorch's.

Both draw float64 uniforms, as many as it takes, so an element's numbers depend on those before it. Few events are
counted one by one; many are drawn by Hörmann's transformed rejection. Parameters and ``out`` are flat arrays.
"""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.random import uniform64
from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["binomial", "poisson"]


@loop(dtype_from="out")
def poisson(rates, out, state, found):
    """Poisson counts of the given rates; nothing but ``found[0]`` is written where one is negative or NaN."""
    for i in range(rates.size):
        if not rates[i] >= T(0):
            found[0] = 1
    for i in range(rates.size):
        if found[0]:
            break
        rate = np.float64(rates[i])
        if rate == 0:
            out[i] = T(0)
        elif rate < 10:
            # Knuth: exponential gaps are added up, by products of uniforms, until the sum is over the rate.
            bound, product, count = np.exp(-rate), np.float64(1), 0
            while True:
                u, state[624] = uniform64(state)
                product *= u
                if not product > bound:
                    break
                count += 1
            out[i] = count
        else:
            root, logarithm = np.sqrt(rate), np.log(rate)
            b = np.float64(0.931) + np.float64(2.53) * root
            a = np.float64(-0.059) + np.float64(0.02483) * b
            inverse = np.float64(1.1239) + np.float64(1.1328) / (b - np.float64(3.4))
            v_r = np.float64(0.9277) - np.float64(3.6224) / (b - 2)
            while True:
                u, state[624] = uniform64(state)
                v, state[624] = uniform64(state)
                u = u - np.float64(0.5)
                us = np.float64(0.5) - np.abs(u)
                k = np.floor((2 * a / us + b) * u + rate + np.float64(0.43))
                if us >= np.float64(0.07) and v <= v_r:
                    break
                if k < 0 or (us < np.float64(0.013) and v > us):
                    continue
                left = np.log(v) + np.log(inverse) - np.log(a / (us * us) + b)
                if left <= -rate + k * logarithm - math.lgamma(k + 1):
                    break
            out[i] = k


@word(internal=True)
class stirling_tail:
    """log(k!) less Stirling's formula, for whole k."""

    def any(k):
        if k <= 9:
            return (
                np.float64(0.0810614667953272), np.float64(0.0413406959554092), np.float64(0.0276779256849983),
                np.float64(0.02079067210376509), np.float64(0.0166446911898211), np.float64(0.0138761288230707),
                np.float64(0.0118967099458917), np.float64(0.0104112652619720), np.float64(0.00925546218271273),
                np.float64(0.00833056343336287),
            )[np.int64(k)]  # fmt: skip
        square = (k + 1) * (k + 1)
        twelfth, middle, last = np.float64(1.0) / 12, np.float64(1.0) / 360, np.float64(1.0) / 1260
        return (twelfth - (middle - last / square) / square) / (k + 1)


@loop(dtype_from="out")
def binomial(counts, probabilities, out, state):
    """How many of ``counts`` trials succeed, each with its probability; NaN for a probability of NaN."""
    for i in range(counts.size):
        n, p = counts[i], probabilities[i]
        # The rarer of both outcomes is counted.
        flipped = p > T(0.5)
        q = T(1) - p if flipped else p
        if n <= 0 or p <= 0:
            out[i] = T(0)
        elif p >= 1:
            out[i] = n
        elif np.isnan(p):
            out[i] = T(np.nan)
        elif n * q < T(10):
            # The gaps between successes are geometric.
            logarithm, total, few = np.float64(np.log1p(-q)), np.float64(0), 0
            while True:
                u, state[624] = uniform64(state)
                total += np.ceil(np.log(u) / logarithm)
                if total > n:
                    break
                few += 1
            out[i] = n - T(few) if flipped else T(few)
        else:
            # In the tensor's precision, where PyTorch has it so.
            deviation = np.float64(np.sqrt(n * q * (T(1) - q)))
            b = np.float64(1.15) + np.float64(2.53) * deviation
            a = np.float64(-0.0873) + np.float64(0.0248) * b + np.float64(0.01) * np.float64(q)
            c = np.float64(n * q) + np.float64(0.5)
            v_r = np.float64(0.92) - np.float64(4.2) / b
            r = np.float64(q / (T(1) - q))
            alpha = (np.float64(2.83) + np.float64(5.1) / b) * deviation
            m = np.float64(np.floor((n + T(1)) * q))
            count = np.float64(n)
            while True:
                u, state[624] = uniform64(state)
                v, state[624] = uniform64(state)
                u = u - np.float64(0.5)
                us = np.float64(0.5) - np.abs(u)
                k = np.float64(T(np.floor((2 * a / us + b) * u + c)))
                if us >= np.float64(0.07) and v <= v_r:
                    break
                if k < 0 or k > count:
                    continue
                v = np.log(v * alpha / (a / (us * us) + b))
                bound = (m + np.float64(0.5)) * np.log((m + 1) / (r * (count - m + 1)))
                bound = bound + (count + 1) * np.log((count - m + 1) / (count - k + 1))
                bound = bound + (k + np.float64(0.5)) * np.log(r * (count - k + 1) / (k + 1))
                tails = stirling_tail(m) + stirling_tail(count - m)
                if v <= bound + (tails - stirling_tail(k) - stirling_tail(count - k)):
                    break
            out[i] = n - T(k) if flipped else T(k)
