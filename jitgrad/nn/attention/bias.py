"""Masks of attention that hide later keys, as tensors that know which diagonal they begin at."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor, wrap

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner of a mask that is not square the diagonal goes through."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """The mask (seq_len_q, seq_len_kv) that is True where a query sees a key, for ``scaled_dot_product_attention``.

    PyTorch's holds no mask, and looks for a kernel that needs none; here it is a mask like any other.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        lower = variant is CausalVariant.LOWER_RIGHT
        if lower and seq_len_q > seq_len_kv:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=3
            )
        every = jitgrad.ones(seq_len_q, seq_len_kv, dtype=jitgrad.bool)
        self: Any = every.tril(seq_len_kv - seq_len_q if lower else 0)
        self.__class__ = cls
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        return self

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int):
        """Nothing is left to do: ``__new__`` makes every tensor."""

    def __repr__(self) -> str:
        return repr(self._materialize())

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a plain tensor."""
        return wrap(self._data, self._layout).to(device or "cpu")


def _sizes(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return size


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of ``size`` (queries, keys) by which query i sees the keys up to the i-th."""
    return CausalBias(CausalVariant.UPPER_LEFT, *_sizes("causal_upper_left", size))


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of ``size`` (queries, keys) by which the last query sees all keys, the one before all but one, ..."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *_sizes("causal_lower_right", size))
