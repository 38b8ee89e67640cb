"""Python's ``min`` and ``max`` of numbers, as the loops of kernels call them.

Numba compiles its own from Python for each list of types that a process uses them with: 40 ms each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["max", "min"]


@intrinsic
def min(typing_context: Any, *numbers: Any) -> Any:
    """The smallest of two or more numbers."""
    return _extreme(operator.lt, typing_context, numbers)


@intrinsic
def max(typing_context: Any, *numbers: Any) -> Any:
    """The largest of two or more numbers."""
    return _extreme(operator.gt, typing_context, numbers)


def _extreme(comes_first: Callable[..., Any], typing_context: Any, numbers: Sequence[Any]) -> Any:
    """The signature and the emitter of a fold: a number replaces the one found so far where it ``comes_first``."""
    if len(numbers) < 2 or not all(isinstance(t, types.Number | types.Boolean) for t in numbers):
        return None
    kind = typing_context.unify_types(*numbers)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = zip(cgutils.unpack_tuple(builder, args[0]), numbers, strict=True)
        found, *others = [context.cast(builder, v, t, kind) for v, t in values]
        compare = context.get_function(comes_first, types.boolean(kind, kind))
        for other in others:
            found = builder.select(compare(builder, (other, found)), other, found)
        return found

    return kind(types.StarArgTuple.from_types(numbers)), build
