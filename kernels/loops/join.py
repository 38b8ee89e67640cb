"""Arrays put side by side in one, by NumPy: it takes a fifth of a compiled launch for each small array."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.lazy_array import LazyArray, Unresolved

__all__ = ["concatenate", "put_each"]


def _concatenate(out: Any, dim: int, *parts: Any) -> None:
    """The parts, all of one dtype, one after another along ``dim``."""
    np.concatenate(parts, dim, out)


def _put_each(out: Any, places: tuple[Any, ...], *parts: Any) -> None:
    """out[place] = part for each of the places and parts, all of one dtype."""
    try:
        for place, part in zip(places, parts, strict=True):
            out[place] = part
    except (TypeError, ValueError):  # NumPy wants a number where the place is one element, before it asks the array
        if LazyArray in map(type, parts):
            raise Unresolved from None
        raise


concatenate = Kernel("concatenate", _concatenate, (0,))
put_each = Kernel("put_each", _put_each, (0,))
