"""Words of logic: tests of floats, truth values, bits."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.vocabulary import T, word

__all__ = [
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "logical_and",
    "logical_not", "logical_or", "logical_xor", "signbit",
]  # fmt: skip


@word(np.isnan)
class isnan:
    """Whether x is not a number; a complex x: whether either part is not."""

    def real(x):
        return x != x

    def complex(x):
        return (x.real != x.real) | (x.imag != x.imag)

    def int(x):
        return False


@word(np.isinf)
class isinf:
    """Whether x is an infinity; a complex x: whether either part is."""

    def real(x):
        return np.abs(x) == T(np.inf)

    def complex(x):
        return (np.abs(x.real) == np.inf) | (np.abs(x.imag) == np.inf)

    def int(x):
        return False


@word(np.isfinite)
class isfinite:
    """Whether x is neither an infinity nor NaN."""

    def real(x):
        return np.abs(x) < T(np.inf)

    def complex(x):
        return (np.abs(x.real) < np.inf) & (np.abs(x.imag) < np.inf)

    def int(x):
        return True


@word(np.isposinf)
class isposinf:
    """Whether x is +infinity."""

    def real(x):
        return x == T(np.inf)

    def int(x):
        return False


@word(np.isneginf)
class isneginf:
    """Whether x is -infinity."""

    def real(x):
        return x == -T(np.inf)

    def int(x):
        return False


@word(np.signbit)
class signbit:
    """Whether x bears a minus, as -0 and some NaNs do."""

    def real(x):
        return np.signbit(x)

    def cuda(x):
        return math.copysign(1.0, x) < 0

    def int(x):
        return x < 0


@word(np.logical_not)
class logical_not:
    """Whether x is zero."""

    def any(x):
        return x == T(0)


@word(np.logical_and)
class logical_and:
    """Whether neither is zero."""

    def any(a, b):
        return (a != T(0)) & (b != T(0))


@word(np.logical_or)
class logical_or:
    """Whether either is not zero."""

    def any(a, b):
        return (a != T(0)) | (b != T(0))


@word(np.logical_xor)
class logical_xor:
    """Whether exactly one is not zero."""

    def any(a, b):
        return (a != T(0)) != (b != T(0))


@word(np.invert)
class bitwise_not:
    """All bits turned; the negation of a boolean."""

    def int(x):
        return T(~x)

    def bool(x):
        return not x


@word(np.bitwise_and)
class bitwise_and:
    """The bits that both have."""

    def int(a, b):
        return T(a & b)


@word(np.bitwise_or)
class bitwise_or:
    """The bits that either has."""

    def int(a, b):
        return T(a | b)


@word(np.bitwise_xor)
class bitwise_xor:
    """The bits that exactly one has."""

    def int(a, b):
        return T(a ^ b)


@word(np.left_shift)
class bitwise_left_shift:
    """a times 2 to the power b; 0 where b is negative or no less than the number of bits."""

    def int(a, b):
        # A shift by the number of bits or more is undefined in machine code.
        inside = (b >= T(0)) & (b < T(64))
        return T(np.int64(a) << np.int64(b)) if inside else T(0)


@word(np.right_shift)
class bitwise_right_shift:
    """a divided by 2 to the power b, rounded down; all sign where b is out of range."""

    def int(a, b):
        inside = (b >= T(0)) & (b < T(63))
        return T(np.int64(a) >> (np.int64(b) if inside else np.int64(63)))
