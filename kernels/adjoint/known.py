"""The functions that are written out by what they are, and not from their text."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from jitgrad.kernels.adjoint.operations import TABLE

__all__ = ["DOTS", "FILLS", "OVER", "is_known"]

# What makes an array with which fill: None for none, an Ellipsis for the one that is given.
FILLS: dict[Callable[..., Any], Any] = {
    np.zeros: 0, np.ones: 1, np.empty: None, np.full: ...,
    np.zeros_like: 0, np.ones_like: 1, np.empty_like: None, np.full_like: ...,
}  # fmt: skip
OVER = {
    np.sum: "sum", np.prod: "prod", np.max: "max", np.min: "min", np.amax: "max", np.amin: "min", np.any: "any",
    np.all: "all", np.mean: "mean", np.var: "var", np.std: "std", np.argmax: "argmax", np.argmin: "argmin",
}  # fmt: skip
DOTS = (np.dot, np.vdot, np.inner, np.matmul)
_ERRORS = {e for e in vars(builtins).values() if isinstance(e, type) and issubclass(e, Exception)}
_KNOWN = {
    *TABLE, *FILLS, *OVER, *DOTS, *_ERRORS,
    np.copy, np.ascontiguousarray, np.asarray, np.array, np.eye, np.identity, np.arange, np.linspace, np.transpose,
    np.outer, np.linalg.norm, np.trace, np.diff, np.flip, np.cumsum, np.concatenate, np.copyto,
    range, numba.prange, len, enumerate, zip, reversed, max, min, sum,
}  # fmt: skip


def is_known(function: Any) -> bool:
    """Whether calls of a function are written out by what it is."""
    try:
        return function in _KNOWN
    except TypeError:  # not hashable
        return False
