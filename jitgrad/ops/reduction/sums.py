"""Sums and means over dims."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import invalid_combination, must_be_tensor, not_implemented_for, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.tensor import Tensor, method, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag, dims_argument
from jitgrad.kernels.launch import Loop, launch
from jitgrad.kernels.loops import reduction as kernels
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.reduction.along_dims import Reduction, ReductionOfAll, over_axes
from jitgrad.ops.reduction.reduction_plan import FULL, ReductionPlan, expand_reduced, plan_reduction, unrecorded
from jitgrad.ops.reduction.rows_apart import sums_apart
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.view import relaying

__all__ = ["MeanDim", "SumDim", "accumulated", "mean_values", "sum_values", "sums"]

def _kernels(plan: ReductionPlan) -> tuple[Loop, Loop]:
    long = plan.n >= kernels.LONG_ROW and plan.device == "cpu"
    return kernels.sum_long_rows if long else kernels.sum_rows, kernels.sum_columns


def accumulated(x: Tensor, dtype: dtypes.dtype | None) -> dtypes.dtype:
    """The dtype of a sum: that asked for; int64 for bools and integers; else the tensor's own."""
    source = x._layout.dtype
    if dtype is None:
        return dtypes.int64 if source.category < 2 else source
    # An integer result is never part of the graph: PyTorch refuses rather than drop the gradient silently.
    if dtype.category < 2 and x._requires_grad and grad_state.enabled:
        raise RuntimeError(f"Autograd not support dtype: {scalar_type(dtype)}")
    return dtype


def sum_values(x: Tensor, plan: ReductionPlan, dtype: dtypes.dtype | None) -> Tensor:
    """The sums of ``x`` outside the graph."""
    dtype = accumulated(x, dtype)
    # Elements are cast, then added. The kernel does it where integers become wider ones: others could be other numbers.
    if dtype is not x._layout.dtype and (dtype.category != 1 or x._layout.dtype.category >= 2):
        x = unrecorded(x, dtype)
    return plan.reduce(_kernels(plan), x, dtype.numpy)


def plan_sums(x: Layout, dim: Any, keepdim: bool = False, dtype: dtypes.dtype | None = None) -> Any:
    """The plan of the sums of a tensor over ``dim``."""
    plan = plan_reduction(x, dim, keepdim)
    # Most sums: floating point in their own dtype, integers in int64. All else has a dtype to be found first.
    if dtype is None:
        result = x.numpy_dtype if x.dtype.category >= 2 else dtypes.int64.numpy
        return sums_apart(x, plan, result) or plan.launches(_kernels(plan), result)
    return lambda x, *_: sum_values(x, plan, dtype)


sums = planned("x")(plan_sums)  # the sums of ``x`` over ``dim``, outside the graph


def mean_values(x: Tensor, plan: ReductionPlan, dtype: dtypes.dtype | None) -> Tensor:
    """The means of ``x`` outside the graph."""
    known = dtype or x._layout.dtype
    if known.category < 2:
        which = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            "mean(): could not infer output dtype. "
            f"{which} dtype must be either a floating point or complex dtype. Got: {scalar_type(known)}"
        )
    out = sum_values(x, plan, dtype)
    # In place on the sums, which nobody else has; 0 / 0 is the NaN of an empty mean. Complex ones are divided part by
    # part, which is exact and leaves 0 / 0 to floats: Numba's complex division raises ZeroDivisionError.
    data = out._data.reshape(-1)
    launch(kernels.divide, data.view(known.to_real().numpy) if known.is_complex else data, plan.n)
    return out


def plan_means(x: Layout, dim: Any, keepdim: bool = False, dtype: dtypes.dtype | None = None) -> Any:
    """The plan of the means of a tensor over ``dim``."""
    plan = plan_reduction(x, dim, keepdim)
    if dtype is not None or not x.dtype.is_floating_point:
        return lambda x, *_: mean_values(x, plan, dtype)
    summed = sums_apart(x, plan, x.numpy_dtype) or plan.launches(_kernels(plan), x.numpy_dtype)
    if not isinstance(summed, Launches):
        return lambda x, *_: mean_values(x, plan, dtype)
    size = (summed.layouts[0].numel,)
    return summed._replace(launches=[*summed.launches, (kernels.divide, Written(0, size), plan.n)])


