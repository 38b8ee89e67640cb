"""The exponential family: exp and its like, hyperbolic functions, the logistic function.

All begin alike: x = n ln 2 + r with a whole n and |r| <= ln(2) / 2, a polynomial in r, a scaling by
2**n. Coefficients are minimax fits of the relative error, rounded to the dtype.
"""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["cosh", "exp", "exp2", "expm1", "sigmoid", "sinh", "tanh"]


@word(internal=True)
class _two_to:
    """2**n for a whole n that makes a normal number."""

    # IEEE 754: the exponent n is stored plus 127 (float64: 1023), above 23 (52) bits of significand.
    def float32(n):
        return np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)

    def float64(n):
        return np.int64((n + np.int64(1023)) << np.int64(52)).view(np.float64)


@word(internal=True)
class _scaled:
    """y * 2**n in two steps, so that results overflow and underflow gradually."""

    # n goes from -152 to 129, further than the -126 to 127 that one factor can be; half of it does not.
    def float32(y, n):
        half = np.int32(n >> np.int32(1))
        return y * _two_to(half) * _two_to(np.int32(n - half))

    def float64(y, n):
        half = n >> np.int64(1)
        return y * _two_to(half) * _two_to(n - half)


@word(internal=True)
class _nearest:
    """x rounded, as a float and as an integer; |x| must be far below 2**22 (2**51).

    Adding 1.5 * 2**23 leaves the whole part in the low bits. Unlike a conversion this is defined
    for NaN, and it needs no instruction beyond addition.
    """

    def float32(x):
        shifted = x + 12582912.0
        # 0x4B400000 are the bits of 1.5 * 2**23 itself, so what is left is the whole part with its sign.
        whole = np.int32(np.float32(shifted).view(np.int32) - np.int32(0x4B400000))
        return shifted - 12582912.0, whole

    def float64(x):
        shifted = x + 6755399441055744.0
        whole = np.float64(shifted).view(np.int64) - np.int64(0x4338000000000000)
        return shifted - 6755399441055744.0, whole


