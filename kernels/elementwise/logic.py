"""The table: comparisons, logic and bits. None of these has a gradient."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *

# -- comparisons ----------------------------------------------------------------------------------


class Eq(Elementwise, public=True):
    """Whether ``x == y``."""

    kind, reference, numbers = "bool", np.equal, ("y",)
    operators = ("__eq__",)

    def forward(x, y):
        return x == y


class Ne(Elementwise, public=True):
    """Whether ``x != y``."""

    kind, reference, numbers = "bool", np.not_equal, ("y",)
    operators, aliases = ("__ne__",), ("not_equal",)

    def forward(x, y):
        return x != y


class Lt(Elementwise, public=True):
    """Whether ``x < y``."""

    kind, reference, numbers, accepts = "bool", np.less, ("y",), "bool int float"
    operators, aliases = ("__lt__",), ("less",)

    def forward(x, y):
        return x < y


class Le(Elementwise, public=True):
    """Whether ``x <= y``."""

    kind, reference, numbers, accepts = "bool", np.less_equal, ("y",), "bool int float"
    operators, aliases = ("__le__",), ("less_equal",)

    def forward(x, y):
        return x <= y


class Gt(Elementwise, public=True):
    """Whether ``x > y``."""

    kind, reference, numbers, accepts = "bool", np.greater, ("y",), "bool int float"
    operators, aliases = ("__gt__",), ("greater",)

    def forward(x, y):
        return x > y


class Ge(Elementwise, public=True):
    """Whether ``x >= y``."""

    kind, reference, numbers, accepts = "bool", np.greater_equal, ("y",), "bool int float"
    operators, aliases = ("__ge__",), ("greater_equal",)

    def forward(x, y):
        return x >= y


# -- logic and bits -------------------------------------------------------------------------------


class LogicalAnd(Elementwise, public=True):
    """Whether both are not zero."""

    kind, reference, numbers = "bool", np.logical_and, ()

    def forward(x, y):
        return logical_and(x, y)


class LogicalOr(Elementwise, public=True):
    """Whether either is not zero."""

    kind, reference, numbers = "bool", np.logical_or, ()

    def forward(x, y):
        return logical_or(x, y)


class LogicalXor(Elementwise, public=True):
    """Whether exactly one is not zero."""

    kind, reference, numbers = "bool", np.logical_xor, ()

    def forward(x, y):
        return logical_xor(x, y)


class LogicalNot(Elementwise, public=True):
    """Whether ``x`` is zero."""

    kind, reference = "bool", np.logical_not

    def forward(x):
        return logical_not(x)


class BitwiseAnd(Elementwise, public=True):
    """The bits that both have."""

    kind, reference, accepts = "same", np.bitwise_and, "bool int"
    operators = ("__and__", "__rand__")

    def forward(x, y):
        return bitwise_and(x, y)


class BitwiseOr(Elementwise, public=True):
    """The bits that either has."""

    kind, reference, accepts = "same", np.bitwise_or, "bool int"
    operators = ("__or__", "__ror__")

    def forward(x, y):
        return bitwise_or(x, y)


class BitwiseXor(Elementwise, public=True):
    """The bits that exactly one has."""

    kind, reference, accepts = "same", np.bitwise_xor, "bool int"
    operators = ("__xor__", "__rxor__")

    def forward(x, y):
        return bitwise_xor(x, y)


class BitwiseNot(Elementwise, public=True):
    """All bits turned; of booleans the negation."""

    kind, reference, accepts = "same", np.invert, "bool int"

    def forward(x):
        return bitwise_not(x)


class BitwiseLeftShift(Elementwise, public=True):
    """``x`` times 2 to the power ``y``."""

    kind, reference, accepts, error_name = "same", np.left_shift, "int", "lshift_cpu"
    operators, domain = ("__lshift__",), ((-9, 9), (0, 5))

    def forward(x, y):
        return bitwise_left_shift(x, y)


class BitwiseRightShift(Elementwise, public=True):
    """``x`` divided by 2 to the power ``y``, rounded down."""

    kind, reference, accepts, error_name = "same", np.right_shift, "int", "rshift_cpu"
    operators, domain = ("__rshift__",), ((-99, 99), (0, 5))

    def forward(x, y):
        return bitwise_right_shift(x, y)


class Isnan(Elementwise, public=True):
    """Whether ``x`` is not a number."""

    in_place = False
    kind, reference = "bool", np.isnan

    def forward(x):
        return isnan(x)


class Isinf(Elementwise, public=True):
    """Whether ``x`` is an infinity."""

    in_place = False
    kind, reference = "bool", np.isinf

    def forward(x):
        return isinf(x)


class Isfinite(Elementwise, public=True):
    """Whether ``x`` is neither an infinity nor NaN."""

    in_place = False
    kind, reference = "bool", np.isfinite

    def forward(x):
        return isfinite(x)


class Isposinf(Elementwise, public=True):
    """Whether ``x`` is plus infinity."""

    in_place = False
    kind, reference, accepts = "bool", np.isposinf, "bool int float"
    refuses = {"complex": (RuntimeError, "isposinf does not support complex inputs.")}

    def forward(x):
        return isposinf(x)


class Isneginf(Elementwise, public=True):
    """Whether ``x`` is minus infinity."""

    in_place = False
    kind, reference, accepts = "bool", np.isneginf, "bool int float"
    refuses = {"complex": (RuntimeError, "isneginf does not support complex inputs.")}

    def forward(x):
        return isneginf(x)


class Signbit(Elementwise, public=True):
    """Whether ``x`` is less than 0, or is -0 or a NaN that bears the sign."""

    in_place = False
    kind, reference, accepts = "bool", np.signbit, "bool int float"
    refuses = {"complex": (NotImplementedError, "signbit is not implemented for complex tensors.")}

    def forward(x):
        return signbit(x)
