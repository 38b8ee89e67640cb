"""make_tensor: random tensors of any dtype and shape."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.core import dtypes
from jitgrad.core.settings import finfo, iinfo
from jitgrad.core.tensor import Tensor
from jitgrad.ops.shape.complex_view import ViewAsReal

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any, dtype: Any, device: Any, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of uniform random values in [low, high).

    By default these are [0, 2) for bool, [0, 10) for unsigned, [-9, 10) for signed integers, [-9, 9) for floating
    point and for both parts of complex numbers; what is given is cut to what the dtype can hold.
    noncontiguous: every other element of a tensor twice as wide, if it has more than one. exclude_zero: zeros
    become 1, or the smallest normal number. ValueError for bounds that cross or are NaN, for ``requires_grad``
    with integers, and for ``noncontiguous`` together with ``memory_format``.
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and "
            f"{memory_format=}"
        )
    if requires_grad and dtype.category < 2:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}"
        )
    gaps = noncontiguous and math.prod(size) > 1
    result = _drawn((*size[:-1], 2 * size[-1]) if gaps else size, dtype, device, low, high)
    if gaps:  # every other element, from 1 on: an op that forgets strides or the offset reads other values
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if dtype.category < 2 else finfo(dtype).tiny
    return result.requires_grad_() if requires_grad else result


def _drawn(size: tuple[int, ...], dtype: Any, device: Any, low: Any, high: Any) -> Tensor:
    if dtype.category == 0:
        first, last = _bounds(low, high, dtype, (0, 2), (0, 2))
        return jitgrad.randint(first, last, size, device=device, dtype=dtype)
    if dtype.category == 1:
        info = iinfo(dtype)
        # randint excludes its upper bound, which for int64 could only be one more than the largest int64.
        most = info.max + (0 if dtype is dtypes.int64 else 1)
        first, last = _bounds(low, high, dtype, (info.min, most), (-9, 10))
        return jitgrad.randint(first, last, size, device=device, dtype=dtype)
    limits = finfo(dtype)
    first, last = _bounds(low, high, dtype, (limits.min, limits.max), (-9, 9))
    result = jitgrad.empty(size, device=device, dtype=dtype)
    parts = ViewAsReal.apply(result) if dtype.is_complex else result
    if last - first >= limits.max:  # the width overflows, and uniform_ refuses it: draw from half of it
        parts.uniform_(first / 2, last / 2).mul_(2)
    else:
        parts.uniform_(first, last)
    return result


def _bounds(low: Any, high: Any, dtype: Any, limits: tuple[Any, Any], default: tuple[int, int]) -> tuple[Any, Any]:
    """The interval to draw from, checked and cut to what the dtype can hold."""
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if any(isinstance(b, float) and math.isnan(b) for b in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and dtype.category >= 2:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning, stacklevel=4,
        )  # fmt: skip
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < limits[0] or low >= limits[1]:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{limits[0]}, {limits[1]})"
        )
    low, high = (min(max(b, limits[0]), limits[1]) for b in (low, high))
    return (math.ceil(low), math.ceil(high)) if dtype.category < 2 else (low, high)