@word(internal=True)
class _exp_reduced:
    """(n, r) with x = n ln 2 + r; ln 2 comes in two parts, n times the first of which is exact."""

    def float32(x):
        whole, n = _nearest(x * 1.4426950408889634)
        # 0.693359375 has 9 bits, so its product with n (8 bits) is exact; what ln 2 is short of it follows.
        return n, (x - whole * 0.693359375) + whole * 0.00021219444005469057

    def float64(x):
        whole, n = _nearest(x * 1.4426950408889634)
        return n, (x - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10


@word(internal=True)
class _exp_tail:
    """exp(r) - 1 for a reduced r."""

    def float32(r):
        p = 0.0013847063528373837
        p = p * r + 0.0083699906244874
        p = p * r + 0.041668009012937546
        p = p * r + 0.16666509211063385
        p = p * r + 0.4999999403953552
        return r + r * r * p

    def float64(r):
        p = 2.4899280447583055e-08
        p = p * r + 2.763283859357993e-07
        p = p * r + 2.755790563739253e-06
        p = p * r + 2.4801486357588763e-05
        p = p * r + 0.00019841269151573955
        p = p * r + 0.001388888894942771
        p = p * r + 0.00833333333365576
        p = p * r + 0.041666666666511684
        p = p * r + 0.1666666666666617
        p = p * r + 0.5000000000000012
        return r + r * r * p


@word(np.exp, cuda="math.exp", ulp={"float32": 1.5, "float64": 1.5})
class exp:
    """e to the power x."""

    def float32(x):
        # exp overflows above 88.73 and is 0 below -103.98; beyond the bounds n would not fit `_scaled`.
        x = 89.5 if x > 89.5 else x
        x = -105.0 if x < -105.0 else x
        n, r = _exp_reduced(x)
        return _scaled(1.0 + _exp_tail(r), n)

    def float64(x):
        # The same for float64: 709.79 and -745.14.
        x = 710.5 if x > 710.5 else x
        x = -746.0 if x < -746.0 else x
        n, r = _exp_reduced(x)
        return _scaled(1.0 + _exp_tail(r), n)

    def complex(x):
        # Of a real number the parts are kept apart: infinity times the sine of 0 is no number.
        size = np.exp(x.real)
        turned = x.imag if x.imag == 0 else size * np.sin(x.imag)
        return T(complex(size * np.cos(x.imag), turned))


@word(np.exp2, ulp={"float32": 1.5, "float64": 1.5})
class exp2:
    """2 to the power x."""

    def float32(x):
        # 2**x overflows at 128 and is 0 from -150 on.
        x = 129.0 if x > 129.0 else x
        x = -151.0 if x < -151.0 else x
        whole, n = _nearest(x)
        r = x - whole
        p = 1.3952862900623586e-05
        p = p * r + 0.000154589070007205
        p = p * r + 0.0013339524157345295
        p = p * r + 0.009618071839213371
        p = p * r + 0.05550403520464897
        p = p * r + 0.24022650718688965
        p = p * r + 0.6931471824645996
        return _scaled(1.0 + p * r, n)

    def float64(x):
        # 2**x overflows at 1024 and is 0 from -1075 on.
        x = 1025.0 if x > 1025.0 else x
        x = -1076.0 if x < -1076.0 else x
        whole, n = _nearest(x)
        return _scaled(1.0 + _exp_tail((x - whole) * 0.6931471805599453), n)

    def complex(x):
        return exp(x * T(0.6931471805599453))


@word(internal=True)
class _expm1_reduced:
    """exp(r) - 1 for a reduced r, to the last place of itself and not of exp(r)."""

    def float32(r):
        p = 0.000200586742721498
        p = p * r + 0.0013938233023509383
        p = p * r + 0.00833307858556509
        p = p * r + 0.041666429489851
        p = p * r + 0.1666666716337204
        return r + r * r * (0.5 + p * r)

    def float64(r):
        p = 1.6472118288841017e-09
        p = p * r + 2.5102747134435228e-08
        p = p * r + 2.7571891636571364e-07
        p = p * r + 2.7557263215255723e-06
        p = p * r + 2.4801570034152813e-05
        p = p * r + 0.00019841269867101348
        p = p * r + 0.001388888889766837
        p = p * r + 0.008333333333328393
        p = p * r + 0.04166666666664881
        p = p * r + 0.1666666666666667
        return r + r * r * (0.5 + p * r)


@word(internal=True)
class _expm1_small:
    """exp(x) - 1 for x that is NaN or so small in size that 2**n is a normal number."""

    def real(x):
        n, r = _exp_reduced(x)
        scale = _two_to(n)
        return scale * _expm1_reduced(r) + (scale - 1.0)


@word(np.expm1, cuda="math.expm1", ulp={"float32": 2, "float64": 2})
class expm1:
    """exp(x) - 1, without cancellation near 0."""

    def float32(x):
        # Below -20 (-40) exp(x) is less than half a unit of -1, to which the result then rounds.
        safe = 88.75 if x > 88.75 else x
        safe = -20.0 if safe < -20.0 else safe
        n, r = _exp_reduced(safe)
        # 2**n would overflow at n = 128 (1024) although the result need not: all is computed at half the size.
        half = _two_to(np.int32(n - np.int32(1)))
        y = 2.0 * (half * _expm1_reduced(r) + (half - 0.5))
        # Keeps -0, and denormals, which the products above would round.
        return x if np.abs(x) < 1e-9 else y

    def float64(x):
        safe = 709.9 if x > 709.9 else x
        safe = -40.0 if safe < -40.0 else safe
        n, r = _exp_reduced(safe)
        half = _two_to(n - np.int64(1))
        y = 2.0 * (half * _expm1_reduced(r) + (half - 0.5))
        return x if np.abs(x) < 1e-17 else y

    def complex(x):
        # np.divide: the emitter takes a bare / here for one of complex numbers.
        half = np.sin(np.divide(x.imag, 2))
        turned = x.imag if x.imag == 0 else np.exp(x.real) * np.sin(x.imag)
        return T(complex(np.expm1(x.real) * np.cos(x.imag) - 2 * half * half, turned))


@word(internal=True)
class _half_exp:
    """exp(x) / 2 for x >= 0, which overflows only where cosh and sinh do."""

    def float32(x):
        x = 91.0 if x > 91.0 else x
        n, r = _exp_reduced(x)
        return _scaled(1.0 + _exp_tail(r), np.int32(n - np.int32(1)))

    def float64(x):
        x = 712.0 if x > 712.0 else x
        n, r = _exp_reduced(x)
        return _scaled(1.0 + _exp_tail(r), n - np.int64(1))


@word(np.cosh, cuda="math.cosh", ulp={"float32": 2, "float64": 2})
class cosh:
    """The hyperbolic cosine."""

    def real(x):
        # exp(-a) / 2 is 1 / (4 h) for h = exp(a) / 2.
        half = _half_exp(np.abs(x))
        return half + 0.25 / half

    def complex(x):
        real = np.cosh(x.real) * np.cos(x.imag)
        # On an axis the imaginary part is a zero whose sign the product of the parts has; inf * 0 would make NaN of it.
        axis = (x.real == 0) | (x.imag == 0)
        return T(complex(real, x.real * x.imag if axis else np.sinh(x.real) * np.sin(x.imag)))


@word(internal=True)
class _sinh_small:
    """sinh(x) for |x| <= 1."""

    def float32(x):
        z = x * x
        p = 2.784692014756729e-06
        p = p * z + 0.00019842575425620508
        p = p * z + 0.008333311416208744
        p = p * z + 0.1666666716337204
        return x + x * z * p

    def float64(x):
        z = x * x
        p = 7.776277988628395e-13
        p = p * z + 1.6056667276418102e-10
        p = p * z + 2.5052130926021827e-08
        p = p * z + 2.7557319107028625e-06
        p = p * z + 0.00019841269841593058
        p = p * z + 0.008333333333332912
        p = p * z + 0.16666666666666669
        return x + x * z * p


@word(np.sinh, cuda="math.sinh", ulp={"float32": 2, "float64": 2})
class sinh:
    """The hyperbolic sine."""

    def real(x):
        size = np.abs(x)
        half = _half_exp(size)
        # Below 1 the difference of the exponentials would cancel.
        big = half - 0.25 / half
        return np.copysign(big if size > 1.0 else _sinh_small(size), x)

    def complex(x):
        turned = x.imag if x.imag == 0 else np.cosh(x.real) * np.sin(x.imag)
        return T(complex(np.sinh(x.real) * np.cos(x.imag), turned))


@word(np.tanh, cuda="math.tanh", ulp={"float32": 2, "float64": 3})
class tanh:
    """The hyperbolic tangent."""

    def float32(x):
        z = x * x
        p = 0.01643787883222103
        p = p * z - 0.05267200991511345
        p = p * z + 0.1332072913646698
        p = p * z - 0.3333294689655304
        small = x + x * z * p
        size = np.abs(x)
        # Beyond 9.02 (19.07) tanh is 1 in float32 (float64).
        size = 10.0 if size > 10.0 else size
        # One part of ln 2 is enough here: the result is 1 - 2 / (exp(2 |x|) + 1).
        whole, n = _nearest(size * 2.8853900817779268)
        r = (size + size) - whole * 0.6931471805599453
        scale = _two_to(n)
        big = 1.0 - 2.0 / ((scale + 1.0) + scale * _exp_tail(r))
        return np.copysign(small if np.abs(x) < 0.55 else big, x)

    def float64(x):
        size = np.abs(x)
        size = 22.0 if size > 22.0 else size
        # tanh(x) = t / (t + 2) for t = exp(2 x) - 1, which does not cancel near 0.
        t = _expm1_small(2.0 * size)
        return np.copysign(t / (2.0 + t), x)

    def complex(x):
        # W. Kahan's form; far out, where it overflows, its limit.
        t, s = np.tan(x.imag), np.sinh(x.real)
        beta = 1 + t * t
        below = 1 + beta * s * s
        real, turned = np.divide(beta * np.sqrt(1 + s * s) * s, below), np.divide(t, below)
        slope = 4 * np.sin(x.imag) * np.cos(x.imag) * np.exp(-2 * np.abs(x.real))
        far = np.abs(x.real) > 20
        return T(complex(np.copysign(1, x.real) if far else real, slope if far else turned))


@word(lambda x: 1 / (1 + np.exp(-x)), ulp={"float32": 2, "float64": 3})
class sigmoid:
    """1 / (1 + exp(-x)), exact in the limit on both sides."""

    def float32(x):
        # 1 + exp(-x) times 2**-24, so that exp(-x) need not overflow before the result vanishes. In this order of the
        # sum no float32 has an error above 1.9992 units.
        x = -104.5 if x < -104.5 else x
        x = 30.0 if x > 30.0 else x
        n, r = _exp_reduced(-x)
        scale = _two_to(np.int32(n - np.int32(24)))
        return T(2.0**-24) / (scale + (scale * _exp_tail(r) + T(2.0**-24)))

    def float64(x):
        # exp(-|x|) / (1 + exp(-|x|)) on the left, 1 / (1 + exp(-|x|)) on the right: nothing overflows.
        small = exp(-np.abs(x))
        return (small if x < 0.0 else 1.0) / (1.0 + small)

    def complex(x):
        return T(1) / (T(1) + exp(-x))

    def cuda(x):
        small = math.exp(-math.fabs(x))
        return (small if x < 0.0 else 1.0) / (1.0 + small)
