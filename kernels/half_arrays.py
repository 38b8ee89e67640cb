"""Loops on arrays of float16 and bfloat16: they run on copies in float32, and what they wrote is rounded back.

Numba has no arrays of these dtypes. Elementwise kernels convert each number as they read and store it (words/half.py);
a loop written by hand runs in its form for float32, so that sums are sums of float32 and are rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.kernels.compiler import compile_text

__all__ = ["WidenedLoop", "has_halves", "is_half"]

_FLOAT32, _BITS = np.dtype("float32"), np.dtype("uint16")


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether an array's dtype is float16 or bfloat16, which to NumPy is of the kind of things unknown."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def has_halves(args: Any) -> bool:
    """Whether there is an array of float16 or bfloat16 among a kernel's arguments."""
    return any(isinstance(a, np.ndarray) and is_half(a.dtype) for a in args)


_NAMES = {"f": "float16", "V": "bfloat16"}  # by NumPy's kind, which is had sooner than a dtype's name
_TEXT = """\
def {verb}_{name}(values, out):
    for i in range(out.size):
        out[i] = {word}_{name}(values[i])
"""


@functools.cache
def _conversion(verb: str, name: str) -> Callable[[Any, Any], None]:
    """The loop ``widen(bits, out)`` or ``round(values, bits)`` of a dtype; NumPy's takes ten times as long."""
    text = _TEXT.format(verb=verb, name=name, word={"widen": "from", "round": "to"}[verb])
    return compile_text(f"{verb}_{name}", text, allocates=False)


def _widened(array: Any) -> Any:
    if not array.flags.c_contiguous:
        return array.astype(_FLOAT32)
    out = np.empty(array.shape, _FLOAT32)
    _conversion("widen", _NAMES[array.dtype.kind])(array.view(_BITS).ravel(), out.ravel())
    return out


def _store(array: Any, values: Any) -> None:
    """Write float32 values, in an array of the same shape, rounded into one of 16-bit floats."""
    if array.flags.c_contiguous:
        _conversion("round", _NAMES[array.dtype.kind])(values.ravel(), array.view(_BITS).ravel())
        return
    with np.errstate(over="ignore"):
        array[...] = values


class WidenedLoop:
    """What calls a loop with copies, in float32, of those arguments that are arrays of 16-bit floats."""

    def __init__(self, call: Callable[..., None], writes: Callable[[], tuple[int, ...]]):
        self.run, self.writes = call, writes

    def __call__(self, *args: Any) -> None:
        copies: dict[int, Any] = {}  # an array that is given twice is one
        for a in args:
            if isinstance(a, np.ndarray) and is_half(a.dtype) and id(a) not in copies:
                copies[id(a)] = _widened(a)
        self.run(*[copies.get(id(a), a) for a in args])
        for k in self.writes():
            if id(args[k]) in copies:
                _store(args[k], copies[id(args[k])])

    def overload(self, kinds: Any) -> Any:
        """As of a `CompiledFunction`: this is none, so a program calls it from Python."""
        raise NotImplementedError
