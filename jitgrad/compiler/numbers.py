"""Numbers that may differ from run to run: options of optimisers, and what ``item()`` reads of a tensor.

They are numbers of Python's, so that a function computes with them as ever. A Watch that meets one where it decides on
anything makes it a condition (options), or gives the function up (numbers of tensors): see ``Notes.settled``.
"""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import LiveNumber

__all__ = ["ReadFloat", "ReadInt", "is_live", "plain", "read_number", "was_read"]


class ReadFloat(float):
    """A float that was read of ``tensor``; it may only be returned, or appended to a list from outside."""

    tensor: Tensor


class ReadInt(int):
    """The same for a whole number."""

    tensor: Tensor


_KINDS: dict[type, Any] = {float: ReadFloat, int: ReadInt}
_LIVE = frozenset({LiveNumber, ReadFloat, ReadInt})


def read_number(tensor: Tensor, value: Any) -> Any:
    """A number as one that was read of a tensor; others than floats and ints as they are."""
    kind = _KINDS.get(type(value))
    if kind is None:
        return value
    number = kind(value)
    number.tensor = tensor
    return number


def was_read(value: Any) -> bool:
    """Whether a value is a number that was read of a tensor."""
    return type(value) in (ReadFloat, ReadInt)


def plain(value: Any) -> Any:
    """A live number as the number that it is now; anything else as it is."""
    return type(value).__bases__[0](value) if is_live(value) else value


def is_live(value: Any) -> bool:
    """Whether a value is a number that may differ from run to run."""
    return type(value) in _LIVE
