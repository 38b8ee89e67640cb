"""The exponential family: powers, logarithms, hyperbolic functions."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words_registry import T, word

__all__ = [
    "acosh", "asinh", "atanh", "cosh", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10",
    "pow", "sigmoid", "sinh", "tanh",
]  # fmt: skip


@word(np.exp, cuda="math.exp")
class exp:
    """e to the power x."""

    def any(x):
        return np.exp(x)


@word(np.exp2)
class exp2:
    """2 to the power x."""

    def any(x):
        return np.exp2(x)


@word(np.expm1, cuda="math.expm1")
class expm1:
    """exp(x) - 1, without cancellation near 0."""

    def any(x):
        return np.expm1(x)


@word(np.log, cuda="math.log")
class log:
    """The natural logarithm."""

    def any(x):
        return np.log(x)


@word(np.log2, cuda="math.log2")
class log2:
    """The logarithm to base 2."""

    def any(x):
        return np.log2(x)


@word(np.log10, cuda="math.log10")
class log10:
    """The logarithm to base 10."""

    def any(x):
        return np.log10(x)


@word(np.log1p, cuda="math.log1p")
class log1p:
    """log(1 + x), without cancellation near 0."""

    def any(x):
        return np.log1p(x)


@word(np.sinh, cuda="math.sinh")
class sinh:
    """The hyperbolic sine."""

    def any(x):
        return np.sinh(x)


@word(np.cosh, cuda="math.cosh")
class cosh:
    """The hyperbolic cosine."""

    def any(x):
        return np.cosh(x)


@word(np.tanh, cuda="math.tanh")
class tanh:
    """The hyperbolic tangent."""

    def any(x):
        return np.tanh(x)


@word(np.arcsinh, cuda="math.asinh")
class asinh:
    """The inverse hyperbolic sine."""

    def any(x):
        return np.arcsinh(x)


@word(np.arccosh, cuda="math.acosh")
class acosh:
    """The inverse hyperbolic cosine."""

    def any(x):
        return np.arccosh(x)


@word(np.arctanh, cuda="math.atanh")
class atanh:
    """The inverse hyperbolic tangent."""

    def any(x):
        return np.arctanh(x)


@word(lambda x: 1 / (1 + np.exp(-x)))
class sigmoid:
    """1 / (1 + exp(-x))."""

    def real(x):
        return 1.0 / (1.0 + np.exp(-x))

    def complex(x):
        return T(1) / (T(1) + np.exp(-x))


@word(np.power, cuda="math.pow")
class pow:
    """a to the power b, with IEEE 754's table of special cases."""

    def real(a, b):
        return np.power(a, b)

    def complex(a, b):
        return np.power(a, b)
