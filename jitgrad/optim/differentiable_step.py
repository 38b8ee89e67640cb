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
        self.target, self.count = target, count
        # A copy: what the loop saves for the backward may not be written over in the end.
        self.start = self.now = target.item() if count else target.clone()

    def __getitem__(self, k: int) -> Any:
        return self.now

    def __setitem__(self, k: int, value: Any) -> None:
        self.now = value

    def store(self) -> None:
        """Write in place what has changed."""
        if self.now is not self.start:
            value = self.now if isinstance(self.now, Tensor) else jitgrad.tensor(self.now, dtype=self.target.dtype)
            self.target.copy_(value)


def _as_tensors(function: Callable[..., Tensor], plain: Callable[..., Any]) -> Callable[..., Any]:
    """A word on tensors and numbers."""

    def call(*values: Any) -> Any:
        tensors = [v for v in values if isinstance(v, Tensor)]
        if not tensors:
            return plain(*values)
        like = next((t for t in tensors if t.dtype is not jitgrad.bool), tensors[0])
        return function(*[v if isinstance(v, Tensor) else jitgrad.tensor(v, dtype=like.dtype) for v in values])

    return call


def _same(value: Any) -> Any:
    return value


# What loops name, for tensors. Their types don't matter: tensors have theirs, and numbers are Python's.
_WORDS = {
    "T": _same,
    "np": types.SimpleNamespace(float64=_same, sqrt=_as_tensors(jitgrad.sqrt, math.sqrt)),
    "where": _as_tensors(jitgrad.where, lambda condition, a, b: a if condition else b),
    "maximum": _as_tensors(jitgrad.maximum, max),
    "minimum": _as_tensors(jitgrad.minimum, min),
}


@functools.cache
def _on_tensors(function: types.FunctionType) -> types.FunctionType:
    """A loop's function, or one that it calls, with ``_WORDS`` in the place of what it names."""
    names = {**function.__globals__, **_WORDS}
    for name in function.__code__.co_names:
        named = names.get(name)
        if isinstance(named, types.FunctionType) and named.__module__ == function.__module__:
            names[name] = _on_tensors(named)
    return types.FunctionType(function.__code__, names)


def update_recorded(loop: Loop, columns: Sequence[list[Tensor]], numbers: Sequence[Any]) -> None:
    """What ``update`` of ``fused_step.py`` does, by recorded ops; the numbers may be tensors that require gradients.

    RuntimeError for parameters that are leaves requiring gradients, which can't be written to in place.
    """
    run = _on_tensors(loop.source.function)  # type: ignore[arg-type]
    names = loop.source.parameters
    with enable_grad():
        for row in zip(*columns, strict=True):
            real = [jitgrad.view_as_real(t) if t.is_complex() else t for t in row]
            arrays = [_Whole(t, names[k] == "step") for k, t in enumerate(real)]
            run(*arrays, *[n.reshape(()) if isinstance(n, Tensor) else n for n in numbers])
            for array in arrays:
                array.store()
