"""Activation functions as modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Activation(Module):
    """A ``function`` of ``nn.functional`` with some of its arguments fixed.

    ``options`` names the attributes that hold those arguments, in the function's order, behind the input.
    """

    function: Callable[..., Tensor]
    options: tuple[str, ...] = ()

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return self.function(input, *[getattr(self, name) for name in self.options])

    def extra_repr(self) -> str:
        """The fixed arguments; ``inplace`` only where it is set."""
        shown = [name for name in self.options if name != "inplace" or self.inplace]
        return ", ".join(f"{name}={getattr(self, name)}" for name in shown)


class _InPlace(_Activation):
    """An activation whose one option is whether it writes its result into its input."""

    options = ("inplace",)

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    """max(x, 0)."""

    function = staticmethod(F.relu)


class SELU(_InPlace):
    """ELU scaled so that layers keep mean 0 and variance 1."""

    function = staticmethod(F.selu)


class SiLU(_InPlace):
    """x sigmoid(x)."""

    function = staticmethod(F.silu)


class Mish(_InPlace):
    """x tanh(softplus(x))."""

    function = staticmethod(F.mish)


class Hardsigmoid(_InPlace):
    """x / 6 + 1 / 2 kept between 0 and 1."""

    function = staticmethod(F.hardsigmoid)

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class Hardswish(Hardsigmoid):
    """x hardsigmoid(x)."""

    function = staticmethod(F.hardswish)


class LeakyReLU(_Activation):
    """x where positive, else negative_slope x."""

    function, options = staticmethod(F.leaky_relu), ("negative_slope", "inplace")

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace


class ELU(_Activation):
    """x where positive, else alpha (exp(x) - 1)."""

    function, options = staticmethod(F.elu), ("alpha", "inplace")

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace


class CELU(ELU):
    """x where positive, else alpha (exp(x / alpha) - 1)."""

    function = staticmethod(F.celu)


class Threshold(_Activation):
    """x where above threshold, else value."""

    function, options = staticmethod(F.threshold), ("threshold", "value", "inplace")

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace


class Hardtanh(_Activation):
    """x kept between min_val and max_val."""

    function, options = staticmethod(F.hardtanh), ("min_val", "max_val", "inplace")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None,
        max_value: float | None = None,
    ):  # fmt: skip
        super().__init__()
        for name, older in (("min", min_value), ("max", max_value)):
            if older is not None:
                warnings.warn(
                    f"keyword argument `{name}_value` is deprecated and renamed to `{name}_val`", FutureWarning,
                    stacklevel=2,
                )  # fmt: skip
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    function = staticmethod(F.relu6)  # type: ignore[assignment]
    options = ("inplace",)  # type: ignore[assignment]

    def __init__(self, inplace: bool = False):
        super().__init__(0.0, 6.0, inplace)


class GELU(_Activation):
    """x times the normal distribution function of x; ``approximate="tanh"`` for tanh's form of it."""

    function = staticmethod(F.gelu)

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Which form."""
        return f"approximate={self.approximate!r}"


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""

    function, options = staticmethod(F.softplus), ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold


class _Shrink(_Activation):
    """An activation that is 0 within a distance ``lambd`` of 0."""

    options = ("lambd",)

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The bare number, as in PyTorch."""
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """x, but 0 within lambd of 0."""

    function = staticmethod(F.hardshrink)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd, and 0 within that distance of it."""

    function = staticmethod(F.softshrink)


class Tanh(_Activation):
    """Hyperbolic tangent."""

    function = staticmethod(F.tanh)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    function = staticmethod(F.sigmoid)


class LogSigmoid(_Activation):
    """log(sigmoid(x)), without overflow."""

    function = staticmethod(F.logsigmoid)


class Softsign(_Activation):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    function = staticmethod(F.tanhshrink)


class _AlongDim(_Activation):
    """An activation along a dim; without one ``nn.functional`` chooses it and warns."""

    options = ("dim",)

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim: Any = dim


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along ``dim``."""

    function = staticmethod(F.softmax)


class LogSoftmax(_AlongDim):
    """x - log(sum(exp(x))) along ``dim``."""

    function = staticmethod(F.log_softmax)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """Softmax of -x along ``dim``."""

    function = staticmethod(F.softmin)
