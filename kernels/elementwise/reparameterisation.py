"""The table: derivatives of random numbers in their distribution's parameters, without derivatives of their own.

Kernels compute in float64. The file is imported when one of their names is first used.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.reparameterisation import *
from jitgrad.kernels.words.vocabulary import by_scipy


def _difference(mass, shape):
    """Minus the derivative of ``mass(shape)``, to some eight digits."""
    h = 1e-5 * shape
    return (mass(shape - h) - mass(shape + h)) / (2 * h)


class StandardGammaGrad(Elementwise):
    """The derivative of ``out``, drawn from the gamma distribution of shape ``x`` and rate 1, in ``x``."""

    accepts, error_name, in_double = "float", "_standard_gamma_grad_cpu", True
    domain, grad_x, grad_y = ((0.3, 5), (0.3, 5)), None, None

    def reference(x, y):
        density = np.exp((x - 1) * np.log(y) - y - by_scipy("gammaln")(x))
        return _difference(lambda a: by_scipy("gammainc")(a, y), x) / density

    def forward(x, y):
        return standard_gamma_grad(x, y)


class DirichletGrad(Elementwise):
    """The derivative of ``x``, drawn from the beta distribution of shapes ``y`` and ``z - y``, in ``y``; over 1 - x."""

    accepts, error_name, in_double = "float", "_dirichlet_grad_cpu", True
    domain, grad_x, grad_y, grad_z = ((0.1, 0.9), (0.3, 5), (6, 9)), None, None, None

    def reference(x, y, z):
        density = np.exp((y - 1) * np.log(x) + (z - y) * np.log1p(-x) - by_scipy("betaln")(y, z - y))
        return _difference(lambda a: by_scipy("betainc")(a, z - y, x), y) / density

    def forward(x, y, z):
        return dirichlet_grad(x, y, z)
