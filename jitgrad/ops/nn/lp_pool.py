"""Norms of windows."""

from __future__ import annotations

import functools
import math
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public
from jitgrad.ops.nn.avg_pool import avg_pool
from jitgrad.ops.nn.max_pool import max_pool

__all__: list[str] = []


def _lp_pool(dims: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    if isinstance(norm_type, (int, float)) and math.isinf(norm_type):
        sign = 1 if norm_type > 0 else -1
        return sign * max_pool(dims, sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)[0]
    out = avg_pool(input.pow(norm_type), dims, kernel_size, stride, 0, ceil_mode)
    width = math.prod(kernel_size) if isinstance(kernel_size, (tuple, list)) else kernel_size**dims
    return (out.sign() * out.abs().relu()).mul(width).pow(1.0 / norm_type)


@functools.partial(public, module="nn.functional")
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """sum(x ** p) ** (1 / p) of each window, p being ``norm_type``; the largest |x| where it is infinite."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@functools.partial(public, module="nn.functional")
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """``lp_pool1d`` over the last two dims."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@functools.partial(public, module="nn.functional")
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
              ceil_mode: bool = False) -> Tensor:  # fmt: skip
    """``lp_pool1d`` over the last three dims."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
