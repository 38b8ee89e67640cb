"""Reductions to yes or no: any, all, and whether tensors are equal or close."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.errors import scalar_type
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import is_batch
from jitgrad.dispatch.half_ops import widened_now
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, planned
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag, dims_argument, float_argument
from jitgrad.kernels.launch import prepared
from jitgrad.kernels.loops import extrema as kernels
from jitgrad.kernels.loops import masks
from jitgrad.ops.creation.conversion import item
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.reduction.along_dims import Reduction
from jitgrad.ops.reduction.reduction_plan import ReductionPlan, plan_reduction, unrecorded
from jitgrad.ops.reduction.sums import Sum

__all__: list[str] = []


class Truth(Reduction):
    """Whether any element over ``dim``, or every one, is not zero."""

    samples = cases(lambda: (draw(2, 3), 1, False, False), lambda: (draw(2, 3), None, True, True))
    reference = lambda x, dim, keepdim, every: (np.all if every else np.any)(x, dim, keepdims=keepdim)

    def plan(x_layout, dim, keepdim, every):
        # Over no dims each element is its own result; other reductions take () for all dims.
        plan = ReductionPlan(x_layout, (), keepdim) if dim == () else plan_reduction(x_layout, dim, keepdim)
        # PyTorch's bytes once were its bools: for them the result is a byte still.
        dtype = np.dtype(np.uint8 if x_layout.numpy_dtype == np.uint8 else np.bool_)
        return plan.launches((kernels.any_rows, kernels.any_columns), dtype, every)


def _truth(input: Tensor, dim: Any, keepdim: Any, every: bool) -> Tensor:
    if dim is not None and type(dim) is not int:  # True would find the plan of 1
        dim = dims_argument(dim)
    if keepdim is not False and keepdim is not True:
        keepdim = as_flag(keepdim)
    return Truth.apply(input, dim, keepdim, every)


@public
@numpy_names
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element over ``dim`` (all dims by default) is not zero; NaN is not zero."""
    return _truth(input, dim, keepdim, False)


@public
@numpy_names
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether every element over ``dim`` (all dims by default) is not zero; True where there is none."""
    return _truth(input, dim, keepdim, True)


@public
@numpy_names
def count_nonzero(input: Tensor, dim: Any = None, *more: int) -> Tensor:
    """How many elements over ``dim`` (all dims by default) and ``more`` are not zero, as int64."""
    if dim is None and not more and input._level is None:
        return _count(input)
    nonzero = table.ne(input if input._level is None else unrecorded(input), 0)
    return nonzero.sum((dim, *more) if more else dim)


@planned("x")
def _count(x):
    if not x.contiguous or x.device != "cpu" or x.dtype.is_half or x.numel > _SHORT:
        return lambda x: Sum.apply(table.ne(x, 0), None)
    counting = masks.count_true, Read("x", (x.numel,)), Written(0, (1,))
    return Launches([counting], [intern(np.dtype(np.int64), (), None, "cpu")])


@public
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:  # fmt: skip
    """Element by element: |input - other| <= atol + rtol * |other|, or equal.

    RuntimeError where dtypes differ or a tolerance is negative.
    """
    a, b = input._layout.dtype, other._layout.dtype
    if a is not b:
        raise RuntimeError(f"{scalar_type(a)} did not match {scalar_type(b)}")
    for position, name, value in ((3, "rtol", rtol), (4, "atol", atol)):
        if not float_argument("isclose", name, position, value) >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
    x, y = unrecorded(input), unrecorded(other)
    close: Any = x == y
    if as_flag(equal_nan) and a.category >= 2:
        close = close | (x.isnan() & y.isnan())
    if rtol == 0 and atol == 0:
        return close
    if a.category < 2:
        # Differences of integers might wrap around.
        default = tensor(0.0).dtype
        x, y = x.to(default), y.to(default)
    # Infinite gaps are never close; equal infinities, whose gap is NaN, were found by ==.
    gap = (x - y).abs()
    return close | (gap.isfinite() & (gap <= y.abs() * rtol + atol))


@public
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:  # fmt: skip
    """Whether all elements are close; see ``isclose``."""
    if is_batch(input, other):
        raise RuntimeError(
            "vmap over torch.allclose isn't supported yet. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    return bool(all(isclose(input, other, rtol, atol, equal_nan)).item())


@public
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and equal elements; NaN equals nothing."""
    if is_batch(input, other):
        raise RuntimeError("Batching rule not implemented for aten::equal. We could not generate a fallback.")
    if read_observers and input._layout.shape == other._layout.shape:
        announce_read("equal()")
    return _equal(input, other)


@planned("x", "y")
def _equal(x, y):
    if x.shape != y.shape:
        return lambda x, y: False
    n = x.numel
    whole = _equal_by_bools
    if x is not y or not x.contiguous or x.device != "cpu" or not n:
        return whole
    if x.dtype.is_half:
        return (lambda x, y: _equal(widened_now(x), widened_now(y))) if n <= _SHORT else whole
    first = min(n, _SHORT)  # of long ones the first elements most often differ
    run = prepared(kernels.all_equal, x.numpy_dtype, (first,), (first,), (1,), flat=2)

    def equal(x: Tensor, y: Tensor) -> bool:
        found = np.empty(1, np.bool_)
        run(x._data, y._data, found)
        return found.item(0)

    def equal_long(x: Tensor, y: Tensor) -> bool:
        found = np.empty(1, np.bool_)
        run(x._data.reshape(n)[:first], y._data.reshape(n)[:first], found)
        return found.item(0) and whole(x, y)

    return equal if first == n else equal_long


def _equal_by_bools(x: Tensor, y: Tensor) -> bool:
    return bool(item(Truth.apply(table.eq(unrecorded(x), unrecorded(y)), None, False, True)))


_SHORT = 1 << 15  # elements up to which two threads, which come with a tensor of bools, are no quicker
