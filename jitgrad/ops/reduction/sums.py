"""Sums, means and products over dims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import flattened, over_dims
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import reduction as kernels
from jitgrad.ops.creation.constants import eye, ones_like
from jitgrad.ops.reduction.reduction_plan import (
    FULL,
    ReductionPlan,
    check_dims,
    check_one_dim,
    check_tensor,
    expand_reduced,
    plan_reduction,
    unrecorded,
)
from jitgrad.ops.shape.copy import cast

__all__ = ["mean_values", "sum_values"]

SUMS = (kernels.sum_rows, kernels.sum_columns)
PRODUCTS = (kernels.prod_rows, kernels.prod_columns)


def accumulated(x: Tensor, dtype: dtypes.dtype | None) -> dtypes.dtype:
    """The dtype of a sum: that asked for; int64 for bools and integers; else the tensor's own."""
    source = x._layout.dtype
    if dtype is None:
        return dtypes.int64 if source.category < 2 else source
    if dtype.category < 2 and x._requires_grad:
        raise RuntimeError(f"Autograd not support dtype: {scalar_type(dtype)}")
    return dtype


def sum_values(x: Tensor, plan: ReductionPlan, dtype: dtypes.dtype | None) -> Tensor:
    """The sums of ``x`` outside the graph."""
    if dtype is None and x._layout.dtype.category >= 2:
        return plan.reduce(SUMS, x, x._layout.numpy_dtype)
    dtype = accumulated(x, dtype)
    if dtype.category >= 2:
        x = unrecorded(x, dtype)
    return plan.reduce(SUMS, x, dtype.numpy)


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
    launch(kernels.divide, out._data.reshape(-1), plan.n)
    return out


def _samples() -> Iterator[Any]:
    yield (draw(3, 4),), {}
    yield (draw(3, 4).t(),), {}
    yield (draw(),), {}


def _samples_dim() -> Iterator[Any]:
    yield (draw(3, 4), 1), {}
    yield (draw(2, 3, 4), (0, 2), True), {}
    yield (draw(2, 3, 4).transpose(0, 2), -2), {}
    yield (draw(), 0), {}


class Sum(Structured):
    """Sum of all elements."""

    linear = ("x",)
    batch = flattened(lambda x, **given: x.sum(1, **given))
    name, samples = "sum_all", staticmethod(_samples)

    def forward(x, dtype=None):
        return sum_values(x, plan_reduction(x._layout, None), dtype)

    def grad_x(g, x_layout):
        return cast(g.expand(x_layout.shape), x_layout.dtype)


class SumDim(Structured):
    """Sum over dims."""

    linear = ("x",)
    batch = over_dims("dim")
    grad_name = "SumBackward1"
    samples = staticmethod(_samples_dim)

    def forward(x, dim, keepdim=False, dtype=None):
        return sum_values(x, plan_reduction(x._layout, dim, keepdim), dtype)

    def grad_x(g, x_layout, dim, keepdim):
        return cast(expand_reduced(g, x_layout, dim, keepdim), x_layout.dtype)


class Mean(Structured):
    """Mean of all elements."""

    linear = ("x",)
    batch = flattened(lambda x, **given: x.mean(1, **given))
    name, samples = "mean_all", staticmethod(_samples)

    def forward(x, dtype=None):
        return mean_values(x, plan_reduction(x._layout, None), dtype)

    def grad_x(g, x_layout):
        return cast(g.expand(x_layout.shape) / x_layout.numel, x_layout.dtype)


class MeanDim(Structured):
    """Mean over dims."""

    linear = ("x",)
    batch = over_dims("dim")
    grad_name = "MeanBackward1"
    samples = staticmethod(_samples_dim)

    def forward(x, dim, keepdim=False, dtype=None):
        return mean_values(x, plan_reduction(x._layout, dim, keepdim), dtype)

    def grad_x(g, x_layout, dim, keepdim):
        n = plan_reduction(x_layout, dim, keepdim).n
        return cast(expand_reduced(g, x_layout, dim, keepdim) / n, x_layout.dtype)


