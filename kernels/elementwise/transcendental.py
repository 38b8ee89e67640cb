"""The table: exponentials, logarithms, circular and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *


class Exp(Elementwise, public=True):
    """e to the power ``x``."""

    reference = np.exp

    def forward(x):
        return exp(x)

    def grad_x(g, out):
        return g * out


class Exp2(Elementwise, public=True):
    """2 to the power ``x``."""

    reference = np.exp2

    def forward(x):
        return exp2(x)

    # 0.6931... = log(2); below, 2.3025... = log(10) and 1.4426... = 1 / log(2).
    def grad_x(g, out):
        return g * out * 0.6931471805599453


class Expm1(Elementwise, public=True):
    """exp(x) - 1, without cancellation near 0."""

    reference = np.expm1

    def forward(x):
        return expm1(x)

    def grad_x(g, out):
        return g * (out + 1)


class Log(Elementwise, public=True):
    """Natural logarithm."""

    reference, domain = np.log, (0.1, 5)

    def forward(x):
        return log(x)

    def grad_x(g, x):
        return g / x


class Log2(Elementwise, public=True):
    """Logarithm to base 2."""

    reference, domain = np.log2, (0.1, 5)

    def forward(x):
        return log2(x)

    def grad_x(g, x):
        return g / (x * 0.6931471805599453)


class Log10(Elementwise, public=True):
    """Logarithm to base 10."""

    reference, domain = np.log10, (0.1, 5)

    def forward(x):
        return log10(x)

    def grad_x(g, x):
        return g / (x * 2.302585092994046)


class Log1p(Elementwise, public=True):
    """log(1 + x), without cancellation near 0."""

    reference, domain, grad_name = np.log1p, (-0.9, 3), "Log1PBackward0"

    def forward(x):
        return log1p(x)

    def grad_x(g, x):
        return g / (x + 1)


class Logaddexp(Elementwise, public=True):
    """log(exp(x) + exp(y)), without overflow."""

    in_place = False
    kind, accepts, numbers = "same", "float complex", ()
    reference = lambda x, y: np.log(np.exp(x) + np.exp(y)) if x.dtype.kind == "c" else np.logaddexp(x, y)

    # max + log(1 + exp(min - max)) does not overflow; of two equal infinities the difference would be NaN.
    def forward(x, y):
        larger = where(real(x) >= real(y), x, y)
        smaller = where(real(x) >= real(y), y, x)
        return where((x == y) & isinf(x), x, larger + log1p(exp(smaller - larger)))

    # exp(x - out) in a form without out: 1 / (1 + exp(y - x)).
    def grad_x(g, x, y):
        return g / (1 + exp(y - x))

    def grad_y(g, x, y):
        return g / (1 + exp(x - y))


class Logaddexp2(Elementwise, public=True):
    """log2(2**x + 2**y), without overflow."""

    in_place = False
    kind, reference, accepts, numbers = "same", np.logaddexp2, "float", ()

    def forward(x, y):
        top = maximum(x, y)
        return where((x == y) & isinf(x), x, top + log1p(exp2(-abs(x - y))) * 1.4426950408889634)

    def grad_x(g, x, y):
        return g / (1 + exp2(y - x))

    def grad_y(g, x, y):
        return g / (1 + exp2(x - y))


class Xlogy(Elementwise):
    """x * log(y), 0 where x is 0 and y is not NaN."""

    domain, accepts = ((0.2, 3), (0.2, 3)), "bool int float"
    variants = {
        "xlogy_left": {"grad_name": "XlogyBackward1"},  # x is a number
        "xlogy_right": {"grad_name": "XlogyBackward2", "numbers_only": True},
    }

    def reference(x, y):
        with np.errstate(all="ignore"):
            return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log(y)))

    def forward(x, y):
        return where(isnan(y), y, where(x == 0, 0, x * log(y)))

    # Where log(y) is infinite or NaN and x or g is 0, PyTorch's gradient is 0.
    def grad_x(g, x, y):
        return where(((x == 0) & (y <= 0)) | ((g == 0) & (y == y)), 0, g * log(y))

    def grad_y(g, x, y):
        return g * (x / y)


class Sin(Elementwise, public=True):
    """Sine."""

    reference = np.sin

    def forward(x):
        return sin(x)

    def grad_x(g, x):
        return g * cos(x)


class Cos(Elementwise, public=True):
    """Cosine."""

    reference = np.cos

    def forward(x):
        return cos(x)

    def grad_x(g, x):
        return g * -sin(x)


class Tan(Elementwise, public=True):
    """Tangent."""

    reference, domain = np.tan, (-1.2, 1.2)

    def forward(x):
        return tan(x)

    # tan' = 1 + tan**2, of the result that is there anyway.
    def grad_x(g, out):
        return g * (1 + out * out)


class Asin(Elementwise, public=True):
    """Inverse sine."""

    reference, domain, aliases = np.arcsin, (-0.9, 0.9), ("arcsin",)

    def forward(x):
        return asin(x)

    def grad_x(g, x):
        return g * rsqrt(1 - x * x)


class Acos(Elementwise, public=True):
    """Inverse cosine."""

    reference, domain, aliases = np.arccos, (-0.9, 0.9), ("arccos",)

    def forward(x):
        return acos(x)

    def grad_x(g, x):
        return g * -rsqrt(1 - x * x)


class Atan(Elementwise, public=True):
    """Inverse tangent."""

    reference, aliases = np.arctan, ("arctan",)

    def forward(x):
        return atan(x)

    def grad_x(g, x):
        return g / (x * x + 1)


class Atan2(Elementwise, public=True):
    """The angle of the point (y, x), from -pi to pi."""

    reference, domain, aliases = np.arctan2, ((0.3, 3), (-3, 3)), ("arctan2",)
    accepts, numbers = "bool int float", ()

    def forward(x, y):
        return atan2(x, y)

    # At the origin, where the angle has no derivative, PyTorch's is 0.
    def grad_x(g, x, y):
        square = x * x + y * y
        return g * y * where(square == 0, 0, 1 / square)

    def grad_y(g, x, y):
        square = x * x + y * y
        return g * -x * where(square == 0, 0, 1 / square)


class Hypot(Elementwise, public=True):
    """The square root of x*x + y*y, without overflow on the way."""

    kind, reference, accepts, numbers = "same", np.hypot, "float", ()

    def forward(x, y):
        return hypot(x, y)

    def grad_x(g, out, x):
        return g * (x / out)

    def grad_y(g, out, y):
        return g * (y / out)


class Sinh(Elementwise, public=True):
    """Hyperbolic sine."""

    reference = np.sinh

    def forward(x):
        return sinh(x)

    def grad_x(g, x):
        return g * cosh(x)


class Cosh(Elementwise, public=True):
    """Hyperbolic cosine."""

    reference = np.cosh

    def forward(x):
        return cosh(x)

    def grad_x(g, x):
        return g * sinh(x)


class Tanh(Elementwise, public=True):
    """Hyperbolic tangent."""

    reference = np.tanh

    def forward(x):
        return tanh(x)

    def grad_x(g, out):
        return g * (1 - out) * (1 + out)


class Asinh(Elementwise, public=True):
    """Inverse hyperbolic sine."""

    reference, aliases = np.arcsinh, ("arcsinh",)

    def forward(x):
        return asinh(x)

    def grad_x(g, x):
        return g * rsqrt(x * x + 1)


class Acosh(Elementwise, public=True):
    """Inverse hyperbolic cosine."""

    reference, domain, aliases = np.arccosh, (1.2, 4), ("arccosh",)

    def forward(x):
        return acosh(x)

    # Two roots: x * x - 1 would overflow, and for complex x choose another branch.
    def grad_x(g, x):
        return g * (rsqrt(x - 1) * rsqrt(x + 1))


class Atanh(Elementwise, public=True):
    """Inverse hyperbolic tangent."""

    reference, domain, aliases = np.arctanh, (-0.9, 0.9), ("arctanh",)

    def forward(x):
        return atanh(x)

    def grad_x(g, x):
        return g / (1 - x * x)


class Sinc(Elementwise, public=True):
    """sin(pi x) / (pi x), 1 at 0."""

    reference, domain = np.sinc, (0.2, 3)

    def forward(x):
        angle_of_x = x * 3.141592653589793
        return where(x == 0, 1, sin(angle_of_x) / angle_of_x)

    # With t = pi x: pi (cos(t) - sin(t) / t) / t. Near 0, where the difference cancels, its Taylor series with the
    # terms 2 k (-1)**k t**(2 k - 1) / (2 k + 1)!, which leave 4e-19 for |t| < 1. There the quotients are computed for
    # t = 1, so that neither they nor their derivatives are NaN. abs(1.0): complex numbers have no order. Adding
    # 0.0 makes a slope of -0, at 0, the 0 that PyTorch has there.
    def grad_x(g, x):
        t = x * 3.141592653589793
        near = abs(t) < abs(1.0)
        z = where(near, t * t, 0)
        series = -1.4797143443923793e-16
        series = series * z + 4.498331606952833e-14
        series = series * z - 1.0706029224547743e-11
        series = series * z + 1.9270852604185937e-09
        series = series * z - 2.505210838544172e-07
        series = series * z + 2.2045855379188714e-05
        series = series * z - 0.0011904761904761906
        series = series * z + 0.03333333333333333
        series = series * z - 0.3333333333333333
        far = where(near, 1, t)
        return g * (where(near, t * series, (cos(far) - sin(far) / far) / far) * 3.141592653589793) + 0.0


class Copysign(Elementwise):
    """The size of ``x`` with the sign of ``y``."""

    reference, accepts, numbers = np.copysign, "bool int float", ("y",)
    variants = {"copysign_number": {"grad_name": "CopysignBackward1", "numbers_only": True}}

    def forward(x, y):
        return copysign(x, y)

    # out / x is 1 or -1. Chosen ahead of the product, so that g has a derivative, 0, where x is 0.
    def grad_x(g, out, x):
        return g * where(x == 0, 0, out / x)

    def grad_y(g):
        return 0
