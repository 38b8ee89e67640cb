"""``torch._assert``, ``torch._check`` and kin, and ``torch.sym_int`` and kin, which take plain numbers here."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

__all__ = [
    "sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip

_UNSAID = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _assert(condition: Any, message: str) -> None:
    """AssertionError with ``message`` unless the condition, perhaps a tensor, holds."""
    if not condition:
        raise AssertionError(message)


def _check_with(error: type[Exception], cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise ``error`` with what ``message()`` returns unless ``cond``. TypeError for one that is no bool."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error(_UNSAID if message is None else str(message()))


def _checker(error: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], str] | None = None) -> None:
        _check_with(error, cond, message)

    check.__doc__ = f"{error.__name__} unless ``cond``."
    return check


_check, _check_index, _check_value = _checker(RuntimeError), _checker(IndexError), _checker(ValueError)
_check_type, _check_not_implemented = _checker(TypeError), _checker(NotImplementedError)


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError unless all elements of a tensor of bools hold."""
    _check(bool(cond.all()), message)


def _check_is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """RuntimeError for a negative number."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with guard_size_oblivious.     "
        "Use _check(i >= 0) instead.",
        FutureWarning, stacklevel=2,
    )  # fmt: skip
    _check(bool(i >= 0) and (max is None or bool(i <= max)), message)


_constrain_as_size = _check_is_size


def sym_int(a: Any) -> int:
    """``a`` cut to an int."""
    return math.trunc(a) if isinstance(a, float) else int(a)


def sym_float(a: Any) -> float:
    """``a`` as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether ``a`` is false."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float if either is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float if either is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args: Any) -> Any:
    """The sum of a list."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t if b else f``."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The square root, a float."""
    return math.sqrt(a)


_sym_sqrt = sym_sqrt


def sym_fresh_size(expr: Any) -> int:
    """A size of unknown value: the number itself, since sizes are known here."""
    return operator.index(expr)
