"""Words whose meaning needs another body for each kind of number."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.power import pow
from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["divide", "power_of", "trunc_divide"]


def _power(a, b):
    a, b = np.broadcast_arrays(a, b)
    if np.result_type(a, b).kind not in "iu":
        return np.power(a, b)
    whole = np.power(a, np.maximum(b, 0))
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, whole).astype(whole.dtype)[()]


@word(_power)
class power_of:
    """a to the power b; of integers to a negative power only those of 1 and -1 are not 0."""

    def real(a, b):
        return pow(a, b)

    def complex(a, b):
        return pow(a, b)

    def int(a, b):
        odd = (b & T(1)) != T(0)
        base = T(a)
        left = T(b) if b > T(0) else T(0)
        whole = T(1)
        # By squaring, wrapping round as machine integers do; T(...) undoes Numba's widening to int64.
        while left > T(0):
            whole = T(whole * base) if (left & T(1)) != T(0) else whole
            base = T(base * base)
            left = T(left >> T(1))
        # 1 / a for a = 1 and -1, the only integers whose inverse is one.
        unit = T(a) if odd else T(1)
        inverse = unit if (a == T(1)) | (T(a + T(1)) == T(0)) else T(0)
        return inverse if b < T(0) else whole


def _trunc_divide(a, b):
    if np.result_type(a, b).kind not in "iu":
        return np.trunc(a / b)
    return np.floor_divide(a - np.fmod(a, b), b)


@word(_trunc_divide)
class trunc_divide:
    """a / b without its fraction; integers by zero give 0."""

    def real(a, b):
        return np.trunc(a / b)

    def int(a, b):
        # -1 is kept from the division because the smallest integer by it traps.
        minus = (b < T(0)) & (T(b + T(1)) == T(0))
        harmless = T(1) if (b == T(0)) | minus else b
        rest = T(a % harmless)
        rest = T(rest - harmless) if (rest != T(0)) & ((a < T(0)) != (rest < T(0))) else rest
        whole = T(-a) if minus else T(T(a - rest) // harmless)
        return T(0) if b == T(0) else whole


@word(np.divide)
class divide:
    """a / b. The emitter writes this for `/` between complex numbers.

    Numba's own complex division raises an exception at zero and does not vectorise. The quotient is
    scaled by the larger part of b (Smith's algorithm) with selects in place of branches.
    """

    def any(a, b):
        return a / b

    def complex(a, b):
        wide = np.abs(b.real) >= np.abs(b.imag)
        large = b.real if wide else b.imag
        small = b.imag if wide else b.real
        ratio = small if large == 0 else small / large
        size = large + small * ratio
        first = a.real if wide else a.imag
        second = a.imag if wide else a.real
        imag = (second - first * ratio) / size
        return complex((first + second * ratio) / size, imag if wide else -imag)
