"""What the words of the table's rules mean on tensors: so a rule, run on tensors, is its own differentiable backward.

A rule such as ``g * exp(x)`` calls words (kernels/words), which numbers compute and kernels are compiled from. A word
called with a tensor asks the tensor's ``_word``, set here, for the op of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.ops.pointwise.arithmetic import (
    copysign,
    digamma_derivative,
    div,
    fmod,
    power,
    remainder,
    round,
    sgn,
    square,
)  # fmt: skip
from jitgrad.ops.pointwise.complex import angle, conj_physical
from jitgrad.ops.pointwise.where_clamp import clamp_max, clamp_min, constant_in, where
from jitgrad.ops.shape.complex_view import imag, real

__all__: list[str] = []


def _where(condition: Any, x: Any, y: Any) -> Any:
    """A condition that compares numbers is a plain bool."""
    return (x if condition else y) if isinstance(condition, (bool, NUMBERS[-1])) else where(condition, x, y)


def _maximum(x: Any, y: Any) -> Any:
    return table.maximum(x, y) if isinstance(y, Tensor) else clamp_min(x, y)


def _minimum(x: Any, y: Any) -> Any:
    return table.minimum(x, y) if isinstance(y, Tensor) else clamp_max(x, y)


# Words whose meaning is not simply the table's op of their name, since their operands may be numbers, or real.
_MEANINGS: dict[str, Callable[..., Any]] = {
    "sign": sgn, "power_of": power, "pow": power, "square": square, "round": round, "polygamma": digamma_derivative,
    "divide": div, "remainder": remainder, "fmod": fmod, "copysign": copysign,
    "floor_divide": partial(div, rounding_mode="floor"), "trunc_divide": partial(div, rounding_mode="trunc"),
    "where": _where, "maximum": _maximum, "minimum": _minimum, "conj": conj_physical, "angle": angle, "real": real,
    "imag": imag, "constant_in": constant_in,
}  # fmt: skip


def _word(self: Tensor, name: str, args: tuple[Any, ...]) -> Any:
    """Apply a word, by its name, to ``args``, of which this tensor is one."""
    meaning = _MEANINGS.get(name) or getattr(table, name)
    return meaning(*args)


Tensor._word = _word  # type: ignore[method-assign]
