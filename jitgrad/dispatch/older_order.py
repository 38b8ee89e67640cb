"""Sums with their factors in front, as PyTorch's first versions had them: ``x.add_(2, y)`` for ``x + 2 y``.

PyTorch still takes this order, and warns, once in a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.called_form import as_called
from jitgrad.core.overloads import forms
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once

__all__ = ["is_older_order", "older_order"]

# By how many factors there are: where numbers (n) and tensors (t) may stand.
_ORDERS = {1: ("tnt", "tntt"), 2: ("ntntt", "nttt", "tnntt", "tntt")}


def _order(given: Sequence[Any]) -> str:
    return "".join(["t" if isinstance(v, Tensor) else "n" for v in given])


def is_older_order(factors: Sequence[str], given: Sequence[Any]) -> bool:
    """Whether arguments by position are in the older order of a function with these factors."""
    return _order(given) in _ORDERS[len(factors)]


def older_order(name: str, tensors: Sequence[str], factors: Sequence[str], given: Sequence[Any]) -> list[Any]:
    """The tensors, then the factors, 1 for one that was not given. Warns; TypeError for another order.

    tensors, factors: what PyTorch calls them. given: all arguments by position, among them a method's tensor.
    """
    if not is_older_order(factors, given):
        raise TypeError(f"{name}() takes {len(tensors)} positional arguments but {len(given)} were given")
    labels = {"t": iter([f"Tensor {t}" for t in tensors]), "n": iter([f"Number {f}" for f in factors])}
    older = [next(labels[kind]) for kind in _order(given)]
    _warn(name, older, tensors, factors, len(factors) == 2 and isinstance(given[0], Tensor))
    numbers = [v for v in given if not isinstance(v, Tensor)]
    return [*[v for v in given if isinstance(v, Tensor)], *numbers, *[1] * (len(factors) - len(numbers))]


def _warn(name: str, older: list[str], tensors: Sequence[str], factors: Sequence[str], method: bool) -> None:
    name, position = as_called(name, "", 1)
    method |= position == 0
    today = [f"Tensor {t}" for t in tensors[method:]] + ["*"] + [f"Number {f} = 1" for f in factors]
    if method:
        older.remove(f"Tensor {tensors[0]}")
    else:
        older, today = [*older, "*", "Tensor out = None"], [*today, "Tensor out = None"]
    better = "".join([f"\n\t{name}({', '.join(form)})" for form in forms(name, method) or [today]])
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}({', '.join(older)})\nConsider using one of the following "
        f"signatures instead:{better}",
        "older order",
    )
