"""Indices of checked loops, compared with their array's size: see codegen/index_checks.py.

A loop's error names no place in the user's file, but the number of one: ``IndexError(place, index, dimension, size)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import overload

__all__ = ["_within", "_within_flat"]

_OPTIONS = {"nogil": True, "error_model": "numpy"}


def _within(array: Any, index: Any, dimension: int, place: int) -> Any:
    """The index, for compiled code."""
    raise NotImplementedError


def _within_flat(array: Any, index: Any, place: int) -> Any:
    """The same for an index of ``array.flat``, in the order of C."""
    raise NotImplementedError


# A plain function could not be typed for tuples and for arrays of indices, which pass through here too.
@overload(_within, jit_options=_OPTIONS)
def _within_of_types(array: Any, index: Any, dimension: Any, place: Any) -> Callable[..., Any]:
    if not (isinstance(array, types.Array) and isinstance(index, types.Integer)):
        return lambda array, index, dimension, place: index

    def check(array: Any, index: Any, dimension: Any, place: Any) -> Any:
        size = array.shape[dimension]
        if index >= size or index < -size:
            raise IndexError(place, index, dimension, size)
        return index

    return check


@overload(_within_flat, jit_options=_OPTIONS)
def _within_flat_of_types(array: Any, index: Any, place: Any) -> Callable[..., Any]:
    def check(array: Any, index: Any, place: Any) -> Any:
        if index >= array.size or index < 0:
            raise IndexError(place, index, -1, array.size)
        return index

    return check
