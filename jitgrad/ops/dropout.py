"""Dropout: a product with a random mask, as PyTorch composes it."""

from __future__ import annotations

from ..autograd.grad_mode import state as grad_state
from ..dtypes import TITLES
from ..random import default_generator
from ..storage import empty_for
from ..tensor import Tensor, wrap
from .copy import preserved
from .create import new
from .random_fill import DropoutMask
from .randomness import drawn_for
from .registry import FUNCTIONS, public

__all__ = ["dropout", "dropout_"]


def _mask(x: Tensor, p: float) -> Tensor:
    """0 with probability ``p``, else 1 / (1 - p)."""
    if p == 1:
        return FUNCTIONS["zeros"]((), dtype=x.dtype, device=x.device)
    if x.dtype.category < 2:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {TITLES[x.dtype.name]}")
    if grad_state.levels:  # row by row, as PyTorch's vmap does
        mask = drawn_for(new(x.dtype, x._layout.shape, x.device))
    else:
        layout = preserved(x._layout)
        mask = wrap(empty_for(layout), layout)
    return DropoutMask.into(mask, 1 - float(p), default_generator)


def _drops(p: float, train: bool, x: Tensor) -> bool:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    return train and p > 0 and x._layout.numel > 0


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``input`` with elements set to 0 with probability ``p`` and the rest divided by 1 - p.

    ``input`` itself unless ``train``. RuntimeError unless 0 <= p <= 1.
    """
    return input * _mask(input, p) if _drops(p, train, input) else input


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of ``dropout``."""
    return input.mul_(_mask(input, p)) if _drops(p, train, input) else input


public(dropout, method_too=False)
public(dropout_, method_too=False)
