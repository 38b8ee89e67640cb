"""The table: derivatives of random numbers in their distribution's parameters, without derivatives of their own.

Kernels compute in float64. The file is imported when one of their names is first used.
"""

from __future__ import annotations

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.reparameterisation import *


class StandardGammaGrad(Elementwise):
    """The derivative of ``out``, drawn from the gamma distribution of shape ``x`` and rate 1, in ``x``."""

    name, accepts, error_name, in_double = "standard_gamma_grad", "float", "_standard_gamma_grad_cpu", True
    domain, grad_x, grad_y = ((0.3, 5), (0.3, 5)), None, None

    def forward(x, y):
        return standard_gamma_grad(x, y)


class DirichletGrad(Elementwise):
    """The derivative of ``x``, drawn from the beta distribution of shapes ``y`` and ``z - y``, in ``y``; over 1 - x."""

    name, accepts, error_name, in_double = "dirichlet_grad", "float", "_dirichlet_grad_cpu", True
    domain, grad_x, grad_y, grad_z = ((0.1, 0.9), (0.3, 5), (6, 9)), None, None, None

    def forward(x, y, z):
        return dirichlet_grad(x, y, z)
