"""Running extrema, and running logarithms of sums of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.half_ops import widened
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.kernels.loops import scan as kernels
from jitgrad.ops.reduction.along_dims import AlongDim, along_axis
from jitgrad.ops.reduction.extrema import Amax
from jitgrad.ops.reduction.reduction_plan import plan_reduction
from jitgrad.ops.reduction.scan import Scan

__all__: list[str] = []


def _running(largest: bool) -> Any:
    """The reference of a running extremum: the latest of equal elements counts."""

    def reference(x: Any, dim: int) -> Any:
        rows = np.moveaxis(np.atleast_1d(x), dim, -1)
        values = (np.maximum if largest else np.minimum).accumulate(rows, -1)
        places = np.maximum.accumulate(np.where(rows == values, np.arange(rows.shape[-1]), 0), -1)
        return tuple([np.moveaxis(t, -1, dim).reshape(x.shape) for t in (values, places)])

    return reference


def _plan(x: Layout, dim: int, op: str, largest: bool, results: Any) -> Any:
    if x.dtype.is_complex:
        raise not_implemented_for(f"{op}_cpu", x.dtype)
    layouts = [intern(dtype, x.shape) for dtype in (x.numpy_dtype, np.dtype(np.int64))]
    plan = plan_reduction(layouts[0], normalize_dim(dim, x.ndim))
    kernel = kernels.extremes_rows if plan.flat else kernels.extremes_columns
    arrays = row_major("x", x, plan.source), Written(0, plan.source), Written(1, plan.source)
    return Launches([(kernel, *arrays, largest)], layouts, 2, results)


class RunningExtremum(AlongDim, abstract=True):
    """Base of cummax and cummin: (values, indices) of what is largest, or smallest, up to each place along a dim."""

    multiple_results, results = True, ("values", "indices")

    def grad_x(g, indices, x_layout, dim):
        zeros = filled(intern(g[0]._layout.numpy_dtype, x_layout.shape, None, x_layout.device), 0)
        return zeros.scatter_add(dim, indices, g[0])


class Cummax(RunningExtremum):
    """The largest element up to each place along a dim, and its index."""

    name = "_cummax"
    reference = _running(True)

    def plan(x_layout, dim):
        return _plan(x_layout, dim, "cummax", True, return_types.cummax)


class Cummin(RunningExtremum):
    """The smallest element up to each place along a dim, and its index."""

    name = "_cummin"
    reference = _running(False)

    def plan(x_layout, dim):
        return _plan(x_layout, dim, "cummin", False, return_types.cummin)


def cummax(input: Tensor, dim: int) -> Any:
    """(values, indices) of the largest element up to each place along ``dim``; the latest of equal ones, NaN wins."""
    return Cummax.apply(input, int_argument("cummax", "dim", 2, dim))


def cummin(input: Tensor, dim: int) -> Any:
    """(values, indices) of the smallest element up to each place along ``dim``; the latest of equal ones, NaN wins."""
    return Cummin.apply(input, int_argument("cummin", "dim", 2, dim))


# -- logarithms of sums -----------------------------------------------------------------------------------


def _blocks(x: Layout, dim: int) -> tuple[int, ...]:
    return plan_reduction(intern(x.numpy_dtype, x.shape), normalize_dim(dim, x.ndim)).blocks


class Logcumsumexp(Scan):
    """log(exp(x[0]) + ... + exp(x[i])) for each place i along a dim."""

    name = "_logcumsumexp"
    reference = along_axis(lambda x, dim: np.logaddexp.accumulate(x, dim))

    def plan(x_layout, dim, backwards=False):
        if x_layout.dtype.category < 2:
            raise not_implemented_for("logcumsumexp_out_cpu", x_layout.dtype)
        layout, blocks = intern(x_layout.numpy_dtype, x_layout.shape), _blocks(x_layout, dim)
        kernel = kernels.complex_logcumsumexp if x_layout.dtype.is_complex else kernels.logcumsumexp
        return Launches([(kernel, row_major("x", x_layout, blocks), Written(0, blocks), backwards)], [layout])

    def grad_x(g, out, x, dim, backwards):
        """exp(x[j]) * sum(g[i] / exp(out[i])) over i >= j, as logarithms; of real numbers for g > 0 and g < 0 apart."""

        def part(log_g: Any) -> Any:
            return (Logcumsumexp.apply(log_g - out, dim, not backwards) + x).exp()

        if not x._layout.ndim:
            return g
        if x._layout.dtype.is_complex:
            return part(g.conj().log()).conj()
        return part(table.where(g > 0, g, 0).log()) - part(table.where(g < 0, -g, 0).log())

    def tangents(args, tangents):
        """sum(exp(x[j] - out[i]) * t[j]) over j <= i, as logarithms; of real numbers for t > 0 and t < 0 apart."""
        (x, dim, backwards), t = args, tangents[0]
        if not x._layout.ndim:
            return t
        x, t = _lowered(x, dim), widened(t)
        out = Logcumsumexp.apply(x, dim, backwards)
        out = table.where(out.real == -np.inf, 0, out)  # of terms that are all 0 the tangent is 0, not 0 / 0

        def part(log_t: Any) -> Any:
            return (Logcumsumexp.apply(log_t + x, dim, backwards) - out).exp()

        if x._layout.dtype.is_complex:
            return part(t.log())
        found = part(table.where(t > 0, t, 0).log()) - part(table.where(t < 0, -t, 0).log())
        return found.to(args[0]._layout.dtype)

    def kernel_x(g, out, x, dim, backwards):
        return _gradient(g, out, x, dim, backwards)


def _lowered(x: Tensor, dim: int) -> Tensor:
    """``x`` less its largest element along ``dim``: sums with logarithms of small numbers then keep their digits."""
    if x._layout.dtype.is_complex or not x._layout.numel:
        return x
    top = Amax.apply(x.detach(), (dim,), True)
    return widened(x) - table.where(table.isfinite(top), top, 0)


@planned("g", "out", "x")
def _gradient(g, out, x, dim, backwards):
    blocks, layout = _blocks(x, dim), intern(x.numpy_dtype, x.shape)
    arrays = [row_major(name, t, blocks) for name, t in (("g", g), ("x", x), ("out", out))]
    return Launches([(kernels.logcumsumexp_gradient, *arrays, Written(0, blocks), backwards)], [layout])


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(exp(x[0]) + ... + exp(x[i])) for each place i along ``dim``, without overflow."""
    return Logcumsumexp.apply(input, int_argument("logcumsumexp", "dim", 2, dim))


for _function in (cummax, cummin, logcumsumexp):
    public(takes_out(_function))
