"""Loops on arrays of float16 and bfloat16: they run on copies in float32, and what they wrote is rounded back.

Numba has no arrays of these dtypes. Elementwise kernels convert each number as they read and store it (words/half.py);
a loop written by hand runs in its form for float32, so that sums are sums of float32 and are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["WidenedLoop", "has_halves", "is_half"]

_FLOAT32 = np.dtype("float32")


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether an array's dtype is float16 or bfloat16, which to NumPy is of the kind of things unknown."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def has_halves(args: Any) -> bool:
    """Whether there is an array of float16 or bfloat16 among a kernel's arguments."""
    return any(isinstance(a, np.ndarray) and is_half(a.dtype) for a in args)


class WidenedLoop:
    """What calls a loop with copies, in float32, of those arguments that are arrays of 16-bit floats."""

    def __init__(self, call: Callable[..., None], writes: Callable[[], tuple[int, ...]]):
        self.run, self.writes = call, writes

    def __call__(self, *args: Any) -> None:
        copies: dict[int, Any] = {}  # an array that is given twice is one
        for a in args:
            if isinstance(a, np.ndarray) and is_half(a.dtype) and id(a) not in copies:
                copies[id(a)] = a.astype(_FLOAT32)
        self.run(*[copies.get(id(a), a) for a in args])
        with np.errstate(over="ignore"):
            for k in self.writes():
                if id(args[k]) in copies:
                    args[k][...] = copies[id(args[k])]

    def typeof_pyval(self, value: Any) -> Any:
        """Of Numba's protocol: this is no compiled function, so a program calls it from Python."""
        raise NotImplementedError
