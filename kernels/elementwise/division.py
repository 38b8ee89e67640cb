"""The table: quotients and remainders."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.by_kind import trunc_divide


class Div(Elementwise):
    """Quotient: ``x / y``, in floating point also for integers."""

    reference, numbers_alone, rounds = np.true_divide, True, ()
    operators = ("__truediv__",)
    domain = ((-3, 3), (0.5, 3))
    variants = {"div_unrounded": {"grad_name": "DivBackward2"}}  # the quotient of ``div(x, y, rounding_mode=None)``

    def forward(x, y):
        return x / y

    def grad_x(g, y):
        return g / y

    # x / y / y, not x / (y * y), which overflows and vanishes earlier.
    def grad_y(g, x, y):
        return -g * (x / y / y)


class DivFloor(Elementwise):
    """Quotient rounded down; its gradient is zero."""

    kind, reference, numbers_alone, rounds = "same", np.floor_divide, True, ()
    domain, accepts, grad_name = ((-9, 9), (1, 4)), "int float", "DivBackward2"

    def forward(x, y):
        return floor_divide(x, y)

    def grad_x(g):
        return 0

    def grad_y(g):
        return 0


class DivTrunc(Elementwise):
    """Quotient rounded towards zero; its gradient is zero."""

    kind, reference, numbers_alone, rounds = "same", trunc_divide, True, ()
    domain, accepts, grad_name = ((-9, 9), (1, 4)), "int float", "DivBackward2"

    def forward(x, y):
        return trunc_divide(x, y)

    def grad_x(g):
        return 0

    def grad_y(g):
        return 0


class Remainder(Elementwise):
    """Remainder with the sign of ``y``, as Python's ``%``."""

    kind, reference = "same", np.remainder
    grad_name = "RemainderBackward1"
    variants = {"remainder_number": {"grad_name": "RemainderBackward0", "numbers_only": True}}
    domain, accepts = ((-9, 9), (1, 4)), "int float"

    def forward(x, y):
        return remainder(x, y)

    def grad_x(g):
        return g

    # x - y floor(x / y): the quotient is a constant almost everywhere.
    def grad_y(g, x, y):
        return -g * floor_divide(x, y)


class Fmod(Elementwise):
    """Remainder with the sign of ``x``, as C's ``fmod``."""

    kind, reference = "same", np.fmod
    grad_name = "FmodBackward1"
    variants = {"fmod_number": {"grad_name": "FmodBackward0", "numbers_only": True}}
    domain, accepts = ((-9, 9), (1, 4)), "int float"

    def forward(x, y):
        return fmod(x, y)

    def grad_x(g):
        return g

    def grad_y(g, x, y):
        return -g * trunc_divide(x, y)


class Reciprocal(Elementwise, public=True):
    """One over ``x``."""

    domain = (0.5, 3)
    reference = lambda x: 1 / x

    def forward(x):
        return reciprocal(x)

    def grad_x(g, out):
        return -g * (out * out)


class Addcdiv(Elementwise):
    """``x + value * y / z``."""

    kind, accepts, numbers, domain = "same", "float complex", (), (0.5, 3)
    reference = lambda x, y, z, value=1: x + x.dtype.type(value) * y / z

    def forward(x, y, z, value=1):
        return x + value * y / z

    def grad_x(g):
        return g

    def grad_y(g, z, value):
        return g * (value / z)

    def grad_z(g, y, z, value):
        return -g * (value * (y / (z * z)))