# Up to so many elements the gradient of a mean is one launch; a view and a division of it take longer.
_SPREAD = 1 << 13


def _spread(g: Layout, x_layout: Layout, dim: Any, keepdim: bool) -> Any:
    """The plan of the gradient of a mean; None where the rule does."""
    both = g.dtype.is_floating_point and x_layout.dtype.is_floating_point
    if not both or not 0 < x_layout.numel <= _SPREAD or g.device != "cpu":
        return None
    out = intern(x_layout.numpy_dtype, x_layout.shape)
    plan = plan_reduction(out, dim, keepdim)
    if not plan.natural:
        return None
    arrays = row_major("g", g, plan.blocks[::2]), Written(0, plan.blocks)
    return Launches([(kernels.spread, *arrays, plan.n)], [out])


def _expanding(g: Layout, x_layout: Layout, dim: Any, keepdim: bool) -> Any:
    """The plan of the gradient of a sum: the view that the rule makes in two steps, in one."""
    if g.device != "cpu" or g.dtype is not x_layout.dtype or not g.contiguous:
        return None
    example = expand_reduced(wrap(np.empty(g.shape, g.numpy_dtype), g), x_layout, dim, keepdim)
    return relaying(g, example._layout.shape, example._layout.strides)


@method
def _summed_like(self: Tensor, layout: Layout) -> Tensor:
    """The sums over the dims along which a tensor of ``layout`` was repeated to this shape, outside the graph."""
    found = _repeated.get((self._layout, layout))
    if found is None:
        found = _repeated[self._layout, layout] = _dims_repeated(self._layout, layout)
    dims, of_sums = found
    total: Tensor = sums(self, dims, True, None)
    return total if of_sums is None else wrap(total._data.reshape(of_sums.shape), of_sums)


_repeated: dict[Any, tuple[tuple[int, ...], Layout | None]] = cache()


def _dims_repeated(wide: Layout, narrow: Layout) -> tuple[tuple[int, ...], Layout | None]:
    """The dims of ``wide`` along which ``narrow`` is repeated; the layout of sums over them if that has fewer dims."""
    lead = wide.ndim - narrow.ndim
    dims = tuple([d for d, n in enumerate(wide.shape) if d < lead or narrow.shape[d - lead] == 1 != n])
    return dims, intern(wide.numpy_dtype, narrow.shape, None, wide.device) if lead else None


class SumDim(Reduction):
    """Sum over dims."""

    linear = ("x",)
    grad_name, expands = "SumBackward1", True
    reference = over_axes(np.sum)

    def plan(x_layout, dim, keepdim=False, dtype=None):
        return plan_sums(x_layout, dim, keepdim, dtype)

    def grad_x(g, x_layout, dim, keepdim):
        return cast(expand_reduced(g, x_layout, dim, keepdim), x_layout.dtype)

    @planned("g")
    def kernel_x(g, x_layout, dim, keepdim):
        view = _expanding(g, x_layout, dim, keepdim)
        return SumDim.grad_x if view is None else lambda g, *_: view(g)


class Sum(ReductionOfAll, along=SumDim):
    """Sum of all elements."""

    name, expands = "sum_all", True

    def plan(x_layout, dtype=None):
        return plan_sums(x_layout, None, False, dtype)


class MeanDim(Reduction):
    """Mean over dims."""

    linear = ("x",)
    grad_name = "MeanBackward1"
    reference = over_axes(np.mean)


    def plan(x_layout, dim, keepdim=False, dtype=None):
        return plan_means(x_layout, dim, keepdim, dtype)

    def grad_x(g, x_layout, dim, keepdim):
        n = plan_reduction(x_layout, dim, keepdim).n
        return cast(expand_reduced(g, x_layout, dim, keepdim) / n, x_layout.dtype)

    @planned("g")
    def kernel_x(g, x_layout, dim, keepdim):
        return _spread(g, x_layout, dim, keepdim) or MeanDim.grad_x


