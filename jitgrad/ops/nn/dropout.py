"""Dropout: a product with a random mask, as PyTorch composes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_randomness import drawn_for
from jitgrad.dispatch.copying import preserved
from jitgrad.dispatch.registry import public
from jitgrad.ops.creation.constants import new, zeros
from jitgrad.ops.random.fill import DropoutMask
from jitgrad.random import default_generator

__all__ = [
    "alpha_dropout", "alpha_dropout_", "dropout", "dropout_", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_",
]  # fmt: skip


def _chance(x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """0 with probability ``p``, else 1 / (1 - p), in a shape that broadcasts to that of ``x``."""
    if x.dtype.category < 2:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {scalar_type(x.dtype)}")
    if shape != tuple(x.shape) or grad_state.levels:  # row by row, as PyTorch's vmap does
        mask = drawn_for(new(x.dtype, shape, x.device))
    else:
        layout = preserved(x._layout)
        mask = wrap(empty_for(layout), layout)
    return DropoutMask.inplace(mask, 1 - float(p), default_generator)


def _factor(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    return zeros((), dtype=x.dtype, device=x.device) if p == 1 else _chance(x, shape, p)


def _drops(p: float, train: bool, x: Tensor) -> bool:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return train and p > 0 and x._layout.numel > 0


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``input`` with elements set to 0 with probability ``p`` and the rest divided by 1 - p.

    ``input`` itself unless ``train``. RuntimeError unless 0 <= p <= 1.
    """
    return input * _factor(input, p, tuple(input.shape)) if _drops(p, train, input) else input


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of ``dropout``."""
    return input.mul_(_factor(input, p, tuple(input.shape))) if _drops(p, train, input) else input


public(dropout, method_too=False)
public(dropout_, method_too=False)


# -- whole channels, and towards the saturation of SELU -----------------------------------------------

Dropout = Callable[[Tensor, float, bool], Tensor]
_SATURATION = 1.7580993408473766  # what SELU tends to, without its sign


def _channels(x: Tensor) -> tuple[int, ...]:
    if x.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*x.shape[:2], *[1] * (x.ndim - 2))


def _saturated(x: Tensor, p: float, shape: tuple[int, ...]) -> tuple[Tensor, Any]:
    """What ``alpha_dropout`` multiplies with and what it adds, so that mean and variance stay."""
    if p == 1:
        return _factor(x, p, shape), None
    kept = _chance(x, shape, p) * (1 - p)
    a = 1 / math.sqrt((_SATURATION**2 * p + 1) * (1 - p))
    return kept * a, (kept - 1) * (_SATURATION * a) + _SATURATION * a * p


def _declare(name: str, alpha: bool, feature: bool) -> tuple[Dropout, Dropout]:
    """Publish a kind of dropout and its in-place form; return both."""
    what = "channels (dim 1 of each sample)" if feature else "elements"
    how = (
        "brought to SELU's negative saturation, then all scaled and shifted to keep mean and variance" if alpha else
        "set to 0 and the rest divided by 1 - p"
    )  # fmt: skip

    def parts(x: Tensor, p: float, train: bool) -> tuple[Any, Any]:
        if not _drops(p, train, x):
            return None, None
        shape = _channels(x) if feature and p < 1 else tuple(x.shape)
        return _saturated(x, p, shape) if alpha else (_factor(x, p, shape), None)

    def drop(input: Tensor, p: float, train: bool) -> Tensor:
        factor, added = parts(input, p, train)
        out = input if factor is None else input * factor
        return out if added is None else out + added

    def drop_(input: Tensor, p: float, train: bool) -> Tensor:
        factor, added = parts(input, p, train)
        out = input if factor is None else input.mul_(factor)
        return out if added is None else out.add_(added)

    drop.__doc__ = (
        f"``input`` with {what} that are, with probability ``p``, {how}.\n\n    ``input`` itself unless ``train``. "
        "RuntimeError unless 0 <= p <= 1.\n    "
    )
    drop_.__doc__ = f"In-place version of ``{name}``."
    for function, title in ((drop, name), (drop_, f"{name}_")):
        function.__name__ = function.__qualname__ = title
        public(function, method_too=False)
    return drop, drop_


alpha_dropout, alpha_dropout_ = _declare("alpha_dropout", alpha=True, feature=False)
feature_dropout, feature_dropout_ = _declare("feature_dropout", alpha=False, feature=True)
feature_alpha_dropout, feature_alpha_dropout_ = _declare("feature_alpha_dropout", alpha=True, feature=True)
