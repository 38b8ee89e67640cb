"""The table: powers and roots."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.by_kind import power_of


class Sqrt(Elementwise, public=True):
    """Square root; NaN below zero for real numbers."""

    reference, domain = np.sqrt, (0.1, 3)

    def forward(x):
        return sqrt(x)

    def grad_x(g, out):
        return g / (2 * out)


class Rsqrt(Elementwise, public=True):
    """One over the square root."""

    domain = (0.1, 3)
    reference = lambda x: 1 / np.sqrt(x)

    def forward(x):
        return rsqrt(x)

    def grad_x(g, out):
        return -0.5 * g * (out * out * out)


def slope_in_base(g, x, y):
    """The derivative by ``x``. Where ``y`` is a number of the program, the exponent y - 1 is one too."""
    return where(y == 0, 0, g * (y * power_of(x, y - 1)))


class Pow(Elementwise):
    """``x`` to the power ``y``; small whole exponents that are numbers multiply."""

    kind, reference = "same", power_of
    grad_name, error_name = "PowBackward1", "pow"
    domain, accepts = ((0.3, 3), (0.5, 2)), "int float complex"
    variants = {
        "pow_number": {
            "grad_name": "PowBackward0", "numbers_only": True, "grad_x": slope_in_base, "grad_y": None,
            "literals": {"y": (2, 3, 4, 1, 0.5, -0.5, -1, -2)}, "memory_order": "tensors",
        },
        "number_pow": {"grad_name": "PowBackward2", "grad_x": None, "memory_order": "row-major"},
    }  # fmt: skip

    def forward(x, y):
        return power_of(x, y)

    # x ** -1 is infinite at 0, and 0 * inf would be NaN where the derivative is 0; the inner exponent is 0 there, so
    # that the second derivative is 0 too.
    def grad_x(g, x, y):
        return where(y == 0, 0, g * (y * power_of(x, where(y == 0, 1, y) - 1)))

    # 0 ** y is 0 for all y >= 0 nearby; 0 * log(0) would be NaN. y == abs(y) asks for y >= 0 without an order, which
    # complex numbers lack.
    def grad_y(g, out, x, y):
        return where((x == 0) & (y == abs(y)), 0, g * (out * log(x)))
