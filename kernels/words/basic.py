"""Words of arithmetic and choice: exact, or one rounding away from it."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.vocabulary import D, T, fma, word

__all__ = [
    "abs", "angle", "ceil", "conj", "constant_in", "copysign", "floor", "floor_divide", "fmod", "heaviside",
    "imag", "maximum", "minimum", "nextafter", "real", "reciprocal", "remainder", "round",
    "rsqrt", "sign", "sqrt", "square", "trunc", "where",
]  # fmt: skip


@word(np.abs, cuda="math.fabs")
class abs:
    """The absolute value; of a complex number, its modulus."""

    def any(x):
        return np.abs(x)

    def bool(x):
        return x


def _sign(x):
    """NumPy's sign, but 0 for NaN as in PyTorch (only for numbers that are not complex)."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        return np.sign(x)
    if x.dtype.kind == "b":
        return x[()]
    return ((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))[()]


@word(_sign)
class sign:
    """-1, 0 or 1 by the sign of x, 0 for NaN; of a complex number, x / abs(x)."""

    def real(x):
        return T(x > 0.0) - T(x < 0.0)

    def int(x):
        return T(x > T(0)) - T(x < T(0))

    def bool(x):
        return x

    def complex(x):
        size = np.abs(x)
        return x / size if size > 0 else x


@word(np.square)
class square:
    """x times x."""

    def any(x):
        return x * x

    def bool(x):
        return x


@word(np.sqrt, cuda="math.sqrt", ulp={"float32": 0.5, "float64": 0.5})
class sqrt:
    """The square root; NaN below zero, -0 for -0."""

    def any(x):
        return np.sqrt(x)


@word(lambda x: 1 / np.sqrt(x), ulp={"float32": 1.5, "float64": 1.5})
class rsqrt:
    """One over the square root."""

    def real(x):
        return 1.0 / np.sqrt(x)

    def complex(x):
        return T(1) / np.sqrt(x)


@word(lambda x: 1 / np.asarray(x)[()], ulp={"float32": 0.5, "float64": 0.5})
class reciprocal:
    """One over x."""

    def real(x):
        return 1.0 / x

    def complex(x):
        return T(1) / x


@word(np.floor, cuda="math.floor")
class floor:
    """The largest integer that is not above x."""

    def real(x):
        return np.floor(x)

    def int(x):
        return x


@word(np.ceil, cuda="math.ceil")
class ceil:
    """The smallest integer that is not below x."""

    def real(x):
        return np.ceil(x)

    def int(x):
        return x


@word(np.trunc, cuda="math.trunc")
class trunc:
    """x without its fraction."""

    def real(x):
        return np.trunc(x)

    def int(x):
        return x


@word(np.rint)
class round:
    """The nearest integer, of two equally near ones the even one."""

    def real(x):
        return np.rint(x)

    def cuda(x):
        # Ties to even, by comparisons alone.
        below = math.floor(x)
        odd = math.floor(below * 0.5) != below * 0.5
        up = (x - below > 0.5) | ((x - below == 0.5) & odd)
        return math.copysign(below + 1.0 if up else below, x)

    def int(x):
        return x


@word(np.maximum)
class maximum:
    """The larger of two; NaN if either is."""

    def real(a, b):
        return a if (a > b) | (a != a) else b

    def int(a, b):
        return a if a > b else b


@word(np.minimum)
class minimum:
    """The smaller of two; NaN if either is."""

    def real(a, b):
        return a if (a < b) | (a != a) else b

    def int(a, b):
        return a if a < b else b


@word(np.where)
class where:
    """`a` where the condition holds, else `b`; both are evaluated."""

    def any(condition, a, b):
        return a if condition else b


@word(lambda value, x: value)
class constant_in:
    """``value``, as a function of x whose derivative is zero: on tensors the result depends on x.

    For gradients that x chooses and does not scale, such as that of relu: PyTorch records that they depend on x.
    """

    def any(value, x):
        return value


