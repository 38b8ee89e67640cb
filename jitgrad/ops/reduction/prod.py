"""Products over dims, and their gradient, which is right where elements are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import invalid_combination, must_be_tensor
from jitgrad.core.layout import as_int, intern, layout_of, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, planned, row_major
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import reduction as kernels
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.reduction.along_dims import Reduction, ReductionOfAll, over_axes
from jitgrad.ops.reduction.reduction_plan import FULL, ReductionPlan, expand_reduced, plan_reduction, unrecorded
from jitgrad.ops.reduction.sums import accumulated
from jitgrad.ops.shape.copy import cast

__all__ = ["one_in_place_of_each"]

PRODUCTS = (kernels.prod_rows, kernels.prod_columns)


class ProdDim(Reduction):
    """Product over one dim."""

    grad_name = "ProdBackward1"
    samples = cases(
        lambda: (draw(3, 4), 0),
        lambda: (draw(2, 3, 4).transpose(0, 1), 1, True),
        lambda: (draw(3, 4) * (draw(3, 4) > 0), -1),  # with zeros
        lambda: (draw(), 0),
    )
    reference = over_axes(np.prod)

    def plan(x_layout, dim, keepdim=False, dtype=None):
        plan = plan_reduction(x_layout, dim, keepdim)
        if dtype is None and x_layout.dtype.category >= 2:
            return plan.launches(PRODUCTS, x_layout.numpy_dtype)
        return lambda x: _cast_product(x, plan, accumulated(x, dtype))

    def grad_x(g, out, x, dim, keepdim):
        layout, x = x._layout, cast(x, g._layout.dtype)
        if not layout.ndim:
            return cast(g, layout.dtype)
        # The derivative by an element is the product of all others; where there are zeros, out / x does not give it.
        if (x.detach() == 0).any().item():
            others = _products_of_others(x, dim)
        else:
            others = expand_reduced(out, layout, dim, keepdim) / x
        return cast(expand_reduced(g, layout, dim, keepdim) * others.conj_physical(), layout.dtype)

    @planned("g", "x")
    def kernel_x(g, x, dim):
        plan = plan_reduction(x, dim)
        if not plan.natural or g.dtype is not x.dtype:
            return _gradient_in_blocks
        arrays = Read("x", plan.blocks), row_major("g", g, plan.blocks[::2]), Written(0, plan.blocks)
        return Launches([(kernels.prod_others, *arrays)], [intern(x.numpy_dtype, x.shape, None, x.device)])


def _cast_product(x: Tensor, plan: ReductionPlan, dtype: dtypes.dtype) -> Tensor:
    return plan.reduce(PRODUCTS, unrecorded(x, dtype), dtype.numpy)


def _gradient_in_blocks(g: Tensor, x: Tensor, dim: Any) -> Tensor:
    """The gradient of a product where ``x`` has to be cast, or is read in another order of dims than its own."""
    layout, x = x._layout, unrecorded(x, g._layout.dtype)
    plan = plan_reduction(layout, dim)
    blocks = plan.read(x).reshape(plan.blocks)
    out = np.empty(plan.blocks, g._layout.numpy_dtype)
    launch(kernels.prod_others, blocks, plan.written(g).reshape(plan.blocks[::2]), out)
    return unrecorded(plan.tensor(out, layout), layout.dtype)


class Prod(ReductionOfAll, along=ProdDim):
    """Product of all elements."""

    name = "prod_all"


def _products_of_others(x: Tensor, dim: int | None) -> Tensor:
    """For each element the product of all others, as products that may be differentiated again.

    Takes n times the memory, so it serves only where a zero forbids dividing by the element.
    """
    if dim is None:
        return _products_of_others(x.reshape(-1), 0).reshape(x.shape)
    d = normalize_dim(dim, x._layout.ndim)
    if not x._layout.ndim:  # no others: the empty product
        return filled(intern(x._layout.numpy_dtype, (), None, x._layout.device), 1)
    return ProdDim.apply(one_in_place_of_each(x, d), d + 1)


def one_in_place_of_each(x: Tensor, d: int) -> Tensor:
    """n copies of ``x``, stacked at dim ``d``; the k-th has 1 in the place of the k-th element along its dim."""
    n = x._layout.shape[d]
    same = np.eye(n, dtype=np.bool_).reshape(n, n, *[1] * (x._layout.ndim - d - 1))
    return table.where(wrap(same, layout_of(same)), 1, x.unsqueeze(d))


def _dim(dim: Any) -> int:
    try:
        return as_int(dim)
    except TypeError:
        raise invalid_combination("prod", (dim,)) from None


@public
@numpy_names
def prod(input: Tensor, dim: Any = FULL, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product of all elements or along one dim; 1 where there is nothing.

    Bools and integers multiply as int64 unless ``dtype`` says otherwise. The gradient is right
    where elements are zero.
    """
    if not isinstance(input, Tensor):
        raise must_be_tensor("prod", "input", 1, input)
    if dtype is not None:
        dtype = as_dtype("prod", dtype)
    if dim is FULL and not keepdim:
        return Prod.apply(input, dtype)
    if type(dim) is not int:
        dim = _dim(dim)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    return ProdDim.apply(input, dim, keepdim, dtype)
