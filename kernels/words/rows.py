"""Words for loops along rows: an order of floats as integers, an exponential of what is not positive.

LLVM vectorises a running maximum of integers in registers, but not one of floats, whose NaN it must
respect.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.exponential import _exp_reduced, _exp_tail, _two_to
from jitgrad.kernels.words.vocabulary import T, word

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


@word(internal=True, ulp={"float32": 1, "float64": 1})
class _exp_falling:
    """exp(x) for x <= 0, denormal results included.

    2**n may be no normal number, so the scaling is by 2**(n + 64) and 2**-64, for float64 by 2**(n + 1000) and
    2**-1000: one multiplication more, where exp, which grows as well, needs a power of two for either half of n.
    """

    def float32(x):
        # exp rounds to 0 from -103.98 on, in float64 from -745.14 on.
        n, r = _exp_reduced(-105.0 if x < -105.0 else x)
        return (1.0 + _exp_tail(r)) * _two_to(np.int32(n + np.int32(64))) * T(2.0**-64)

    def float64(x):
        n, r = _exp_reduced(-746.0 if x < -746.0 else x)
        return (1.0 + _exp_tail(r)) * _two_to(n + np.int64(1000)) * T(2.0**-1000)
