"""Dual numbers that run a function's own text: its derivative in one direction, without any transformation of it.

`space` is what such a text needs as its globals: ``math``, ``np`` and the built-in functions that know dual numbers.
Arrays are NumPy's own, of objects, so that views, slices and assignments mean what they mean to the function itself.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["Dual", "Watch", "dual_array", "slope_of", "space", "value_of"]


class Watch:
    """What a run has met: how near a comparison was to a tie, and how large numbers and derivatives became."""

    nearest = math.inf
    largest = 0.0
    steepest = 0.0

    @classmethod
    def reset(cls) -> None:
        """Begin a run."""
        cls.nearest, cls.largest, cls.steepest = math.inf, 0.0, 0.0

    @classmethod
    def tie(cls, a: Any, b: Any) -> None:
        """Note a comparison of two numbers; those that are the same, in value and derivative, are no tie."""
        a, b = lifted(a), lifted(b)
        if a.value != b.value or a.slope != b.slope:
            cls.nearest = min(cls.nearest, abs(a.value - b.value))


class Dual:
    """A number and its derivative."""

    __slots__ = ("slope", "value")

    def __init__(self, value: float, slope: float = 0.0):
        self.value, self.slope = float(value), float(slope)
        Watch.largest = max(Watch.largest, abs(self.value))
        Watch.steepest = max(Watch.steepest, abs(self.slope))

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.slope})"

    def __hash__(self) -> int:
        return hash(self.value)

    def __float__(self) -> float:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __pos__(self) -> Dual:
        return self

    def __abs__(self) -> Dual:
        Watch.tie(self, 0.0)
        return self if self.value >= 0 else -self

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int):
            return Dual(self.value**other, other * self.value ** (other - 1) * self.slope)
        return (lifted(other) * log(self)).of(math.exp, math.exp)

    def __rpow__(self, other: Any) -> Any:
        return lifted(other) ** self

    def of(self, function: Callable[[float], float], slope: Callable[[float], float]) -> Dual:
        """A function of this number, by its derivative."""
        return Dual(function(self.value), slope(self.value) * self.slope)


def lifted(a: Any) -> Dual:
    """The number as a dual number."""
    return a if isinstance(a, Dual) else Dual(a)


def _operator(name: str, rule: Callable[[Dual, Dual], Dual]) -> None:
    def forward(a: Dual, b: Any) -> Any:
        return NotImplemented if isinstance(b, np.ndarray) else rule(a, lifted(b))

    def backward(a: Dual, b: Any) -> Any:
        return NotImplemented if isinstance(b, np.ndarray) else rule(lifted(b), a)

    setattr(Dual, f"__{name}__", forward)
    setattr(Dual, f"__r{name}__", backward)


def _modulo(a: Dual, b: Dual) -> Dual:
    whole = math.floor(a.value / b.value)
    rest = a.value % b.value
    Watch.nearest = min(Watch.nearest, abs(rest), abs(b.value - rest))
    return Dual(rest, a.slope - whole * b.slope)


_operator("add", lambda a, b: Dual(a.value + b.value, a.slope + b.slope))
_operator("sub", lambda a, b: Dual(a.value - b.value, a.slope - b.slope))
_operator("mul", lambda a, b: Dual(a.value * b.value, a.slope * b.value + a.value * b.slope))
_operator("truediv", lambda a, b: Dual(a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value))
_operator("mod", _modulo)


def _comparison(name: str) -> None:
    def compare(a: Dual, b: Any) -> Any:
        if isinstance(b, np.ndarray):
            return NotImplemented
        Watch.tie(a, b)
        return getattr(a.value, name)(lifted(b).value)

    setattr(Dual, name, compare)


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    _comparison(_name)

# Functions of numbers and their derivatives.
_SLOPES: dict[str, Callable[[float], float]] = {
    "sin": math.cos, "cos": lambda x: -math.sin(x), "tanh": lambda x: 1 - math.tanh(x) ** 2, "exp": math.exp,
    "log": lambda x: 1 / x, "sqrt": lambda x: 0.5 / math.sqrt(x), "atan": lambda x: 1 / (1 + x * x),
    "erf": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x), "log1p": lambda x: 1 / (1 + x),
}  # fmt: skip


def _function(name: str) -> Callable[[Any], Dual]:
    return lambda a: lifted(a).of(getattr(math, name), _SLOPES[name])


FUNCTIONS = {name: _function(name) for name in _SLOPES}
log = FUNCTIONS["log"]


def _atan2(y: Any, x: Any) -> Dual:
    y, x = lifted(y), lifted(x)
    norm = x.value**2 + y.value**2
    return Dual(math.atan2(y.value, x.value), (x.value * y.slope - y.value * x.slope) / norm)


def _hypot(a: Any, b: Any) -> Dual:
    return FUNCTIONS["sqrt"](lifted(a) * a + lifted(b) * b)


def _float(a: Any) -> Any:
    return a if isinstance(a, Dual) else builtins.float(a)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of numbers for arrays too."""
    ufunc: Any = np.frompyfunc(function, function.__code__.co_argcount, 1)
    return lambda *arguments: ufunc(*arguments)


def dual_array(values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """An array of dual numbers."""
    found = np.empty(values.shape, object)
    for place in np.ndindex(*values.shape):
        found[place] = Dual(values[place], slopes[place])
    return found


def slope_of(a: Any) -> np.ndarray:
    """The derivatives of a number or of an array's elements."""
    return np.vectorize(lambda e: lifted(e).slope, otypes=[float])(a)


def value_of(a: Any) -> np.ndarray:
    """The values of a number or of an array's elements."""
    return np.vectorize(lambda e: lifted(e).value, otypes=[float])(a)


def _new(shape: Any, fill: Any, dtype: Any = float) -> np.ndarray:
    if dtype not in (float, np.float64, np.float32):
        return np.full(shape, fill, dtype)
    found = np.empty(shape, object)
    found.fill(lifted(fill))
    return found


class _Numpy(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _numpy() -> _Numpy:
    whole = {"arctan" if n == "atan" else n: _elementwise(f) for n, f in FUNCTIONS.items()}
    return _Numpy(
        **whole,
        abs=_elementwise(lambda a: abs(lifted(a))),
        maximum=_elementwise(lambda a, b: max(lifted(a), lifted(b))),
        minimum=_elementwise(lambda a, b: min(lifted(a), lifted(b))),
        zeros=lambda shape, dtype=float: _new(shape, 0, dtype),
        ones=lambda shape, dtype=float: _new(shape, 1, dtype),
        empty=lambda shape, dtype=float: _new(shape, 0 if dtype is np.int64 else math.nan, dtype),
        full=lambda shape, fill, dtype=float: _new(shape, fill, dtype),
        zeros_like=lambda a: _new(a.shape, 0),
        empty_like=lambda a: _new(a.shape, math.nan),
        full_like=lambda a, fill: _new(a.shape, fill),
    )


def space() -> dict[str, Any]:
    """Globals for a text that is run on dual numbers."""
    mathematics = SimpleNamespace(**FUNCTIONS, atan2=_atan2, hypot=_hypot, pi=math.pi)
    return {"math": mathematics, "np": _numpy(), "float": _float}