@word(np.copysign, cuda="math.copysign")
class copysign:
    """The size of a with the sign of b, -0 and NaN's sign included."""

    def real(a, b):
        return np.copysign(a, b)


@word(internal=True)
class _is_near_quotient:
    """Whether `_fmod_near` has the remainder of a / b."""

    # b is no infinity, and the quotient less than 2**50. Where its multiple overflows, that is sure.
    def float32(a, b):
        size = np.abs(b)
        return (size <= 3.4028234663852886e38) & (np.abs(a) <= size * 1125899906842624.0)

    def float64(a, b):
        size = np.abs(b)
        return (size <= 1.7976931348623157e308) & (np.abs(a) <= size * 1125899906842624.0)


@word(internal=True)
class _fmod_near:
    """The remainder of a / b with the sign of a, for moderate quotients.

    C's function, which takes 10 to 20 ns, divides bit by bit. A quotient that float64 holds is rounded to the wrong
    whole number at most where it is just below that: one more than it should be. So what the multiple leaves of a is
    the remainder, or that less b; float64 holds either, and only the multiple itself may be too long for it.
    """

    def real(a, b):
        size, unit = np.float64(np.abs(a)), np.float64(np.abs(b))
        rest = fma(-np.trunc(size / unit), unit, size)
        rest = rest + unit if rest < D(0.0) else rest
        return np.copysign(T(rest), a)


_NEAR_QUOTIENT = dict.fromkeys(("float32", "float64"), "_is_near_quotient")


@word(np.fmod, cuda="math.fmod", near=("_fmod_near", _NEAR_QUOTIENT))
class fmod:
    """The remainder of a / b with the sign of a; integers by zero give 0."""

    def real(a, b):
        return np.fmod(a, b)

    def int(a, b):
        # Numba's % has the sign of b. -1 is kept from it: the smallest integer by it traps.
        harmless = T(1) if (b == T(0)) | ((b < T(0)) & (T(b + T(1)) == T(0))) else b
        rest = T(a % harmless)
        return T(rest - harmless) if (rest != T(0)) & ((a < T(0)) != (rest < T(0))) else rest


@word(internal=True)
class _remainder_near:
    """`remainder` where `_fmod_near` is right."""

    def real(a, b):
        rest = _fmod_near(a, b)
        return rest + b if (rest != 0.0) & ((rest < 0.0) != (b < 0.0)) else rest


@word(np.remainder, near=("_remainder_near", _NEAR_QUOTIENT))
class remainder:
    """The remainder of a / b with the sign of b, as Python's %; integers by zero give 0."""

    def real(a, b):
        rest = np.fmod(a, b)
        return rest + b if (rest != 0.0) & ((rest < 0.0) != (b < 0.0)) else rest

    def int(a, b):
        rest = fmod(a, b)
        return T(rest + b) if (rest != T(0)) & ((rest < T(0)) != (b < T(0))) else rest


@word(internal=True)
class _quotient_with_rest:
    """a / b rounded down, where ``rest`` is what `fmod` has."""

    def real(a, b, rest):
        quotient = (a - rest) / b
        quotient = quotient - 1.0 if (rest != 0.0) & ((rest < 0.0) != (b < 0.0)) else quotient
        # As CPython and PyTorch do: (a - rest) / b is whole but for its own rounding, which this takes off.
        whole = np.floor(quotient)
        whole = whole + 1.0 if quotient - whole > 0.5 else whole
        whole = np.copysign(0.0, a / b) if quotient == 0.0 else whole
        return a / b if b == 0.0 else whole


@word(internal=True)
class _floor_divide_near:
    """`floor_divide` where `_fmod_near` is right."""

    def real(a, b):
        return _quotient_with_rest(a, b, _fmod_near(a, b))


