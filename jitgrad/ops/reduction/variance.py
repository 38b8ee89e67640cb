"""Variances and standard deviations."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from jitgrad.core.errors import type_name
from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, planned, row_major
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag, dims_argument, is_real
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import moments as kernels
from jitgrad.kernels.loops.reduction import divide, sum_columns, sum_rows
from jitgrad.ops.reduction.along_dims import Reduction
from jitgrad.ops.reduction.reduction_plan import expand_reduced, plan_reduction, with_reduced_dims
from jitgrad.ops.reduction.sums import MeanDim, mean_values
from jitgrad.ops.shape.copy import cast

__all__ = ["var_mean"]


def _variance(op: str, x: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """(variances, means), unrecorded, in two passes over ``x``: sum(|x - mean|**2) / (n - correction).

    One pass, by sum(x**2) - n * mean**2, would lose all digits where the mean is large beside the deviations.
    """
    layout = x._layout
    if layout.dtype.category < 2:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    plan = plan_reduction(layout, dim, keepdim)
    if plan.n - correction <= 0:
        warnings.warn(
            f"{op}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            UserWarning,
            stacklevel=user_level(),
        )
    mean = mean_values(x, plan, None)
    out = plan.empty(layout.dtype.to_real().numpy)
    kernel, array = kernels.squares_rows if plan.flat else kernels.squares_columns, out._data.reshape(plan.target)
    launch(kernel, plan.read(x), mean._data.reshape(plan.target), array)
    # n <= correction divides by 0: NaN, or infinity where elements differ, as PyTorch has it after the warning.
    launch(divide, array.reshape(-1), max(plan.n - correction, 0))
    return out, mean


@planned("x")
def _spreads(x, op, dim, correction, keepdim, rooted, results):
    """``results`` of the variances, or ``rooted`` deviations, and the means over ``dim``; warnings speak of ``op``."""
    plan = plan_reduction(x, dim, keepdim)
    if not (plan.short and x.dtype.is_floating_point and plan.n > correction):
        return lambda x, *_: results(*(_deviation if rooted else _variance)(op, x, dim, correction, keepdim))
    source, target, flat = plan.blocks_of("x"), plan.target, (math.prod(plan.target),)
    out, mean = Written(0, target), Written(1, target)
    launches = [
        (sum_rows if plan.flat else sum_columns, source, mean),
        (divide, Written(1, flat), plan.n),
        (kernels.squares_rows if plan.flat else kernels.squares_columns, source, mean, out),
        (divide, Written(0, flat), plan.n - correction),
    ]
    launches += [(kernels.root, Written(0, flat))] if rooted else []
    return Launches(launches, [plan.layout(x.numpy_dtype)] * 2, 2, results)


def _first(spread: Tensor, mean: Tensor) -> Tensor:
    return spread


def _both(spread: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    return spread, mean


@planned("g", "x")
def _deviations(g, x, dim, correction):
    """The gradient of a variance, by kernels."""
    plan, scale = plan_reduction(x, dim), _scale(x, dim, correction)
    if _diverges(x, dim, correction) or not plan.natural or not plan.short or not x.dtype.is_floating_point:
        return _deviations_in_blocks
    blocks, target, flat = Read("x", plan.source), plan.target, (math.prod(plan.target),)
    launches = [
        (sum_rows if plan.flat else sum_columns, blocks, Written(1, target)),
        (divide, Written(1, flat), plan.n),
        (kernels.deviations_rows if plan.flat else kernels.deviations_columns, blocks, Written(1, target),
         row_major("g", g, target), Written(0, plan.source), scale),
    ]  # fmt: skip
    return Launches(launches, [intern(x.numpy_dtype, x.shape, None, x.device), plan.layout(x.numpy_dtype)])


def _deviations_in_blocks(g: Tensor, x: Tensor, dim: Any, correction: float) -> Tensor:
    """The same for what is not row-major, or not of real numbers, and where there are too few elements."""
    layout = x._layout
    scale = _scale(layout, dim, correction)
    plan = plan_reduction(layout, dim)
    # The kernel multiplies complex numbers by g * scale, both as complex ones: NaN where one of them is infinite.
    if _diverges(layout, dim, correction) or (plan.n <= correction and layout.dtype.is_complex):
        return Var.grad_x(g, x, dim, correction, g._layout.ndim == layout.ndim)  # type: ignore[arg-type]
    mean, out = mean_values(x, plan, None), np.empty(plan.source, layout.numpy_dtype)
    kernel = kernels.deviations_rows if plan.flat else kernels.deviations_columns
    launch(kernel, plan.read(x), plan.written(mean), plan.written(g), out, scale)
    return plan.tensor(out, layout)


@planned("g", "out")
def _halved(g, out):
    """The gradient of a square, as ``_of_square``, by a kernel."""
    if g is not out or not g.contiguous or not g.dtype.is_floating_point:
        return _of_square
    flat = (g.numel,)
    return Launches([(kernels.half_quotient, Read("g", flat), Read("out", flat), Written(0, flat))], [g])


def _deviation(op: str, x: Tensor, dim: Any, correction: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """(standard deviations, means), unrecorded."""
    out, mean = _variance(op, x, dim, correction, keepdim)
    launch(kernels.root, out._data.reshape(-1))
    return out, mean


def _scale(layout: Layout, dim: Any, correction: float) -> float:
    """The gradient of a variance by one deviation from the mean, divided by the deviation: 2 / (n - correction)."""
    freedom = plan_reduction(layout, dim).n - correction
    return 2 / freedom if freedom else math.inf


def _diverges(layout: Layout, dim: Any, correction: float) -> bool:
    """Whether a variance of all elements has the gradient of a limit; that over dims follows its formula throughout.

    PyTorch distinguishes the two, but only where there are no more elements than the correction takes off.
    """
    return (dim is None or not layout.ndim) and layout.numel <= correction


def _limit(x: Tensor, center: Tensor) -> Tensor:
    """What 2 / (n - correction) * (x - mean) tends to for n = correction, with infinity for either sign."""
    return table.where(x.detach() == center.detach(), math.nan, math.inf)


def _of_square(g: Tensor, out: Tensor) -> Tensor:
    """The gradient of a variance by ``g``, that of its root ``out``: g / (2 * out), none where the root is 0."""
    zero = out == 0
    # Divided by 1 there: forward mode differentiates this by g, and 0 times an infinite derivative would be NaN.
    return table.where(zero, 0, g / table.where(zero, 1, out * 2))


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
        options = [{} if f is np.mean else {"ddof": correction} for f in functions]
        found = [f(x, dim, keepdims=keepdim, **given) for f, given in zip(functions, options, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)

    return reference


class Var(Spread):
    """Variance over dims."""

    name = "var_dim"
    reference = _spread_of(np.var)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _spreads(x, "var", dim, correction, keepdim, False, _first)

    def grad_x(g, x, dim, correction, keepdim):
        layout = x._layout
        # The mean depends on x as well, but deviations from it add up to 0: their part of the gradient vanishes.
        center = MeanDim.apply(x, plan_reduction(layout, dim).dims, True)
        if _diverges(layout, dim, correction):
            return cast(with_reduced_dims(g, layout, dim, keepdim) * _limit(x, center), layout.dtype)
        # In this order: an infinite scale times a complex number has NaN.
        return with_reduced_dims(g, layout, dim, keepdim) * _scale(layout, dim, correction) * (x - center)

    def kernel_x(g, x, dim, correction):
        return _deviations(g, x, dim, correction)


class Std(Spread):
    """Standard deviation over dims."""

    name = "std_dim"
    reference = _spread_of(np.std)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _spreads(x, "std", dim, correction, keepdim, True, _first)

    def grad_x(g, out, x, dim, correction, keepdim):
        return Var.grad_x(_of_square(g, out), x, dim, correction, keepdim)

    def kernel_x(g, out, x, dim, correction):
        return _deviations(_halved(g, out), x, dim, correction)


class VarMean(Spread):
    """Variance and mean over dims."""

    name, multiple_results = "var_mean_dim", True
    reference = _spread_of(np.var, np.mean)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _spreads(x, "var_mean", dim, correction, keepdim, False, _both)

    def grad_x(g, x, dim, correction, keepdim):
        of_spread = None if g[0] is None else Var.grad_x(g[0], x, dim, correction, keepdim)
        return _with_mean(of_spread, g[1], x._layout, dim, keepdim)


class StdMean(Spread):
    """Standard deviation and mean over dims."""

    name, multiple_results, results = "std_mean_dim", True, ("result0", "result1")
    reference = _spread_of(np.std, np.mean)

    def forward(x, dim=None, correction=1, keepdim=False):
        return _spreads(x, "std_mean", dim, correction, keepdim, True, _both)

    def grad_x(g, result0, x, dim, correction, keepdim):
        of_spread = None if g[0] is None else Std.grad_x(g[0], result0, x, dim, correction, keepdim)
        return _with_mean(of_spread, g[1], x._layout, dim, keepdim)


def _with_mean(of_spread: Tensor | None, g: Tensor | None, layout: Layout, dim: Any, keepdim: bool) -> Tensor | None:
    """The gradient by the spread, if there is one, plus that by the mean, whose own gradient is ``g``."""
    if g is None:
        return of_spread
    of_mean = expand_reduced(g, layout, dim, keepdim) / plan_reduction(layout, dim).n
    return of_mean if of_spread is None else of_spread + of_mean


def _arguments(dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple[Any, float, bool]:
    """``var(unbiased)``, ``var(dim, unbiased, keepdim)`` and ``var(dim, correction=...)`` in one form."""
    if isinstance(dim, bool):  # var(False): the first argument is ``unbiased`` then
        dim, unbiased = None, dim
    elif type(dim) is not int:
        dim = dims_argument(dim)
    if correction is None:
        correction = 1 if unbiased is None or as_flag(unbiased) else 0
    elif type(correction) is not int and type(correction) is not float:
        if not is_real(correction):  # 1 + 0j would find the plan of 1
            raise TypeError(f"must be float, not {type_name(correction)}")
        correction = float(correction)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
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
