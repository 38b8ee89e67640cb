"""Norms of 16-bit inputs whose parameters are float32: computed in float32, and rounded once."""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.core.dtypes import float32
from jitgrad.core.tensor import Tensor
from jitgrad.ops.shape.copy import cast

__all__ = ["in_float32", "mixes"]

_FLOAT32 = {float32}


def mixes(x: Tensor, *parameters: Tensor | None) -> bool:
    """Whether ``x`` is of 16 bits and there are parameters, all float32."""
    if not x._layout.dtype.is_half:
        return False
    given = {p._layout.dtype for p in parameters if p is not None}
    return given == _FLOAT32


def in_float32(norm: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """``norm`` of ``x`` in float32, in the dtype of ``x``."""
    return cast(norm(cast(x, float32)), x._layout.dtype)
