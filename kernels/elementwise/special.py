"""The table: special functions, angles, and conversions that take a formula."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.polygamma import polygamma
from jitgrad.kernels.words.vocabulary import by_scipy


class Erf(Elementwise, public=True):
    """Error function."""

    reference, accepts, error_name = by_scipy("erf"), "bool int float", "erf_vml_cpu"

    def forward(x):
        return erf(x)

    # 2 / sqrt(pi) exp(-x**2).
    def grad_x(g, x):
        return g * (1.1283791670955126 * exp(-(x * x)))


class Erfc(Elementwise, public=True):
    """``1 - erf(x)``, without cancellation for large ``x``."""

    reference, accepts, error_name = by_scipy("erfc"), "bool int float", "erfc_vml_cpu"

    def forward(x):
        return erfc(x)

    def grad_x(g, x):
        return g * (-1.1283791670955126 * exp(-(x * x)))


class Lgamma(Elementwise, public=True):
    """Logarithm of the absolute value of the gamma function."""

    reference, accepts, error_name = by_scipy("gammaln"), "bool int float", "lgamma_vml_cpu"
    domain = (0.3, 6)

    def forward(x):
        return lgamma(x)

    def grad_x(g, x):
        return g * digamma(x)


class Digamma(Elementwise, public=True):
    """Derivative of ``lgamma``."""

    reference, accepts, error_name, domain = by_scipy("digamma"), "bool int float", "digamma", (0.3, 6)

    def forward(x):
        return digamma(x)

    def grad_x(g, x):
        return g * polygamma(1, x)


class Polygamma(Elementwise):
    """The ``n``-th derivative of ``digamma``."""

    accepts, domain = "bool int float", (0.3, 6)
    error_name = "polygamma"
    reference = lambda x, n=1: by_scipy("polygamma")(n, x)

    def forward(x, n=1):
        return polygamma(n, x)

    def grad_x(g, x, n):
        return g * polygamma(n + 1, x)


class Erfinv(Elementwise, public=True):
    """Inverse of ``erf``; infinite at -1 and 1, NaN beyond."""

    reference, accepts, error_name, domain = by_scipy("erfinv"), "bool int float", "erfinv_vml_cpu", (-0.9, 0.9)

    def forward(x):
        return erfinv(x)

    # sqrt(pi) / 2 exp(erfinv(x)**2), the inverse of erf's derivative at the result.
    def grad_x(g, out):
        return g * (0.886226925452758 * exp(out * out))


class Deg2rad(Elementwise, public=True):
    """Degrees to radians."""

    reference, accepts, grad_name = np.deg2rad, "bool int float", "Deg2RadBackward0"
    refuses = {"complex": (RuntimeError, "deg2rad is not supported for complex tensors.")}

    def forward(x):
        return x * 0.017453292519943295

    def grad_x(g):
        return g * 0.017453292519943295


class Rad2deg(Elementwise, public=True):
    """Radians to degrees."""

    reference, accepts, grad_name = np.rad2deg, "bool int float", "Rad2DegBackward0"
    refuses = {"complex": (RuntimeError, "rad2deg is not supported for complex tensors.")}

    def forward(x):
        return x * 57.29577951308232

    def grad_x(g):
        return g * 57.29577951308232


class AngleReal(Elementwise):
    """The argument of a real number: pi below zero, else 0."""

    reference, accepts, grad_name = np.angle, "bool int float", "AngleBackward0"

    def forward(x):
        return angle(x)

    def grad_x(g):
        return 0


class Angle(Elementwise):
    """The argument of a complex number."""

    kind, reference, accepts, holomorphic = "real", np.angle, "complex", False

    def forward(x):
        return angle(x)

    # The gradient of the angle is 1 / |z| at a right angle to z: times 1j.
    def grad_x(g, x):
        size = abs(x)
        return where(x == 0, 0, g * (x / size) / size * 1j)


class Logit(Elementwise):
    """``log(x / (1 - x))``."""

    domain, accepts = (0.1, 0.9), "bool int float"
    reference = lambda x: np.log(x / (1 - x))

    def forward(x):
        return log(x / (1 - x))

    # NaN as a rule can say it: rules have no np.nan.
    def grad_x(g, x):
        nan = sqrt(-1.0)
        return where((x < 0) | (x > 1), nan, g / (x * (1 - x)))


class LogitEps(Elementwise):
    """``logit`` of ``x`` kept between ``eps`` and ``1 - eps``."""

    domain, accepts = (0.1, 0.9), "bool int float"
    error_name, grad_name, rounds = "logit_cpu", "LogitBackward0", ("eps",)

    def reference(x, eps=0.2):
        z = np.clip(x, eps, 1 - eps)
        return np.log(z / (1 - z)).astype(z.dtype)

    def forward(x, eps=0.2):
        z = where(x < eps, eps, minimum(1 - eps, x))
        return log(z / (1 - z))

    def grad_x(g, x, eps):
        return where((x < eps) | (x > 1 - eps), 0, g / (x * (1 - x)))


class BinaryCrossEntropySlope(Elementwise):
    """``(x - target) / (x * (1 - x))``, the derivative of binary cross entropy in x."""

    domain, accepts, numbers = (0.1, 0.9), "float", ()
    grad_name = "BinaryCrossEntropyBackwardBackward0"
    reference = lambda x, target: (x - target) / np.maximum((1 - x) * x, 9.999999960041972e-13)

    # PyTorch's epsilons: 1e-12 rounded to float32 here, and in the derivatives 1e-12 beside each factor.
    def forward(x, target):
        return (x - target) / maximum((1 - x) * x, 9.999999960041972e-13)

    def grad_x(g, x, target):
        return g * ((x * x - 2 * x * target + target) / square((x + 1e-12) * (1 - x + 1e-12)))

    def grad_target(g, x):
        return -g / maximum((1 - x) * x, 1e-12)


class NanToNum(Elementwise):
    """``x`` with NaN and the infinities replaced."""

    kind, accepts, memory_order = "same", "float", "copy"
    reference = lambda x, nan=0.0, posinf=1e30, neginf=-1e30: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)

    # 1e30 are the rule's own defaults for samples; the op hands in the dtype's largest numbers.
    def forward(x, nan=0.0, posinf=1e30, neginf=-1e30):
        finite = where(isposinf(x), posinf, where(isneginf(x), neginf, x))
        return where(isnan(x), nan, finite)

    def grad_x(g, x):
        return where(isfinite(x), g, 0)
