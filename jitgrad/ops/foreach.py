"""``_foreach_*``: an op on each tensor of a list, as optimisers written for PyTorch call them.

PyTorch has kernels for whole lists; here they are loops over the tensors' methods, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor

__all__ = ["NAMES"]

_BOTH_FORMS = (  # which are there in place, too
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh", "div",
    "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "maximum",
    "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub",
    "tan", "tanh", "trunc",
)  # fmt: skip
NAMES = (
    *_BOTH_FORMS, *[f"{name}_" for name in _BOTH_FORMS], "clone", "copy_", "max", "mm", "norm", "powsum", "zero_",
)  # fmt: skip


def _rows(name: str, first: Any, others: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The arguments for each tensor: of lists an element, of others the same for all."""
    if not isinstance(first, (list, tuple)):
        kinds = ", ".join(type(v).__name__ for v in (first, *others))
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({kinds})")
    if not first:
        raise RuntimeError("Tensor list must have at least one tensor.")
    columns = []
    for other in others:
        if isinstance(other, (list, tuple)) and len(other) != len(first):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(first)} and {len(other)}"
            )
        columns.append(other if isinstance(other, (list, tuple)) else [other] * len(first))
    return list(zip(first, *columns, strict=True))


def _lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    return x.lerp(end, weight)


def _scaled(name: str) -> Callable[..., Tensor]:
    """``addcmul`` or ``addcdiv``, whose factor may be a tensor."""

    def function(x: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
        return getattr(x, name)(a * value, b) if isinstance(value, Tensor) else getattr(x, name)(a, b, value=value)

    return function


def _limit(name: str, number: str) -> Callable[..., Tensor]:
    """``maximum`` or ``minimum`` with a tensor or a number."""

    def function(x: Tensor, other: Any) -> Tensor:
        return getattr(x, name if isinstance(other, Tensor) else number)(other)

    return function


def _norm(x: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return jitgrad.linalg.vector_norm(x, ord, dtype=dtype)


# Where the method of the name takes other arguments.
_OWN: dict[str, Callable[..., Tensor]] = {
    "addcdiv": _scaled("addcdiv"), "addcmul": _scaled("addcmul"), "lerp": _lerp,
    "maximum": _limit("maximum", "clamp_min"), "minimum": _limit("minimum", "clamp_max"), "norm": _norm,
    "powsum": lambda x, ord=2: x.abs().pow(ord).sum(),
}  # fmt: skip


def _made(name: str) -> Callable[..., Any]:
    public = f"_foreach_{name}"
    base = name.removesuffix("_")

    def one(x: Any, *args: Any, **kwargs: Any) -> Tensor:
        own = _OWN.get(base)
        return own(x, *args, **kwargs) if own else getattr(x, base)(*args, **kwargs)

    def function(self: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        if base == "pow" and not isinstance(self, (list, tuple)):  # a number to the power of tensors
            return tuple([self**x for x in args[0]])
        return tuple([one(*row, **kwargs) for row in _rows(public, self, _unbound(base, args))])

    def in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
        rows = _rows(public, self, _unbound(base, args))
        for x, *others in rows:
            if base in _OWN:
                x.copy_(one(x, *others, **kwargs))
            else:
                getattr(x, name)(*others, **kwargs)
        return self

    made: Any = in_place if name.endswith("_") else function
    made.__name__ = made.__qualname__ = public
    made.__doc__ = f"``{name}`` of each tensor of a list, with arguments that are lists, too, or the same for all."
    return made


def _unbound(base: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments; a vector in the place of factors is one for each tensor."""
    if base in ("addcmul", "addcdiv") and len(args) == 3 and isinstance(args[2], Tensor) and args[2].dim() == 1:
        return (*args[:2], args[2].unbind())
    return args


globals().update({f"_foreach_{name}": _made(name) for name in NAMES})
