"""The table: divisors of integers, parts and neighbours of floats. Imported when one of the names is first used."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *
from jitgrad.kernels.words.integers import *


class Gcd(Elementwise, public=True):
    """The greatest common divisor, without sign; of 0 and 0 it is 0. Integers only."""

    kind, reference, accepts, numbers = "same", np.gcd, "int", ()

    def forward(x, y):
        return gcd(x, y)


class Lcm(Elementwise, public=True):
    """The least common multiple, without sign; 0 if either is 0. Integers only."""

    kind, reference, accepts, numbers = "same", np.lcm, "int", ()

    def forward(x, y):
        return lcm(x, y)


class FrexpMantissa(Elementwise):
    """m of ``x = m * 2 ** e`` with m from 1 / 2 to 1 in size."""

    kind, accepts, memory_order, grad_name = "same", "float", "copy", "FrexpBackward0"
    reference = lambda x: np.frexp(x)[0]

    def forward(x):
        return frexp_mantissa(x)

    def grad_x(g, x):
        return g / exp2(binary_exponent(x))


class BinaryExponent(Elementwise):
    """e of ``x = m * 2 ** e`` with m from 1 / 2 to 1 in size, as a float; 0 for zeros, infinities and NaN."""

    kind, accepts, memory_order, grad_x = "same", "float", "copy", None
    reference = lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(x.dtype)

    def forward(x):
        return binary_exponent(x)


class Ldexp(Elementwise, public=True):
    """``x * 2 ** y``, for tensors; integers become the default float."""

    numbers, error_name, rounds = (), "pow", ()
    reference = lambda x, y: x * np.exp2(y)

    def forward(x, y):
        return x * exp2(y)

    def grad_x(g, y):
        return g * exp2(y)

    def grad_y(g, out):
        return g * (out * 0.6931471805599453)


class Heaviside(Elementwise):
    """0 where ``x`` is negative, 1 where it is positive, ``y`` where it is 0."""

    kind, accepts, reference = "same", "bool int float", np.heaviside
    numbers, grad_x, grad_y = (), None, None

    def forward(x, y):
        return heaviside(x, y)


class Nextafter(Elementwise, public=True):
    """The number next to ``x`` on the way to ``y``. The gradient goes to ``x`` where it differs from ``y``."""

    kind, accepts, numbers, reference = "same", "float", (), np.nextafter

    def forward(x, y):
        return nextafter(x, y)

    def grad_x(g, x, y):
        return where(x == y, 0, g)

    def grad_y(g):
        return 0
