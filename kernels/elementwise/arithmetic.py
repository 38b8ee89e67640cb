"""Arithmetic: sums, products, signs, rounding."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *

_TWO_BOOLS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. "
    "Use the `^` or `logical_xor()` operator instead."
)
_ONE_BOOL = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
    "mask, use the `~` or `logical_not()` operator instead."
)
_BOOLS: dict[str, tuple[type[Exception], str]] = {
    "bool": (RuntimeError, _TWO_BOOLS), "any bool": (RuntimeError, _ONE_BOOL),
}  # fmt: skip
_NEGATED_BOOL = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
    "mask, use the `~` or `logical_not()` operator instead."
)


class Add(Elementwise, public=True):
    """Sum: ``x + y``."""

    kind, reference, numbers_alone = "same", np.add, True
    operators = ("__add__", "__radd__")

    def forward(x, y):
        return x + y

    def grad_x(g):
        return g

    def grad_y(g):
        return g


class AddScaled(Add):
    """Sum with a factor: ``x + alpha * y``."""

    grad_name = "AddBackward0"

    def reference(x, y, alpha=1):
        return x + x.dtype.type(alpha) * y

    def forward(x, y, alpha=1):
        return x + alpha * y

    def grad_y(g, alpha):
        return g * alpha


class Sub(Elementwise, public=True):
    """Difference: ``x - y``."""

    kind, reference, numbers_alone = "same", np.subtract, True
    operators = ("__sub__",)
    accepts, refuses = "int float complex", _BOOLS

    def forward(x, y):
        return x - y

    def grad_x(g):
        return g

    def grad_y(g):
        return -g


class SubScaled(Sub):
    """Difference with a factor: ``x - alpha * y``."""

    grad_name = "SubBackward0"

    def reference(x, y, alpha=1):
        return x - x.dtype.type(alpha) * y

    def forward(x, y, alpha=1):
        return x - alpha * y

    def grad_y(g, alpha):
        return -g * alpha


class Rsub(Elementwise):
    """Difference, reversed: ``y - alpha * x``."""

    kind, memory_order = "same", "last input first"  # PyTorch calls sub with the operands in the other order
    accepts, refuses = "int float complex", _BOOLS
    variants = {"rsub_number": {"grad_name": "RsubBackward1", "numbers_only": True}}
    reference = lambda x, y, alpha=1: y - x.dtype.type(alpha) * x

    def forward(x, y, alpha=1):
        return y - alpha * x

    def grad_x(g, alpha):
        return -g * alpha

    def grad_y(g):
        return g


class Mul(Elementwise, public=True):
    """Product: ``x * y``."""

    kind, reference, numbers_alone, rounds = "same", np.multiply, True, ()
    operators = ("__mul__", "__rmul__")
    aliases = ("multiply",)

    def forward(x, y):
        return x * y

    def grad_x(g, y):
        return g * y

    def grad_y(g, x):
        return g * x


class Neg(Elementwise, public=True):
    """Negation: ``-x``."""

    kind, reference = "same", np.negative
    operators, aliases = ("__neg__",), ("negative",)
    accepts, refuses = "int float complex", {"bool": (RuntimeError, _NEGATED_BOOL)}

    def forward(x):
        return -x

    def grad_x(g):
        return -g


class Abs(Elementwise, public=True):
    """Absolute value; of complex numbers the modulus, which is real."""

    kind, reference, holomorphic = "real", np.abs, False
    operators, aliases = ("__abs__",), ("absolute",)
    accepts = "int float complex"

    def forward(x):
        return abs(x)

    # For complex x, sign(x) is x / |x|: the direction in which |x| grows fastest.
    def grad_x(g, x):
        return g * sign(x)


class Sign(Elementwise, public=True):
    """-1, 0 or 1 by the sign of ``x``."""

    kind, accepts = "same", "bool int float"
    refuses = {
        "complex": (
            NotImplementedError,
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
        )
    }

    # The real half of PyTorch's sgn, which takes complex numbers, too.
    variants = {"sgn_real": {"grad_name": "SgnBackward0", "error_name": "sgn_real_cpu", "refuses": {}}}
    reference = lambda x: x if x.dtype == bool else np.nan_to_num(np.sign(x))

    def forward(x):
        return sign(x)

    def grad_x(g):
        return 0


class SgnComplex(Elementwise):
    """``x / abs(x)``, 0 at 0."""

    kind, accepts, holomorphic = "same", "complex", False
    grad_name = "SgnBackward0"
    reference = np.sign

    def forward(x):
        return sign(x)

    # z / |z| is not holomorphic: only the part of g across z turns it, at the rate 1 / |z|.
    def grad_x(g, x):
        size = abs(x)
        return where(x == 0, 0, g / size - real(g / x) * (x / size))


class ConjPhysical(Elementwise):
    """Complex conjugate."""

    kind, reference, holomorphic, accepts = "same", np.conj, False, "complex"

    def forward(x):
        return conj(x)

    def grad_x(g):
        return conj(g)


class Positive(Elementwise):
    """``x`` itself: a copy."""

    kind, accepts = "same", "int float complex"
    reference = lambda x: x

    def forward(x):
        return x

    def grad_x(g):
        return g


class Addcmul(Elementwise):
    """``x + value * y * z``."""

    kind, accepts, numbers, error_name = "same", "int float complex", (), "addcmul_cpu_out"
    reference = lambda x, y, z, value=1: x + x.dtype.type(value) * y * z

    def forward(x, y, z, value=1):
        return x + value * y * z

    def grad_x(g):
        return g

    def grad_y(g, z, value):
        return g * (z * value)

    def grad_z(g, y, value):
        return g * (y * value)


class Lerp(Elementwise):
    """``x + weight * (y - x)``, computed from the nearer end."""

    # abs(0.5) is real whatever the dtype: complex numbers have no order.
    kind, accepts, numbers, grad_name = "same", "float complex", ("weight",), "LerpBackward1"
    error_name, rounds = "lerp_kernel_tensor", ("x", "y")
    variants = {
        "lerp_number": {
            "grad_name": "LerpBackward0", "error_name": "lerp_kernel_scalar", "memory_order": "tensors",
        },
    }  # fmt: skip
    reference = lambda x, y, weight: x + weight * (y - x)

    # From the nearer end, so that weight 1 gives y exactly.
    def forward(x, y, weight):
        return where(abs(weight) < abs(0.5), x + weight * (y - x), y - (y - x) * (1 - weight))

    def grad_x(g, weight):
        return g * (1 - weight)

    def grad_y(g, weight):
        return g * weight

    def grad_weight(g, x, y):
        return g * (y - x)
