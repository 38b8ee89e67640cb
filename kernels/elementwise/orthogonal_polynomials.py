"""The table: orthogonal polynomials of degree n at x, without gradients as in PyTorch.

Tensors and numbers in either place; shapes broadcast, dtypes promote, integers to the default float. The fraction of n
is dropped, below 0 the result is 0. Kernels compute in float64. Few programs use them: the file is imported when one
of their names is first used.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.orthogonal import *
from jitgrad.kernels.words.vocabulary import by_scipy


def _at_whole(name):
    """SciPy's polynomial of that name with PyTorch's order of arguments and whole degrees."""
    return lambda x, n: by_scipy(name)(np.trunc(n), x)


_second_kind = _at_whole("eval_chebyu")


class SpecialChebyshevPolynomialT(Elementwise, public="special"):
    """Chebyshev's polynomial of the first kind, ``cos(n * acos(x))``."""

    reference, accepts = _at_whole("eval_chebyt"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-1.5, 1.5), (0, 9)), True, None, None

    def forward(x, n):
        return chebyshev_polynomial_t(x, n)


class SpecialChebyshevPolynomialU(Elementwise, public="special"):
    """Chebyshev's polynomial of the second kind, ``sin((n + 1) * acos(x)) / sin(acos(x))``."""

    reference, accepts = _second_kind, "bool int float"
    domain, in_double, grad_x, grad_n = ((-1.5, 1.5), (0, 9)), True, None, None

    def forward(x, n):
        return chebyshev_polynomial_u(x, n)


class SpecialChebyshevPolynomialV(Elementwise, public="special"):
    """Chebyshev's polynomial of the third kind, ``cos((n + 1 / 2) * acos(x)) / cos(acos(x) / 2)``."""

    accepts, domain, in_double, grad_x, grad_n = "bool int float", ((-1.5, 1.5), (0, 9)), True, None, None
    reference = lambda x, n: _second_kind(x, n) - _second_kind(x, n - 1)

    def forward(x, n):
        return chebyshev_polynomial_v(x, n)


class SpecialChebyshevPolynomialW(Elementwise, public="special"):
    """Chebyshev's polynomial of the fourth kind, ``sin((n + 1 / 2) * acos(x)) / sin(acos(x) / 2)``."""

    accepts, domain, in_double, grad_x, grad_n = "bool int float", ((-1.5, 1.5), (0, 9)), True, None, None
    reference = lambda x, n: _second_kind(x, n) + _second_kind(x, n - 1)

    def forward(x, n):
        return chebyshev_polynomial_w(x, n)


class SpecialShiftedChebyshevPolynomialT(Elementwise, public="special"):
    """``chebyshev_polynomial_t(2 * x - 1, n)``."""

    reference, accepts = _at_whole("eval_sh_chebyt"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-0.2, 1.2), (0, 9)), True, None, None

    def forward(x, n):
        return chebyshev_polynomial_t(x + x - 1, n)


class SpecialShiftedChebyshevPolynomialU(Elementwise, public="special"):
    """``chebyshev_polynomial_u(2 * x - 1, n)``."""

    reference, accepts = _at_whole("eval_sh_chebyu"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-0.2, 1.2), (0, 9)), True, None, None

    def forward(x, n):
        return chebyshev_polynomial_u(x + x - 1, n)


class SpecialShiftedChebyshevPolynomialV(Elementwise, public="special"):
    """``chebyshev_polynomial_v(2 * x - 1, n)``."""

    accepts, domain, in_double, grad_x, grad_n = "bool int float", ((-0.2, 1.2), (0, 9)), True, None, None
    reference = lambda x, n: _second_kind(2 * x - 1, n) - _second_kind(2 * x - 1, n - 1)

    def forward(x, n):
        return chebyshev_polynomial_v(x + x - 1, n)


class SpecialShiftedChebyshevPolynomialW(Elementwise, public="special"):
    """``chebyshev_polynomial_w(2 * x - 1, n)``."""

    accepts, domain, in_double, grad_x, grad_n = "bool int float", ((-0.2, 1.2), (0, 9)), True, None, None
    reference = lambda x, n: _second_kind(2 * x - 1, n) + _second_kind(2 * x - 1, n - 1)

    def forward(x, n):
        return chebyshev_polynomial_w(x + x - 1, n)


class SpecialHermitePolynomialH(Elementwise, public="special"):
    """Hermite's polynomial of physics, orthogonal with the weight ``exp(-x * x)``; NaN for n > 512."""

    reference, accepts = _at_whole("eval_hermite"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-3, 3), (0, 9)), True, None, None

    def forward(x, n):
        return hermite_polynomial_h(x, n)


class SpecialHermitePolynomialHe(Elementwise, public="special"):
    """Hermite's polynomial of probability theory, orthogonal with the weight ``exp(-x * x / 2)``; NaN for n > 512."""

    reference, accepts = _at_whole("eval_hermitenorm"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-3, 3), (0, 9)), True, None, None

    def forward(x, n):
        return hermite_polynomial_he(x, n)


class SpecialLaguerrePolynomialL(Elementwise, public="special"):
    """Laguerre's polynomial, orthogonal with the weight ``exp(-x)`` for x > 0."""

    reference, accepts = _at_whole("eval_laguerre"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-3, 3), (0, 9)), True, None, None

    def forward(x, n):
        return laguerre_polynomial_l(x, n)


class SpecialLegendrePolynomialP(Elementwise, public="special"):
    """Legendre's polynomial, orthogonal between -1 and 1."""

    reference, accepts = _at_whole("eval_legendre"), "bool int float"
    domain, in_double, grad_x, grad_n = ((-1.5, 1.5), (0, 9)), True, None, None

    def forward(x, n):
        return legendre_polynomial_p(x, n)
