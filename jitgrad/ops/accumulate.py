"""What the engine does with gradients: add two, add into an owned one, copy one."""

from __future__ import annotations

from ..tensor import Tensor
from .publish import OPERATIONS
from .registry import FUNCTIONS

__all__ = ["add_into", "add_new", "own_copy"]


def add_into(buffer: Tensor, grad: Tensor) -> None:
    """Add ``grad`` to a buffer that nobody else reads."""
    OPERATIONS["add"].write(buffer, grad)


def add_new(a: Tensor, b: Tensor) -> Tensor:
    """Sum out of place; recorded when the engine builds a graph."""
    return OPERATIONS["add"].function(a, b)


def own_copy(grad: Tensor) -> Tensor:
    """A copy that may become ``.grad``."""
    return FUNCTIONS["clone"](grad)