@word(np.floor_divide, near=("_floor_divide_near", _NEAR_QUOTIENT))
class floor_divide:
    """a / b rounded down, computed so that it agrees with `remainder`; integers by zero give 0."""

    def real(a, b):
        return _quotient_with_rest(a, b, np.fmod(a, b))

    def int(a, b):
        # -1 is kept from the division because the smallest integer by it traps: what is asked for is -a.
        minus = (b < T(0)) & (T(b + T(1)) == T(0))
        harmless = T(1) if (b == T(0)) | minus else b
        whole = T(a // harmless)
        whole = T(-a) if minus else whole
        return T(0) if b == T(0) else whole


@word(lambda x, y: np.heaviside(x, y))
class heaviside:
    """0 below zero, 1 above it (and for NaN 0), `value` at it."""

    def real(x, value):
        return value if x == 0.0 else T(x > 0.0)

    def int(x, value):
        return value if x == T(0) else T(x > T(0))


@word(np.conj)
class conj:
    """The complex conjugate."""

    def any(x):
        return x

    def complex(x):
        return np.conj(x)


@word(np.real)
class real:
    """The real part."""

    def any(x):
        return x

    def complex(x):
        return x.real


@word(np.imag)
class imag:
    """The imaginary part."""

    def any(x):
        return T(0)

    def complex(x):
        return x.imag


@word(np.angle)
class angle:
    """The argument of a complex number; pi below zero and else 0 for real ones."""

    def real(x):
        return T(np.pi) if x < 0.0 else (x if x != x else T(0))

    def complex(x):
        return np.arctan2(x.imag, x.real)


@word(np.nextafter)
class nextafter:
    """The number next to a on the way to b."""

    def float32(a, b):
        # Bits of floats of one sign are ordered as integers: one more or less is the neighbour.
        bits = np.float32(a).view(np.int32)
        up = (b > a) == (a > 0.0)
        step = np.int32(bits + (np.int32(1) if up else np.int32(-1)))
        # From 0 the way leads to the smallest denormal number.
        least = np.copysign(np.int32(1).view(np.float32), b)
        moved = least if a == 0.0 else step.view(np.float32)
        moved = b if a == b else moved
        return a + b if (a != a) | (b != b) else moved

    def float64(a, b):
        bits = np.float64(a).view(np.int64)
        up = (b > a) == (a > 0.0)
        step = np.int64(bits + (np.int64(1) if up else np.int64(-1)))
        least = np.copysign(np.int64(1).view(np.float64), b)
        moved = least if a == 0.0 else step.view(np.float64)
        moved = b if a == b else moved
        return a + b if (a != a) | (b != b) else moved


@word(None, internal=True)
class nextafter_bfloat16:
    """The same of bfloat16, the upper half of a float32: its last bit is float32's bit 16."""

    def float32(a, b):
        bits = np.float32(a).view(np.int32)
        up = (b > a) == (a > 0.0)
        step = np.int32(bits + (np.int32(65536) if up else np.int32(-65536)))
        least = np.copysign(np.int32(65536).view(np.float32), b)
        moved = least if a == 0.0 else step.view(np.float32)
        moved = b if a == b else moved
        return a + b if (a != a) | (b != b) else moved


@word(None, internal=True)
class nextafter_float16:
    """The same of float16, whose last bit is float32's bit 13; below 2 ** -14 its numbers are 2 ** -24 apart."""

    def float32(a, b):
        bits = np.float32(a).view(np.int32)
        up = (b > a) == (a > 0.0)
        step = np.int32(bits + (np.int32(8192) if up else np.int32(-8192)))
        size = abs(a)
        even = (size < 6.103515625e-05) | ((size == 6.103515625e-05) & (not up))
        moved = a + np.copysign(5.9604644775390625e-08, b - a) if even else step.view(np.float32)
        moved = np.float32(65504.0) if size == np.float32(np.inf) else moved
        moved = moved if a == 0.0 else np.copysign(moved, a)
        moved = b if a == b else moved
        return a + b if (a != a) | (b != b) else moved
