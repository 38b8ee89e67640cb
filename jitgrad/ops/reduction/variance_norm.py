"""Variances, standard deviations and norms."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import moments as kernels
from jitgrad.kernels.loops.reduction import divide
from jitgrad.ops.reduction.along_dims import Reduction
from jitgrad.ops.reduction.extrema import Amax, Amin
from jitgrad.ops.reduction.reduction_plan import (
    FULL,
    ReductionPlan,
    expand_reduced,
    plan_reduction,
    unrecorded,
    with_reduced_dims,
)
from jitgrad.ops.reduction.sums import MeanDim, SumDim, mean_values, sum_values
from jitgrad.ops.shape.copy import cast

__all__ = ["VectorNorm"]


def _variance(op: str, x: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """(variances, means), unrecorded."""
    layout = x._layout
    if layout.dtype.category < 2:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    plan = plan_reduction(layout, dim, keepdim)
    if plan.n - correction <= 0:
        warnings.warn(
            f"{op}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            UserWarning,
            stacklevel=5,
        )
    mean = mean_values(x, plan, None)
    out = plan.empty(layout.dtype.to_real().numpy)
    kernel, array = kernels.squares_rows if plan.flat else kernels.squares_columns, out._data.reshape(plan.target)
    launch(kernel, plan.read(x), mean._data.reshape(plan.target), array)
    launch(divide, array.reshape(-1), max(plan.n - correction, 0))
    return out, mean


def _deviation(op: str, x: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    out, mean = _variance(op, x, dim, correction, keepdim)
    launch(kernels.root, out._data.reshape(-1))
    return out, mean


def _slope(layout: Layout, dim: Any, correction: float) -> float:
    freedom = max(plan_reduction(layout, dim).n - correction, 0)
    return 2 / freedom if freedom else math.nan


def _var_rule(g: Tensor, x: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    layout = x._layout
    center = MeanDim.apply(x, plan_reduction(layout, dim).dims, True)
    return with_reduced_dims(g, layout, dim, keepdim) * (x - center) * _slope(layout, dim, correction)


def _var_kernel(g: Tensor, x: Tensor, dim: Any, correction: float) -> Tensor:
    layout = x._layout
    plan = plan_reduction(layout, dim)
    mean, out = mean_values(x, plan, None), np.empty(plan.source, layout.numpy_dtype)
    kernel = kernels.deviations_rows if plan.flat else kernels.deviations_columns
    scale = _slope(layout, dim, correction)
    launch(kernel, plan.read(x), plan.written(mean), plan.written(g), out, scale)
    return plan.tensor(out, layout)


def _std_slope(g: Tensor, out: Tensor) -> Tensor:
    """The gradient of the variance, of which ``out`` is the root: none where that is 0."""
    return table.where(out == 0, 0, g / (out * 2))


class Spread(Reduction, abstract=True):
    """Base of variances and deviations over ``dim``, with ``correction`` taken off the number of elements."""

    samples = cases(
        lambda: (draw(3, 4),),
        lambda: (draw(3, 4), 1, 0),
        lambda: (draw(2, 3, 4), (0, 2), 1, True),
        lambda: (draw(4, 3).t(), 0),
        lambda: (draw(2, 3, 4), 1, 0.5),
    )


def _spread_of(*functions: Any) -> Any:
    """The reference: NumPy's functions of an axis, ``np.mean`` without the correction."""

    def reference(x: Any, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
        corrected = {"ddof": correction}
        found = [f(x, dim, keepdims=keepdim, **({} if f is np.mean else corrected)) for f in functions]
        return found[0] if len(found) == 1 else tuple(found)

    return reference


class Var(Spread):
    """Variance over dims."""

    name = "var_dim"
    reference = _spread_of(np.var)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _variance("var", x, dim, correction, keepdim)[0]

    def grad_x(g, x, dim, correction, keepdim):
        return _var_rule(g, x, dim, correction, keepdim)

    def kernel_x(g, x, dim, correction):
        return _var_kernel(g, x, dim, correction)


class Std(Spread):
    """Standard deviation over dims."""

    name = "std_dim"
    reference = _spread_of(np.std)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _deviation("std", x, dim, correction, keepdim)[0]

    def grad_x(g, out, x, dim, correction, keepdim):
        return _var_rule(_std_slope(g, out), x, dim, correction, keepdim)

    def kernel_x(g, out, x, dim, correction):
        return _var_kernel(_std_slope(g, out), x, dim, correction)


class VarMean(Spread):
    """Variance and mean over dims."""

    name, multiple_results = "var_mean_dim", True
    reference = _spread_of(np.var, np.mean)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _variance("var_mean", x, dim, correction, keepdim)

    def grad_x(g, x, dim, correction, keepdim):
        g_of_values, mean_g = g
        parts = [] if g_of_values is None else [_var_rule(g_of_values, x, dim, correction, keepdim)]
        return _with_mean(parts, mean_g, x._layout, dim, keepdim)


class StdMean(Spread):
    """Standard deviation and mean over dims."""

    name, multiple_results = "std_mean_dim", True
    reference = _spread_of(np.std, np.mean)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _deviation("std_mean", x, dim, correction, keepdim)

    def grad_x(g, out, x, dim, correction, keepdim):
        g_of_values, mean_g = g
        parts = []
        if g_of_values is not None:
            parts = [_var_rule(_std_slope(g_of_values, out[0]), x, dim, correction, keepdim)]
        return _with_mean(parts, mean_g, x._layout, dim, keepdim)


def _with_mean(parts: list[Tensor], g: Tensor | None, layout: Layout, dim: Any, keepdim: bool) -> Tensor:
    if g is not None:
        parts.append(expand_reduced(g, layout, dim, keepdim) / plan_reduction(layout, dim).n)
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _arguments(dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple[Any, float, bool]:
    """``var(unbiased)``, ``var(dim, unbiased, keepdim)`` and ``var(dim, correction=...)`` in one form."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction, keepdim


@public
@numpy_names
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """Variance over ``dim``: sum((x - mean)**2) / (n - correction), correction 1 by default.

    ``unbiased=False`` is correction 0. NaN, with a warning, where n <= correction.
    """
    return Var.apply(input, *_arguments(dim, unbiased, keepdim, correction))


@public
@numpy_names
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """Standard deviation over ``dim``: the root of ``var``; no gradient where it is 0."""
    return Std.apply(input, *_arguments(dim, unbiased, keepdim, correction))


def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(variance, mean) over ``dim``; see ``var``."""
    return VarMean.apply(input, *_arguments(dim, unbiased, keepdim, correction))


def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(standard deviation, mean) over ``dim``; see ``var``."""
    return StdMean.apply(input, *_arguments(dim, unbiased, keepdim, correction))


public(numpy_names(var_mean), method_too=False)
public(numpy_names(std_mean), method_too=False)


# -- norms ------------------------------------------------------------------------------------------


def _norm_values(x: Tensor, order: float, plan: ReductionPlan) -> Tensor:
    if order == 2:
        return plan.reduce((kernels.norm_rows, kernels.norm_columns), x, x._layout.dtype.to_real().numpy)
    size = unrecorded(x).abs()
    dims, keepdim = plan.dims, len(plan.shape) == len(plan.ones)
    if math.isinf(order):
        return (Amax if order > 0 else Amin).apply(size, dims, keepdim)
    if order == 0:
        return sum_values(cast(size != 0, size.dtype), plan, None)
    if order == 1:
        return sum_values(size, plan, None)
    return sum_values(size**order, plan, None) ** (1 / order)


def _direction(x: Tensor) -> Tensor:
    """x / |x|, and 0 for 0."""
    return x.sgn() if x._layout.dtype.is_complex else x.sign()


def _norm_gradient(g: Tensor, out: Tensor, x: Tensor, order: float) -> Tensor:
    """``g`` and ``out`` broadcast against ``x``; no gradient where the norm, or the element, is 0."""
    where = table.where
    if order == 1:
        return _direction(x) * g
    if order == 2:
        return x * where(out == 0, 0, g / out)
    if math.isinf(order):
        hit = (x.abs() == out) | (x.isnan() & out.isnan())
        share = cast(hit, g._layout.dtype)
        dims = tuple(d for d, n in enumerate(out.shape) if n == 1)
        return _direction(x) * share * (g / SumDim.apply(share, dims, True))
    scale = where(out == 0, 0, g / out ** (order - 1))
    if order < 2:
        size = x.abs()
        return _direction(x) * where(size == 0, 0, size ** (order - 1)) * scale
    return x * x.abs() ** (order - 2) * scale


def _norm_of(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    size = np.abs(x)
    if math.isinf(ord):
        return (np.max if ord > 0 else np.min)(size, dim, keepdims=keepdim)
    powers = (size != 0).astype(size.dtype) if ord == 0 else size**ord
    return powers.sum(dim, keepdims=keepdim) ** (1 / (ord or 1))


class VectorNorm(Reduction):
    """(sum |x|**ord) ** (1 / ord) over ``dim``; ord inf, -inf: the largest, smallest |x|; 0: how many are not 0."""

    name, grad_name = "linalg_vector_norm", "LinalgVectorNormBackward0"
    samples = cases(
        lambda: (draw(3, 4),),
        lambda: (draw(3, 4), 1, 0),
        lambda: (draw(2, 3, 4), math.inf, 1, True),
        lambda: (draw(3, 4), 3.5, (0, 1)),
        lambda: (draw(4, 3).t(), 1.5, 0),
    )
    reference = _norm_of

    def forward(x, ord=2, dim=None, keepdim=False, dtype=None):
        if x._layout.dtype.category < 2:
            raise RuntimeError(
                "linalg.vector_norm: Expected a floating point or complex tensor as input. "
                f"Got {scalar_type(x._layout.dtype)}"
            )
        if math.isinf(ord) and not x._layout.numel and not all(x.shape[d] for d in plan_reduction(x._layout, dim).dims):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation "
                "does not have an identity"
            )
        x = unrecorded(x, dtype)
        return _norm_values(x, ord, plan_reduction(x._layout, dim, keepdim))

    def grad_x(g, out, x, ord, dim, keepdim):
        layout = x._layout
        if ord == 0:
            return None  # a number of elements
        out, g = with_reduced_dims(out, layout, dim, keepdim), with_reduced_dims(g, layout, dim, keepdim)
        if g._layout.dtype is not layout.dtype.to_real():
            x = cast(x, g._layout.dtype.to_complex() if layout.dtype.is_complex else g._layout.dtype)
        return cast(_norm_gradient(g, out, x, ord), layout.dtype)


@public
@takes_out
def norm(
    input: Tensor, p: float | str | None = "fro", dim: Any = None, keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
) -> Tensor:  # fmt: skip
    """Vector norm of order ``p`` over ``dim``, by default of all elements; "fro" is 2.

    inf and -inf give the largest and smallest magnitude, 0 the number of elements that are not 0.
    """
    if p == "nuc":
        raise NotImplementedError("norm(): the nuclear norm is not implemented; use the sum of the singular values")
    order = 2 if p in ("fro", None) else p
    if not isinstance(order, (int, float)):
        raise TypeError(f"norm(): argument 'p' must be a number, 'fro' or 'nuc', not {type(p).__name__}")
    return VectorNorm.apply(input, order, None if dim is FULL else dim, keepdim, dtype)
