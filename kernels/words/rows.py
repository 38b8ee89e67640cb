"""Words for loops along rows: an order of floats as integers, an exponential of what is not positive.

LLVM vectorises a running maximum of integers in registers, but not one of floats, whose NaN it must
respect.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.exponential import _exp_reduced, _exp_tail, _two_to
from jitgrad.kernels.words.vocabulary import T, word  # noqa: F401  (T: named by bodies)

__all__ = ["_exp_falling", "_from_rank", "_mirrored", "_rank"]


@word(internal=True)
class _rank:
    """An integer that grows with x: -inf < -1 < -0 < 0 < 1 < inf < NaN of either sign."""

    def float32(x):
        bits = np.float32(x).view(np.int32)
        # Floats below 0 are ordered the other way round as integers: all their bits but the sign are turned.
        ordered = np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))
        return np.int32(0x7FFFFFFF) if x != x else ordered

    def float64(x):
        bits = np.float64(x).view(np.int64)
        ordered = np.int64(bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))
        return np.int64(0x7FFFFFFFFFFFFFFF) if x != x else ordered

    def int(x):
        return x


@word(internal=True)
class _from_rank:
    """The number whose rank is i."""

    def float32(i):
        return np.int32(i ^ ((i >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)

    def float64(i):
        return np.int64(i ^ ((i >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)

    def int(i):
        return i


@word(internal=True)
class _mirrored:
    """The number as far from the other end: what was smallest becomes largest."""

    def real(x):
        return -x

    def int(x):
        return ~x


@word(internal=True)
class _exp_falling:
    """exp(x) for x <= 0: 0 below the smallest normal number, which saves exp's second scaling."""

    def float32(x):
        # exp(-87.33654) is the smallest normal number of float32, exp(-708.3964) that of float64.
        n, r = _exp_reduced(-87.33654 if x < -87.33654 else x)
        return 0.0 if x < -87.33654 else (1.0 + _exp_tail(r)) * _two_to(n)

    def float64(x):
        n, r = _exp_reduced(-708.3964 if x < -708.3964 else x)
        return 0.0 if x < -708.3964 else (1.0 + _exp_tail(r)) * _two_to(n)
