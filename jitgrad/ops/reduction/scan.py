"""Running sums and products."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import cpp_type, must_be_tensor, not_implemented_for
from jitgrad.core.layout import Layout, intern, layout_of, normalize_dim
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import method, numpy_names, public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import scan as kernels
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.reduction.along_dims import AlongDim, along_axis
from jitgrad.ops.reduction.prod import one_in_place_of_each
from jitgrad.ops.reduction.reduction_plan import plan_reduction, unrecorded
from jitgrad.ops.reduction.sums import SumDim, accumulated
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = ["Cumprod", "Cumsum", "Scan"]


class Scan(AlongDim, abstract=True):
    """Base of running totals along ``dim``: results have the shape of ``x`` and the dtype of a sum.

    An op's forward is ``scan`` with its pair of kernels; its gradient runs from the other end.
    """


def scan(pair: tuple[Kernel, Kernel], x: Layout, dim: int, dtype: dtypes.dtype | None, *options: Any) -> Any:
    """Plan the launch of the kernel of ``pair``, for (rows, columns), along ``dim`` of ``x`` cast to ``dtype``."""
    if dtype is not None or x.dtype.category < 2:
        return lambda x, *_: _cast_scan(pair, x, dim, dtype, *options)
    # Results are row-major: the plan is that of such memory, whatever the layout of ``x``.
    layout = intern(x.numpy_dtype, x.shape)
    plan = plan_reduction(layout, normalize_dim(dim, layout.ndim))
    arrays = row_major("x", x, plan.source), Written(0, plan.source)
    return Launches([(pair[not plan.flat], *arrays, *options)], [layout])


def _cast_scan(
    pair: tuple[Kernel, Kernel], x: Tensor, dim: int, dtype: dtypes.dtype | None, *options: Any
) -> Tensor:  # fmt: skip
    dtype = accumulated(x, dtype)
    if dtype.category == 0 and x._layout.ndim and x._layout.numel:  # PyTorch copies the others
        raise not_implemented_for(f"{pair[0].name.removesuffix('_rows')}_out_cpu", dtype)
    source = contiguous(unrecorded(x, dtype))
    layout = intern(dtype.numpy, x._layout.shape)
    plan = plan_reduction(layout, normalize_dim(dim, layout.ndim))
    data = empty_for(layout)
    launch(pair[not plan.flat], plan.read(source), data.reshape(plan.source), *options)
    return wrap(data, layout)


def _running_sums(x: Any, dim: int, dtype: Any = None, backwards: bool = False) -> Any:
    return np.flip(np.cumsum(np.flip(x, dim), dim), dim) if backwards else np.cumsum(x, dim)


class Cumsum(Scan):
    """Running sums along a dim."""

    linear = ("x",)
    name = "_cumsum"
    reference = along_axis(_running_sums)

    def plan(x_layout, dim, dtype=None, backwards=False):
        return scan((kernels.cumsum_rows, kernels.cumsum_columns), x_layout, dim, dtype, backwards)

    def grad_x(g, x_layout, dim, backwards):
        return cast(Cumsum.apply(g, dim, None, not backwards), x_layout.dtype)

    def kernel_x(g, x_layout, dim, backwards):
        return cast(Cumsum.forward(g, dim, None, not backwards), x_layout.dtype)


class Cumprod(Scan):
    """Running products along a dim."""

    name = "_cumprod"
    samples = cases(
        lambda: (draw(3, 4), 1),
        lambda: (draw(4, 3).t(), 0),
        lambda: (draw(2, 3, 4), 1),
        lambda: (draw(), 0),
        lambda: (draw(3, 5) * (draw(3, 5) > 0), 1),  # with zeros
    )
    reference = along_axis(np.cumprod)

    def plan(x_layout, dim, dtype=None):
        return scan((kernels.cumprod_rows, kernels.cumprod_columns), x_layout, dim, dtype)

    def grad_x(g, out, x, dim):
        source, x = x._layout, cast(x, g._layout.dtype)
        if source.numel <= 1:  # nothing is multiplied: the gradient does not depend on x
            return cast(g, source.dtype)
        # By the chain rule out[i] has the derivative out[i] / x[j] by each x[j] up to it, unless that is 0.
        if (x.detach() == 0).any().item():
            return cast(_sums_of_products_without_each(g, x, normalize_dim(dim, source.ndim)), source.dtype)
        return cast(Cumsum.apply(g * out.conj_physical(), dim, None, True) / x.conj_physical(), source.dtype)

    @planned("g", "out", "x")
    def kernel_x(g, out, x, dim):
        layout = intern(x.numpy_dtype, x.shape)
        plan = plan_reduction(layout, normalize_dim(dim, x.ndim))
        if not (plan.flat and x.numel and x.dtype.is_floating_point and x.dtype is g.dtype is out.dtype):
            return _gradient_of_any
        arrays = [row_major(name, t, plan.source) for name, t in (("x", x), ("g", g), ("out", out))]
        return Launches([(kernels.cumprod_gradient, *arrays, Written(0, plan.source))], [layout])


def _gradient_of_any(g: Tensor, out: Tensor, x: Tensor, dim: int) -> Tensor:
    """The gradient of running products along any dim, in any dtype, unrecorded."""
    source, x = x._layout, unrecorded(x, g._layout.dtype)
    return cast(_apart_from_first_zero(g, out, x, dim), source.dtype)


def _sums_of_products_without_each(g: Tensor, x: Tensor, d: int) -> Tensor:
    """The gradient of running products where elements are zero, so that none can be divided by.

    With p[j, i] the product of x[0] ... x[i] without x[j], it is the sum over i >= j of g[i] * conj(p[j, i]).
    Takes n times the memory of ``x``.
    """
    if not x._layout.ndim:
        return g
    n = x._layout.shape[d]
    reached = np.triu(np.ones((n, n), np.bool_)).reshape(n, n, *[1] * (x._layout.ndim - d - 1))
    products = Cumprod.apply(one_in_place_of_each(x, d), d + 1).conj_physical()
    return SumDim.apply(table.where(wrap(reached, layout_of(reached)), products, 0) * g.unsqueeze(d), d + 1)


def _apart_from_first_zero(g: Tensor, out: Tensor, x: Tensor, dim: int) -> Tensor:
    """The same in linear time, unrecorded.

    Only for the first zero of a row is there a product without it that is not zero; before it one may divide, and
    after it the gradient is zero.
    """
    where: Any = table.where
    running_sum: Any = Cumsum.forward  # Any: to a type checker it is no static method before the op is declared
    zero = x == 0
    # Zeros counted from the start: at the first one the count is 1.
    first = zero & (running_sum(zero, dim, None, False) == 1)
    safe, without = where(zero, 1, x).conj_physical(), Cumprod.forward(where(first, 1, x), dim, None).conj_physical()
    elsewhere = where(zero, 0, running_sum(g * out.conj_physical(), dim, None, True) / safe)
    return where(first, running_sum(g * without, dim, None, True), elsewhere)


def _checked(op: str, x: Tensor, dim: Any) -> int:
    """``dim`` as an int; TypeError where ``x`` is no tensor, or ``dim`` no int or not given."""
    if not isinstance(x, Tensor):
        raise must_be_tensor(op, "input", 1, x)
    if dim is ...:
        raise TypeError(f'{op}() missing 1 required positional arguments: "dim"')
    return int_argument(op, "dim", 2, dim)


@public
@numpy_names
def cumsum(input: Tensor, dim: int = ..., *, dtype: Any = None) -> Tensor:  # type: ignore[assignment]
    """Running sums along ``dim``; bools and integers as int64 unless ``dtype`` says otherwise."""
    return Cumsum.apply(input, _checked("cumsum", input, dim), as_dtype("cumsum", dtype))


@public
@numpy_names
def cumprod(input: Tensor, dim: int = ..., *, dtype: Any = None) -> Tensor:  # type: ignore[assignment]
    """Running products along ``dim``; bools and integers as int64 unless ``dtype`` says otherwise."""
    return Cumprod.apply(input, _checked("cumprod", input, dim), as_dtype("cumprod", dtype))


def _check_same_dtype(op: str, x: Tensor, dim: int = ..., *, dtype: Any = None) -> None:  # type: ignore[assignment]
    wanted = as_dtype(op, dtype)
    if wanted is not None and wanted is not x.dtype:
        mine, theirs = (cpp_type(d) for d in (x.dtype, wanted))
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {mine} and output tensor dtype {theirs} should match"
        )


for _function in (cumsum, cumprod):
    method(inplace_form(_function, check=partial(_check_same_dtype, f"{_function.__name__}_")))