class Mean(ReductionOfAll, along=MeanDim):
    """Mean of all elements."""

    name = "mean_all"

    def plan(x_layout, dtype=None):
        return plan_means(x_layout, None, False, dtype)


def _dims(op: str, dim: Any) -> int | tuple[int, ...] | None:
    """``dim`` of sum and mean: an int, several, or None; TypeError in PyTorch's words."""
    try:
        return dims_argument(dim)
    except TypeError:
        # sum(keepdim=True) without a dim is no form of PyTorch's.
        raise invalid_combination(op, (dim,)) from None


@public
@numpy_names
def sum(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim``: an int, several, or None for all dims.

    Bools and integers are summed as int64 unless ``dtype`` says otherwise. float32 is summed in
    blocks whose totals are float64. IndexError for a dim out of range.
    """
    if not isinstance(input, Tensor):
        raise must_be_tensor("sum", "input", 1, input)
    if dtype is not None:
        dtype = as_dtype("sum", dtype)
    if dim is FULL and not keepdim:
        return Sum.apply(input, dtype)
    if type(dim) is not int:
        dim = _dims("sum", dim)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return SumDim.apply(input, dim, keepdim, dtype)


@public
@numpy_names
def mean(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim``: an int, several, or None for all dims; NaN where there is nothing.

    RuntimeError for bools and integers unless a floating ``dtype`` is given.
    """
    if not isinstance(input, Tensor):
        raise must_be_tensor("mean", "input", 1, input)
    if dtype is not None:
        dtype = as_dtype("mean", dtype)
    if dim is FULL and not keepdim:
        return Mean.apply(input, dtype)
    if type(dim) is not int:
        dim = _dims("mean", dim)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return MeanDim.apply(input, dim, keepdim, dtype)


@planned("x")
def _nansums(x, dim, keepdim):
    first, merged = (kernels.nansum_rows, kernels.nansum_columns), (kernels.sum_rows, kernels.sum_columns)
    # Chunks' sums are NaN only where infinities have met.
    return plan_reduction(x, dim, keepdim).launches(first, x.numpy_dtype, merged=merged)


class Nansum(Reduction):
    """Sums over dims that count NaN as zero."""

    grad_name = "NansumBackward0"
    samples = cases(lambda: (draw(3, 4),), lambda: (draw(4, 3).t(), 0))
    reference = over_axes(np.nansum)

    def forward(x, dim=None, keepdim=False, dtype=None):
        if x._layout.dtype.is_complex:
            raise RuntimeError("nansum on CPU does not support complex inputs")
        dtype = as_dtype("nansum", dtype)
        if x._layout.dtype.is_floating_point and dtype is not None and not dtype.is_floating_point:
            raise not_implemented_for("nansum_cpu", dtype)
        if not x._layout.dtype.is_floating_point:
            return sum_values(x, plan_reduction(x._layout, dim, keepdim), dtype)
        return _nansums(x if dtype is None else unrecorded(x, dtype), dim, keepdim)

    def grad_x(g, x, dim, keepdim):
        g = expand_reduced(g, x._layout, dim, keepdim)
        return cast(table.where(x.isnan(), 0, g), x._layout.dtype)


@public
@numpy_names
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim``, an int, several or None for all, that counts NaN as zero."""
    return Nansum.apply(input, dim, keepdim, dtype)


@public
@numpy_names
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim`` of what is not NaN; NaN where there is nothing else."""
    if input._layout.dtype.category < 2:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{scalar_type(input._layout.dtype)}"
        )
    total = Nansum.apply(input, dim, keepdim, dtype)
    return total / sum(~unrecorded(input).isnan(), dim, keepdim)


