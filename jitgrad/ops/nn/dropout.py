"""Dropout: a product with a random mask, as PyTorch composes it."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.core.errors import not_implemented_for, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_randomness import batch_for_draw
from jitgrad.dispatch.copying import preserved_layout
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.ops.creation.constants import new, zeros
from jitgrad.ops.random.random_fills import DropoutMask
from jitgrad.random import default_generator

__all__ = [
    "alpha_dropout", "alpha_dropout_", "dropout", "dropout_", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_",
]  # fmt: skip


def _mask(x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """0 with probability ``p``, else 1 / (1 - p), in a shape that broadcasts to that of ``x``."""
    if x.dtype.category < 2:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {scalar_type(x.dtype)}")
    if x.dtype.is_complex:
        raise not_implemented_for("bernoulli_scalar_cpu_", x.dtype)
    if shape != tuple(x.shape) or grad_state.levels:  # in row-major order, as PyTorch under vmap
        mask = batch_for_draw(new(x.dtype, shape, x.device))
    else:
        layout = preserved_layout(x._layout)
        mask = wrap(empty_for(layout), layout)
    return DropoutMask.inplace(mask, 1 - float(p), default_generator)


def _factor(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """What a dropout multiplies with; for p = 1, of which 1 / (1 - p) is infinite, a zero."""
    return zeros((), dtype=x.dtype, device=x.device) if p == 1 else _mask(x, shape, p)


def _drops(p: float, train: bool, x: Tensor) -> bool:
    """Whether anything is to be drawn. RuntimeError unless 0 <= p <= 1."""
    if p.__class__ is not float:
        p = float_argument("dropout", "p", 2, p)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return x._layout.numel > 0 and as_flag(train) and p > 0


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``input`` with elements set to 0 with probability ``p`` and the rest divided by 1 - p.

    ``input`` itself unless ``train``. RuntimeError unless 0 <= p <= 1.
    """
    return input * _factor(input, p, tuple(input.shape)) if _drops(p, train, input) else input


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of ``dropout``."""
    return input.mul_(_factor(input, p, tuple(input.shape))) if _drops(p, train, input) else input


# -- whole channels, and towards the saturation of SELU -----------------------------------------------

_SATURATION = 1.7580993408473766  # scale * alpha of SELU, which tends to minus this


def _channels(x: Tensor) -> tuple[int, ...]:
    """The shape (n, channels, 1, ...) of one value a channel."""
    if x.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*x.shape[:2], *[1] * (x.ndim - 2))


def _alpha_terms(x: Tensor, p: float, shape: tuple[int, ...]) -> tuple[Tensor, Any]:
    """What ``alpha_dropout`` multiplies with and what it adds, None for nothing.

    Dropped elements become SELU's negative saturation -s. Then a * x + b, with a = 1 / sqrt((1 - p) (1 + p s**2)) and
    b = a p s, brings what had mean 0 and variance 1 back to these (Klambauer et al., Self-Normalizing Neural
    Networks, 2017).
    """
    if p == 1:
        return _factor(x, p, shape), None
    kept = _mask(x, shape, p) * (1 - p)
    a = 1 / math.sqrt((_SATURATION**2 * p + 1) * (1 - p))
    return kept * a, (kept - 1) * (_SATURATION * a) + _SATURATION * a * p


def _alpha_dropped(x: Tensor, p: float, train: bool, feature: bool, inplace: bool) -> Tensor:
    if not _drops(p, train, x):
        return x
    factor, added = _alpha_terms(x, p, _channels(x) if feature and p < 1 else tuple(x.shape))
    out = x.mul_(factor) if inplace else x * factor
    if added is None:
        return out
    return out.add_(added) if inplace else out + added


def _feature_factor(x: Tensor, p: float) -> Tensor:
    return _factor(x, p, _channels(x) if p < 1 else tuple(x.shape))


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``input`` with elements that are, with probability ``p``, brought to SELU's negative saturation.

    Then all are scaled and shifted to keep mean and variance.
    ``input`` itself unless ``train``. RuntimeError unless 0 <= p <= 1.
    """
    return _alpha_dropped(input, p, train, feature=False, inplace=False)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of ``alpha_dropout``."""
    return _alpha_dropped(input, p, train, feature=False, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``input`` with channels (dim 1 of each sample) that are, with probability ``p``, set to 0.

    The rest is divided by 1 - p. ``input`` itself unless ``train``. RuntimeError unless 0 <= p <= 1.
    """
    return input * _feature_factor(input, p) if _drops(p, train, input) else input


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of ``feature_dropout``."""
    return input.mul_(_feature_factor(input, p)) if _drops(p, train, input) else input


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``input`` with channels (dim 1 of each sample) that are, with probability ``p``, brought to SELU's saturation.

    Then all are scaled and shifted to keep mean and variance.
    ``input`` itself unless ``train``. RuntimeError unless 0 <= p <= 1.
    """
    return _alpha_dropped(input, p, train, feature=True, inplace=False)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of ``feature_alpha_dropout``."""
    return _alpha_dropped(input, p, train, feature=True, inplace=True)


for _function in (
    dropout, dropout_, alpha_dropout, alpha_dropout_, feature_dropout, feature_dropout_, feature_alpha_dropout,
    feature_alpha_dropout_,
):  # fmt: skip
    public(_function, method_too=False)
