"""``torch._foreach_NAME``: an op applied to every tensor of a list, as optimisers call it.

Each is the op called once a tensor; what PyTorch gains by one launch for all a compiled step gains here. Results are
tuples; forms that end in ``_`` write to the tensors of the first list and return it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import published

__all__ = ["NAMES", "foreach"]

_UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc", "zero",
]  # fmt: skip
_BINARY = [
    "add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow",
]  # with a tensor, number or a list of either  # fmt: skip
_OTHER = ["addcdiv", "addcmul", "copy", "lerp"]
# Those without a form in place, and those without the other.
_RESULTS_ONLY, _IN_PLACE_ONLY = ["clone", "max", "mm", "norm", "powsum"], {"copy", "zero"}
NAMES = [
    *(f"_foreach_{n}" for n in (*_UNARY, *_BINARY, *_OTHER, *_RESULTS_ONLY) if n not in _IN_PLACE_ONLY),
    *(f"_foreach_{n}_" for n in (*_UNARY, *_BINARY, *_OTHER)),
]


def _lists(name: str, *lists: Any) -> None:
    """TypeError for what is no list of tensors, RuntimeError for empty lists and lists of different lengths."""
    for position, tensors in enumerate(lists, 1):
        if not isinstance(tensors, (list, tuple)):
            kind = type(tensors).__name__
            raise TypeError(f"{name}(): argument 'self' (position {position}) must be tuple of Tensors, not {kind}")
    if not lists[0]:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for tensors in lists[1:]:
        if len(tensors) != len(lists[0]):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(lists[0])} and {len(tensors)}"
            )


def _spread(name: str, tensors: Sequence[Any], value: Any) -> Sequence[Any]:
    """One operand for each tensor: those of a list, or the same for all."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(tensors)
    if value and isinstance(value[0], Tensor):
        _lists(name, tensors, value)
    elif len(value) != len(tensors):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return value


def _method(name: str, in_place: bool) -> Callable[..., Any]:
    if not in_place and name in ("maximum", "minimum"):
        return lambda x, y: getattr(x, name)(y) if isinstance(y, Tensor) else _bounded(name, x, y)
    if in_place and name in ("maximum", "minimum"):
        return lambda x, y: x.copy_(_method(name, False)(x, y))
    found: Callable[..., Any] = getattr(Tensor, f"{name}_" if in_place else name)
    return found


def _bounded(name: str, x: Any, y: Any) -> Any:
    return x.clamp_min(y) if name == "maximum" else x.clamp_max(y)


def _unary(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any) -> Any:
        _lists(f"_foreach_{name}", self)
        return [_method(name, in_place)(x) for x in self]

    return apply


def _binary(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any, other: Any = None, *, scalar: Any = None, scalars: Any = None, alpha: Any = None,
              exponent: Any = None) -> Any:  # fmt: skip
        other = next((v for v in (other, scalar, scalars, exponent) if v is not None), None)
        if name == "pow" and not isinstance(self, (list, tuple)):  # a number to the power of tensors
            _lists("_foreach_pow", other)
            return [published("pow")(self, x) for x in other]  # type: ignore[misc]
        _lists(f"_foreach_{name}", self)
        options = {} if alpha is None else {"alpha": alpha}
        others = _spread(f"_foreach_{name}", self, other)
        return [_method(name, in_place)(x, y, **options) for x, y in zip(self, others, strict=True)]

    return apply


def _add_product(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any, tensor1: Any, tensor2: Any, scalars: Any = None, *, value: Any = None) -> Any:
        _lists(f"_foreach_{name}", self, tensor1, tensor2)
        factors = next((v for v in (scalars, value) if v is not None), 1)
        factors = factors.tolist() if isinstance(factors, Tensor) else factors
        factors = _spread(f"_foreach_{name}", self, factors)
        return [_method(name, in_place)(*t, value=v) for *t, v in zip(self, tensor1, tensor2, factors, strict=True)]

    return apply


def _lerp(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any, tensors1: Any, weights: Any = None, *, weight: Any = None, scalars: Any = None) -> Any:
        _lists("_foreach_lerp", self, tensors1)
        given = next((v for v in (weights, weight, scalars) if v is not None), None)
        weights = _spread("_foreach_lerp", self, given)
        return [_method(name, in_place)(*each) for each in zip(self, tensors1, weights, strict=True)]

    return apply


def _copy(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any, src: Any, non_blocking: bool = False) -> Any:
        _lists("_foreach_copy", self, src)
        return [x.copy_(y) for x, y in zip(self, src, strict=True)]

    return apply


def _norm(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
        _lists(f"_foreach_{name}", self)
        if name == "powsum":
            return [x.abs().pow(ord).sum(dtype=dtype) for x in self]
        norm: Any = published("linalg.vector_norm")
        return [norm(x, ord, dtype=dtype) for x in self]

    return apply


def _mm(name: str, in_place: bool) -> Callable[..., Any]:
    def apply(self: Any, mat2: Any) -> Any:
        _lists("_foreach_mm", self, mat2)
        return [x.mm(y) for x, y in zip(self, mat2, strict=True)]

    return apply


_MADE_BY: dict[str, Callable[[str, bool], Callable[..., Any]]] = {
    **dict.fromkeys((*_UNARY, "clone", "max"), _unary), **dict.fromkeys(_BINARY, _binary), "addcdiv": _add_product,
    "addcmul": _add_product, "copy": _copy, "lerp": _lerp, "norm": _norm, "powsum": _norm, "mm": _mm,
}  # fmt: skip


def foreach(full_name: str) -> Callable[..., Any]:
    """The function ``torch._foreach_NAME``."""
    name = full_name.removeprefix("_foreach_")
    in_place = name.endswith("_")
    apply = _MADE_BY[name.rstrip("_")](name.rstrip("_"), in_place)

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        results = apply(self, *args, **kwargs)
        return self if in_place else tuple(results)

    called.__name__ = called.__qualname__ = full_name
    called.__module__ = "jitgrad"
    called.__doc__ = f"``{name}`` of every tensor of a list{', which it writes to' if in_place else ''}."
    return called


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, foreach(name))
