"""The step of an optimiser as recorded ops, for ``differentiable=True``: what it computes has gradients.

The formulas are those of the loops. A loop's function is run on arrays of one element that is a whole tensor, by ops in
the place of its words.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import enable_grad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.launch import Loop

__all__ = ["update_recorded"]


class _Whole:
    """A tensor as a loop's array: its one element is the tensor. ``store`` writes what the loop left."""

    size = 1

    def __init__(self, target: Tensor, count: bool = False):
        self.target, self.count, self.written = target, count, False
        # A copy: what the loop saves for the backward may not be written over in the end.
        self.now = target.item() if count else target.clone()

    def __getitem__(self, k: int) -> Any:
        return self.now

    def __setitem__(self, k: int, value: Any) -> None:
        # Rounded as in the array; a copy, since a loop may go on to change what it stored: += is in place.
        self.now, self.written = value if self.count else _in(self.target.dtype, value, copy=True), True

    def store(self) -> None:
        """Write in place what has changed."""
        if self.written:
            self.target.fill_(self.now) if self.count else self.target.copy_(self.now)


def _as_tensors(function: Callable[..., Tensor], plain: Callable[..., Any]) -> Callable[..., Any]:
    """A word on tensors and numbers."""

    def call(*values: Any) -> Any:
        tensors = [v for v in values if isinstance(v, Tensor)]
        if not tensors:
            return plain(*values)
        like = next((t for t in tensors if t.dtype is not jitgrad.bool), tensors[0])
        return function(*[v if isinstance(v, Tensor) else jitgrad.tensor(v, dtype=like.dtype) for v in values])

    return call


def _in(dtype: Any, value: Any, copy: bool = False) -> Any:
    """``T(value)`` and ``np.float64(value)`` of a loop."""
    if isinstance(value, Tensor):
        return value.to(dtype, copy=copy)
    exact = not copy and dtype is jitgrad.float64 and type(value) is float
    return value if exact else jitgrad.tensor(value, dtype=dtype)


# What loops name besides their types, for tensors.
_WORDS = {
    "where": _as_tensors(jitgrad.where, lambda condition, a, b: a if condition else b),
    "maximum": _as_tensors(jitgrad.maximum, max),
    "minimum": _as_tensors(jitgrad.minimum, min),
}
_SQRT = _as_tensors(jitgrad.sqrt, math.sqrt)


@functools.cache
def _on_tensors(function: types.FunctionType, dtype: Any) -> types.FunctionType:
    """A loop's function, or one that it calls, for parameters of a dtype, by ops in the place of what it names."""
    numpy = types.SimpleNamespace(float64=functools.partial(_in, jitgrad.float64), sqrt=_SQRT)
    names = {**function.__globals__, **_WORDS, "T": functools.partial(_in, dtype), "np": numpy}
    for name in function.__code__.co_names:
        named = names.get(name)
        if isinstance(named, types.FunctionType) and named.__module__ == function.__module__:
            names[name] = _on_tensors(named, dtype)
    return types.FunctionType(function.__code__, names)


def update_recorded(loop: Loop, columns: Sequence[list[Tensor]], numbers: Sequence[Any]) -> None:
    """What ``update`` of ``fused_step.py`` does, by recorded ops; the numbers may be tensors that require gradients.

    RuntimeError for parameters that are leaves requiring gradients, which can't be written to in place.
    """
    names = loop.source.parameters
    with enable_grad():
        for row in zip(*columns, strict=True):
            real = [jitgrad.view_as_real(t) if t.is_complex() else t for t in row]
            run: Any = _on_tensors(loop.source.function, real[0].dtype)
            arrays = [_Whole(t, names[k] == "step") for k, t in enumerate(real)]
            run(*arrays, *[n.reshape(()) if isinstance(n, Tensor) else n for n in numbers])
            for array in arrays:
                array.store()
