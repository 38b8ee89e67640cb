"""The table: Bessel functions and Airy's. Their kernels compute in float64 for floats of any size.

Few programs use them: the file is imported when one of their names is first used.

Where PyTorch errs these do not: i0 and i1 are infinite at the infinities (NaN there), k0 and k1 of the smallest numbers
and Airy's function of infinity have their limits, and j0, j1, y0 and y1 are not off by 1e-7 from 4 to 9.
"""

from __future__ import annotations

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.bessel import *
from jitgrad.kernels.words.modified_bessel import *
from jitgrad.kernels.words.vocabulary import by_scipy


class I0(Elementwise, public=True):
    """The modified Bessel function of the first kind and order 0; NaN at the infinities, as PyTorch's."""

    reference, accepts, error_name, in_double = by_scipy("i0"), "bool int float", "i0_vml_cpu", True

    def forward(x):
        return i0(x) + (x - x)

    def grad_x(g, x):
        return g * special_i1(x)


class SpecialI0e(Elementwise, public="special"):
    """``exp(-abs(x)) * i0(x)``, which does not overflow."""

    reference, accepts, in_double, grad_name = by_scipy("i0e"), "bool int float", True, "SpecialI0EBackward0"

    def forward(x):
        return special_i0e(x)

    def grad_x(g, out, x):
        return g * (special_i1e(x) - sign(x) * out)


class SpecialI1(Elementwise, public="special"):
    """The modified Bessel function of the first kind and order 1; NaN at the infinities, as PyTorch's."""

    reference, accepts, in_double = by_scipy("i1"), "bool int float", True

    def forward(x):
        return where(x - x == 0, special_i1(x), x - x)

    # i0(x) - i1(x) / x, whose limit at 0 is 1 / 2; the division is kept from 0 there, also in the second derivative.
    def grad_x(g, out, x):
        safe = where(x == 0, 1, x)
        return g * where(x == 0, 0.5, i0(safe) - out / safe)


class SpecialI1e(Elementwise, public="special"):
    """``exp(-abs(x)) * i1(x)``, which does not overflow."""

    reference, accepts, in_double, grad_name = by_scipy("i1e"), "bool int float", True, "SpecialI1EBackward0"

    def forward(x):
        return special_i1e(x)

    def grad_x(g, out, x):
        safe = where(x == 0, 1, x)
        return g * where(x == 0, 0.5, special_i0e(safe) - out * (sign(safe) + 1 / safe))


# -- those that PyTorch has no derivatives of ---------------------------------------------------------


class SpecialModifiedBesselI0(Elementwise, public="special"):
    """``i0`` without a gradient, as in PyTorch."""

    reference, accepts, in_double, grad_x = by_scipy("i0"), "bool int float", True, None

    def forward(x):
        return i0(x)


class SpecialModifiedBesselI1(Elementwise, public="special"):
    """``i1`` without a gradient, as in PyTorch."""

    reference, accepts, in_double, grad_x = by_scipy("i1"), "bool int float", True, None

    def forward(x):
        return special_i1(x)


class SpecialModifiedBesselK0(Elementwise, public="special"):
    """The modified Bessel function of the second kind and order 0; infinite at 0, NaN below. No gradient."""

    reference, accepts, in_double, grad_x, domain = by_scipy("k0"), "bool int float", True, None, (0.3, 6)

    def forward(x):
        return modified_bessel_k0(x)


class SpecialModifiedBesselK1(Elementwise, public="special"):
    """The modified Bessel function of the second kind and order 1; infinite at 0, NaN below. No gradient."""

    reference, accepts, in_double, grad_x, domain = by_scipy("k1"), "bool int float", True, None, (0.3, 6)

    def forward(x):
        return modified_bessel_k1(x)


class SpecialScaledModifiedBesselK0(Elementwise, public="special"):
    """``exp(x) * modified_bessel_k0(x)``, which does not vanish for large x. No gradient."""

    reference, accepts, in_double, grad_x, domain = by_scipy("k0e"), "bool int float", True, None, (0.3, 6)

    def forward(x):
        return scaled_modified_bessel_k0(x)


class SpecialScaledModifiedBesselK1(Elementwise, public="special"):
    """``exp(x) * modified_bessel_k1(x)``, which does not vanish for large x. No gradient."""

    reference, accepts, in_double, grad_x, domain = by_scipy("k1e"), "bool int float", True, None, (0.3, 6)

    def forward(x):
        return scaled_modified_bessel_k1(x)


class SpecialBesselJ0(Elementwise, public="special"):
    """The Bessel function of the first kind and order 0. No gradient."""

    reference, accepts, in_double, grad_x = by_scipy("j0"), "bool int float", True, None

    def forward(x):
        return bessel_j0(x)


class SpecialBesselJ1(Elementwise, public="special"):
    """The Bessel function of the first kind and order 1. No gradient."""

    reference, accepts, in_double, grad_x = by_scipy("j1"), "bool int float", True, None

    def forward(x):
        return bessel_j1(x)


class SpecialBesselY0(Elementwise, public="special"):
    """The Bessel function of the second kind and order 0; minus infinity at 0, NaN below. No gradient."""

    reference, accepts, in_double, grad_x, domain = by_scipy("y0"), "bool int float", True, None, (0.3, 12)

    def forward(x):
        return bessel_y0(x)


class SpecialBesselY1(Elementwise, public="special"):
    """The Bessel function of the second kind and order 1; minus infinity at 0, NaN below. No gradient."""

    reference, accepts, in_double, grad_x, domain = by_scipy("y1"), "bool int float", True, None, (0.3, 12)

    def forward(x):
        return bessel_y1(x)


class SpecialSphericalBesselJ0(Elementwise, public="special"):
    """``sin(x) / x``, the spherical Bessel function of order 0. No gradient."""

    accepts, grad_x = "bool int float", None
    reference = lambda x: by_scipy("spherical_jn")(0, x)

    def forward(x):
        return where(isinf(x), 0, where(x == 0, 1, sin(x) / x))


class SpecialAiryAi(Elementwise, public="special"):
    """Airy's function Ai. No gradient."""

    accepts, in_double, grad_x = "bool int float", True, None
    reference = lambda x: by_scipy("airy")(x)[0]

    def forward(x):
        return airy_ai(x)