@public
@numpy_names
def sum(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim``: an int, several, or None for all dims.

    Bools and integers are summed as int64 unless ``dtype`` says otherwise. float32 is summed in
    blocks whose totals are float64. IndexError for a dim out of range.
    """
    check_tensor("sum", input)
    if dim is FULL and not keepdim:
        return Sum.apply(input, dtype)
    check_dims("sum", dim)
    return SumDim.apply(input, dim, keepdim, dtype)


@public
@numpy_names
def mean(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim``: an int, several, or None for all dims; NaN where there is nothing.

    RuntimeError for bools and integers unless a floating ``dtype`` is given.
    """
    check_tensor("mean", input)
    if dim is FULL and not keepdim:
        return Mean.apply(input, dtype)
    check_dims("mean", dim)
    return MeanDim.apply(input, dim, keepdim, dtype)


class Nansum(Structured, public=True):
    """Sum over ``dim``, an int, several or None for all, that counts NaN as zero."""

    batch = over_dims("dim")
    grad_name, samples = "NansumBackward0", staticmethod(_samples)

    def forward(x, dim=None, keepdim=False, dtype=None):
        if x._layout.dtype.is_complex:
            raise RuntimeError("nansum on CPU does not support complex inputs")
        kept = unrecorded(x)
        if x._layout.dtype.is_floating_point:
            kept = table.where(kept.isnan(), 0, kept)
        return sum_values(kept, plan_reduction(x._layout, dim, keepdim), dtype)

    def grad_x(g, x, dim, keepdim):
        g = expand_reduced(g, x._layout, dim, keepdim)
        return cast(table.where(x.isnan(), 0, g), x._layout.dtype)


@public
@numpy_names
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim`` of what is not NaN; NaN where there is nothing else."""
    total = Nansum.apply(input, dim, keepdim, dtype)
    return total / sum(~unrecorded(input).isnan(), dim, keepdim)


# -- products ---------------------------------------------------------------------------------------


def _prod_values(x: Tensor, dim: int | None, keepdim: bool, dtype: dtypes.dtype | None) -> Tensor:
    dtype = accumulated(x, dtype)
    x = unrecorded(x, dtype)
    return plan_reduction(x._layout, dim, keepdim).reduce(PRODUCTS, x, dtype.numpy)


def _prod_gradient(g: Tensor, x: Tensor, dim: int | None) -> Tensor:
    """The backward kernel: running products from both ends."""
    source = x._layout
    x = unrecorded(x, g._layout.dtype)
    plan = plan_reduction(source, dim)
    blocks = plan.read(x).reshape(plan.blocks)
    out = np.empty_like(blocks)
    launch(kernels.prod_others, blocks, plan.written(g).reshape(plan.blocks[::2]), out)
    return unrecorded(plan.tensor(out, source), source.dtype)


def _prod_rule(g: Tensor, out: Tensor, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    layout = x._layout
    x = cast(x, g._layout.dtype)
    g = expand_reduced(g, layout, dim, keepdim)
    if (x.detach() == 0).any().item():
        others = _others(x, dim)
    else:
        others = expand_reduced(out, layout, dim, keepdim) / x
    if others._layout.dtype.is_complex:
        others = others.conj()
    return cast(g * others, layout.dtype)


def _others(x: Tensor, dim: int | None) -> Tensor:
    """For each element the product of all others, as products that may be differentiated again.

    Takes n times the memory, so it serves only where a zero forbids dividing by the element.
    """
    if dim is None:
        return _others(x.reshape(-1), 0).reshape(x.shape)
    d = normalize_dim(dim, x._layout.ndim)
    if not x._layout.ndim:
        return ones_like(x)
    n = x.shape[d]
    same = eye(n, dtype=dtypes.bool_).reshape(n, n, *[1] * (x._layout.ndim - d - 1))
    return ProdDim.apply(table.where(same, 1, x.unsqueeze(d)), d + 1)


class Prod(Structured):
    """Product of all elements."""

    batch = flattened(lambda x, **given: x.prod(1, **given))
    name, samples = "prod_all", staticmethod(_samples)

    def forward(x, dtype=None):
        return _prod_values(x, None, False, dtype)

    def grad_x(g, out, x):
        return _prod_rule(g, out, x, None, False)

    def kernel_x(g, x):
        return _prod_gradient(g, x, None)


class ProdDim(Structured):
    """Product over one dim."""

    batch = over_dims("dim")
    grad_name = "ProdBackward1"

    def forward(x, dim, keepdim=False, dtype=None):
        return _prod_values(x, dim, keepdim, dtype)

    def grad_x(g, out, x, dim, keepdim):
        return _prod_rule(g, out, x, dim, keepdim)

    def kernel_x(g, x, dim):
        return _prod_gradient(g, x, dim)

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(3, 4), 0), {}
        yield (draw(2, 3, 4).transpose(0, 1), 1, True), {}
        yield (draw(3, 4) * (draw(3, 4) > 0), -1), {}  # with zeros
        yield (draw(), 0), {}


@public
@numpy_names
def prod(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product of all elements or along one dim; 1 where there is nothing.

    Bools and integers multiply as int64 unless ``dtype`` says otherwise. The gradient is right
    where elements are zero.
    """
    check_tensor("prod", input)
    if dim is FULL and not keepdim:
        return Prod.apply(input, dtype)
    check_one_dim("prod", dim)
    return ProdDim.apply(input, dim, keepdim, dtype)
