"""The table: the normal distribution, entropy, zeta, the incomplete gamma functions.

Most kernels compute in float64 for floats of any size. The file is imported when one of its names is first used.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.incomplete_gamma import *
from jitgrad.kernels.words.normal import *
from jitgrad.kernels.words.vocabulary import by_scipy
from jitgrad.kernels.words.zeta import *


class SpecialErfcx(Elementwise, public="special"):
    """``exp(x * x) * erfc(x)``, which does not vanish for large x."""

    reference, accepts, in_double = by_scipy("erfcx"), "bool int float", True

    def forward(x):
        return special_erfcx(x)

    # 2 / sqrt(pi)
    def grad_x(g, out, x):
        return g * (2 * x * out - 1.1283791670955126)


class SpecialNdtr(Elementwise, public="special"):
    """The normal distribution's mass below ``x``."""

    reference, accepts, error_name, in_double = by_scipy("ndtr"), "bool int float", "erf_vml_cpu", True

    def forward(x):
        return special_ndtr(x)

    # The density, exp(-x * x / 2) / sqrt(2 pi).
    def grad_x(g, x):
        return g * (0.3989422804014327 * exp(-0.5 * (x * x)))


class SpecialLogNdtr(Elementwise, public="special"):
    """``log(ndtr(x))``, also where that vanishes."""

    reference, accepts, in_double = by_scipy("log_ndtr"), "bool int float", True

    def forward(x):
        return special_log_ndtr(x)

    # The density over the mass is sqrt(2 / pi) / erfcx(-x / sqrt(2)).
    def grad_x(g, x):
        return g * (0.7978845608028654 / special_erfcx(-0.7071067811865476 * x))


class SpecialNdtri(Elementwise, public="special"):
    """The inverse of ``ndtr``; infinite at 0 and 1, NaN outside."""

    reference, accepts, in_double, domain = by_scipy("ndtri"), "bool int float", True, (0.05, 0.95)

    def forward(x):
        return special_ndtri(x)

    # One over the density at the result.
    def grad_x(g, out):
        return g * (2.5066282746310002 * exp(0.5 * (out * out)))


class SpecialEntr(Elementwise, public="special"):
    """``-x * log(x)``: 0 at 0, minus infinity below."""

    reference, accepts, domain = by_scipy("entr"), "bool int float", (0.1, 3)

    def forward(x):
        inner = where(x > 0, -x * log(x), where(x == 0, 0, log(0.0)))
        return where(isnan(x), x, inner)

    def grad_x(g, x):
        return g * (-1 - log(x))


class SpecialXlog1py(Elementwise):
    """``x * log1p(y)``, 0 where ``x`` is 0 and ``y`` is not NaN."""

    accepts, domain, grad_name = "bool int float", ((0.2, 3), (-0.5, 3)), "SpecialXlog1PyBackward0"
    variants = {
        "xlog1py_left": {"grad_name": "SpecialXlog1PyBackward1"},  # x is a number
        "xlog1py_right": {"grad_name": "SpecialXlog1PyBackward2", "numbers_only": True},
    }
    reference = lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log1p(y)))

    def forward(x, y):
        return where(isnan(y), y, where(x == 0, 0, x * log1p(y)))

    # Where the logarithm is infinite or NaN and x is 0, PyTorch's gradient is 0.
    def grad_x(g, x, y):
        return where((x == 0) & (y <= -1), 0, g * log1p(y))

    def grad_y(g, x, y):
        return g * (x / (y + 1))


class SpecialZeta(Elementwise):
    """The sum of ``(y + k) ** -x`` over k >= 0, Hurwitz's zeta function.

    ``jitgrad.special.zeta`` refuses gradients for ``x``; those that would reach it here are 0.
    """

    reference, accepts, in_double, domain = by_scipy("zeta"), "bool int float", True, ((1.5, 6), (0.3, 6))

    def forward(x, y):
        return special_zeta(x, y)

    def grad_x(g):
        return 0

    def grad_y(g, x, y):
        return -g * (x * special_zeta(x + 1, y))


class Igamma(Elementwise):
    """``P(x, y)``, the regularised lower incomplete gamma function.

    ``jitgrad.igamma`` refuses gradients for ``x``; those that would reach it here are 0.
    """

    reference, accepts, in_double = by_scipy("gammainc"), "float", True
    domain, numbers = ((0.3, 5), (0.3, 5)), ()

    def forward(x, y):
        return igamma(x, y)

    def grad_x(g):
        return 0

    def grad_y(g, x, y):
        return g * exp((x - 1) * log(y) - y - lgamma(x))


class Igammac(Igamma):
    """``1 - P(x, y)``, the regularised upper incomplete gamma function.

    ``jitgrad.igammac`` refuses gradients for ``x``; those that would reach it here are 0.
    """

    reference, error_name = by_scipy("gammaincc"), "igammac_cpu"

    def forward(x, y):
        return igammac(x, y)

    def grad_y(g, x, y):
        return -g * exp((x - 1) * log(y) - y - lgamma(x))
