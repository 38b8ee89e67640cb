"""The table: rounding, and choices between values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *


def _no_complex(name):
    """How PyTorch refuses complex numbers in this family."""
    return {"complex": (RuntimeError, f"{name} not implemented for complex tensors.")}


_NO_COMPLEX_CLAMP: dict[str, tuple[type[Exception], str]] = {
    "complex": (NotImplementedError, "clamp is not supported for complex types"),
}
_BY_NUMBERS: dict[str, Any] = {"numbers_only": True, "memory_order": "tensors"}


# -- rounding: the gradient is zero everywhere ----------------------------------------------------


class Floor(Elementwise, public=True):
    """The largest integer that is not above ``x``."""

    kind, reference, accepts, error_name = "same", np.floor, "int float", "floor_vml_cpu"
    refuses = {"complex": (NotImplementedError, "floor is not supported for complex inputs")}

    def forward(x):
        return floor(x)

    def grad_x(g):
        return 0


class Ceil(Elementwise, public=True):
    """The smallest integer that is not below ``x``."""

    kind, reference, accepts, error_name = "same", np.ceil, "int float", "ceil_vml_cpu"
    refuses = {"complex": (NotImplementedError, "ceil is not supported for complex inputs")}

    def forward(x):
        return ceil(x)

    def grad_x(g):
        return 0


class Trunc(Elementwise, public=True):
    """``x`` without its fraction."""

    kind, reference, accepts, error_name = "same", np.trunc, "int float", "trunc_vml_cpu"
    refuses = {"complex": (NotImplementedError, "trunc is not supported for complex inputs")}
    aliases = ("fix",)

    def forward(x):
        return trunc(x)

    def grad_x(g):
        return 0


class Round(Elementwise):
    """The nearest integer, of two equally near ones the even one."""

    kind, reference, accepts, error_name = "same", np.rint, "int float", "round_vml_cpu"

    def forward(x):
        return round(x)

    def grad_x(g):
        return 0


class RoundDecimals(Elementwise):
    """``x`` rounded at ``scale`` = 10 ** decimals."""

    kind, accepts, error_name, grad_name = "same", "float", "round_cpu", "RoundBackward1"
    reference = lambda x, scale=1.0: np.rint(x * scale) / scale

    def forward(x, scale=1.0):
        return round(x * scale) / scale

    def grad_x(g):
        return 0


class Frac(Elementwise, public=True):
    """The fraction of ``x``, with its sign."""

    kind, accepts = "same", "float"
    reference = lambda x: x - np.trunc(x)

    def forward(x):
        return x - trunc(x)

    def grad_x(g):
        return g


# -- choices --------------------------------------------------------------------------------------


class Where(Elementwise):
    """``x`` where the condition holds, else ``y``."""

    kind, reference, conditions = "same", np.where, ("condition",)

    def forward(condition, x, y):
        return where(condition, x, y)

    def grad_x(g, condition):
        return where(condition, g, 0)

    def grad_y(g, condition):
        return where(condition, 0, g)


class Maximum(Elementwise, public=True):
    """The larger of two; NaN if either is. At a tie each gets half the gradient."""

    in_place = False
    kind, reference, accepts, numbers = "same", np.maximum, "bool int float", ()
    refuses = _no_complex("maximum")

    def forward(x, y):
        return maximum(x, y)

    def grad_x(g, x, y):
        return where(x == y, g / 2, where(x < y, 0, g))

    def grad_y(g, x, y):
        return where(x == y, g / 2, where(x > y, 0, g))


class Minimum(Elementwise, public=True):
    """The smaller of two; NaN if either is. At a tie each gets half the gradient."""

    in_place = False
    kind, reference, accepts, numbers = "same", np.minimum, "bool int float", ()
    refuses = _no_complex("minimum")

    def forward(x, y):
        return minimum(x, y)

    # The gradient goes to the one that is not the larger.
    grad_x, grad_y = Maximum.grad_y, Maximum.grad_x


class Fmax(Elementwise, public=True):
    """The larger of two; a NaN counts as missing."""

    in_place = False
    kind, reference, accepts, numbers = "same", np.fmax, "bool int float", ()
    refuses = _no_complex("fmax")

    def forward(x, y):
        return where(isnan(x) | (y > x), y, x)

    def grad_x(g, x, y):
        return where((x >= y) | isnan(y), g, 0)

    def grad_y(g, x, y):
        return where((x >= y) | isnan(y), 0, g)


class Fmin(Elementwise, public=True):
    """The smaller of two; a NaN counts as missing."""

    in_place = False
    kind, reference, accepts, numbers = "same", np.fmin, "bool int float", ()
    refuses = _no_complex("fmin")

    def forward(x, y):
        return where(isnan(x) | (y < x), y, x)

    def grad_x(g, x, y):
        return where((x <= y) | isnan(y), g, 0)

    def grad_y(g, x, y):
        return where((x <= y) | isnan(y), 0, g)


class Clamp(Elementwise):
    """``x`` kept between two bounds; where they cross, the upper one. -0 stays beside a bound of 0.

    ``x`` is the second operand of ``maximum`` and ``minimum``, which return that one of two equal ones.
    """

    kind, accepts, refuses = "same", "int float", _NO_COMPLEX_CLAMP
    domain = ((-3, 3), (-2, -1), (1, 2))
    variants = {"clamp_numbers": {"grad_name": "ClampBackward1", **_BY_NUMBERS}}
    reference = lambda x, low, high: np.minimum(np.maximum(x, low), high)

    def forward(x, low, high):
        return minimum(high, maximum(low, x))

    def grad_x(g, x, low, high):
        return where((x >= low) & (x <= high), g, 0)

    def grad_low(g, x, low, high):
        return where((low < high) & (x < low), g, 0)

    def grad_high(g, x, low, high):
        return where((x > high) | (high < low), g, 0)


class ClampMin(Elementwise):
    """``x``, but at least ``low``; ``clamp_low`` is ``clamp`` with that bound alone."""

    kind, accepts, grad_name = "same", "bool int float", "ClampMinBackward1"
    reference, error_name = np.maximum, "maximum_cpu"
    variants = {
        "clamp_min_number": {"grad_name": "ClampMinBackward0", "refuses": _NO_COMPLEX_CLAMP, **_BY_NUMBERS},
        "clamp_low": {"grad_name": "ClampBackward0", "refuses": _NO_COMPLEX_CLAMP},
        "clamp_low_number": {"grad_name": "ClampBackward1", "refuses": _NO_COMPLEX_CLAMP, **_BY_NUMBERS},
    }

    def forward(x, low):
        return maximum(low, x)

    def grad_x(g, x, low):
        return where(x >= low, g, 0)

    def grad_low(g, x, low):
        return where(x < low, g, 0)


class ClampMax(Elementwise):
    """``x``, but at most ``high``; ``clamp_high`` is ``clamp`` with that bound alone."""

    kind, accepts, grad_name = "same", "bool int float", "ClampMaxBackward1"
    reference, error_name = np.minimum, "minimum_cpu"
    variants = {
        "clamp_max_number": {"grad_name": "ClampMaxBackward0", "refuses": _NO_COMPLEX_CLAMP, **_BY_NUMBERS},
        "clamp_high": {"grad_name": "ClampBackward0", "refuses": _NO_COMPLEX_CLAMP},
        "clamp_high_number": {"grad_name": "ClampBackward1", "refuses": _NO_COMPLEX_CLAMP, **_BY_NUMBERS},
    }

    def forward(x, high):
        return minimum(high, x)

    def grad_x(g, x, high):
        return where(x <= high, g, 0)

    def grad_high(g, x, high):
        return where(x > high, g, 0)
