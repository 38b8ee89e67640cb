"""Distances: of the rows of two matrices, of those of one, of two tensors."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import expected_scalar_type, must_be_tensor, scalar_type
from jitgrad.core.layout import Layout, broadcast_shapes, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import float_argument, number_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import distances as kernels
from jitgrad.ops.linalg.batched_matrices import transposed
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.reduction.sums import SumDim
from jitgrad.ops.reduction.vector_norm import norm
from jitgrad.ops.shape.copy import cast

__all__: list[str] = []


def _slopes(differences: Tensor, g: Tensor, distances: Tensor, p: float) -> Tensor:
    """The gradient of differences (*, d) by their distances (*) of order p: 0 where a distance is 0."""
    if p == 0:
        return differences.new_zeros(differences.shape)
    where, g, distances = table.where, g.unsqueeze(-1), distances.unsqueeze(-1)
    if p == 1:
        return differences.sign() * g
    size = differences.abs()
    if math.isinf(p):
        return where(size == distances, differences.sign() * g, 0.0)
    common = where(distances == 0, 0.0, g / where(distances == 0, 1.0, distances) ** (p - 1))
    if p == 2:
        return differences * common
    # Where an element is 0 a power below 2 has an infinite derivative, which is not to meet the 0 before it.
    powers = where(size == 0, 0.0, where(size == 0, 1.0, size) ** (p - 1))
    return differences.sign() * powers * common


def _in_stacks(call: BatchedCall) -> Any:
    return call.run(x1=call.whole("x1"), x2=call.whole("x2"))


class Cdist(Structured):
    """Distances of order p of the rows of x1 (*, n, d) to the rows of x2 (*, m, d)."""

    name, grad_name = "_cdist_forward", "CdistBackward0"
    samples = cases(
        lambda: (draw(3, 4), draw(2, 4, seed=1), 2.0),
        lambda: (draw(2, 3, 4), draw(2, 2, 4, seed=1), 1.0),
        lambda: (draw(3, 4), draw(2, 4, seed=1), math.inf),
        lambda: (draw(4, 3).t(), draw(4, 2, seed=1).t(), 2.5),
        lambda: (draw(3, 2), draw(2, 2, seed=1), 1.5),
    )

    batch = _in_stacks

    def plan(x1_layout, x2_layout, p):
        _check_rows(x1_layout, x2_layout, p)
        *lead, n, d = x1_layout.shape
        m, stack = x2_layout.shape[-2], math.prod(lead)
        dtype, pairs, columns = x1_layout.numpy_dtype, (stack, n, m), Written(1)
        turned = kernels.turn, row_major("x2", x2_layout, (stack, m, d)), columns
        first = row_major("x1", x1_layout, (stack, n, d))
        found = kernels.between, first, columns, Written(0, pairs), kernels.kind_of(p), p
        return Launches([turned, found], [intern(dtype, (*lead, n, m)), intern(dtype, (stack, d, m))])

    def grad_x1(g, out, x1, x2, p):
        if p == 2:  # without a tensor of all differences
            return _by_products(x1, x2, table.where(out == 0, 0.0, g / table.where(out == 0, 1.0, out)))
        return SumDim.apply(_slopes(x1.unsqueeze(-2) - x2.unsqueeze(-3), g, out, p), -2, False)

    def grad_x2(g, out, x1, x2, p):
        return Cdist.grad_x1(transposed(g), transposed(out), x2, x1, p)

    def kernels(wants, g, out, x1, x2, p):
        if p != 2 or max(out.shape[-2:]) <= _BY_LOOPS:
            return {}
        found, ratio = {}, _ratios(g, out)  # once for both
        if "x1" in wants:
            found["x1"] = _by_products(x1, x2, ratio)
        if "x2" in wants:
            found["x2"] = _by_products(x2, x1, transposed(ratio))
        return found

    def kernel_x1(g, out, x1, x2, p):
        return _gradient(x1, x2, g, out, p)

    def kernel_x2(g, out, x1, x2, p):
        return _gradient(x2, x1, transposed(g), transposed(out), p)


@planned("x", "y", "g", "distances")
def _gradient(x, y, g, distances, p):
    *lead, n, d = x.shape
    m, stack = y.shape[-2], math.prod(lead)
    rows, others, pairs = (stack, n, d), (stack, m, d), (stack, n, m)
    arrays = [row_major(name, layout, shape) for name, layout, shape in
              (("x", x, rows), ("y", y, others), ("g", g, pairs), ("distances", distances, pairs))]  # fmt: skip
    out = intern(x.numpy_dtype, x.shape)
    return Launches([(kernels.between_gradient, *arrays, Written(0, rows), kernels.kind_of(p), p)], [out])


# So many rows PyTorch takes before it finds distances of order 2 by products; gradients by them are quicker.
_BY_LOOPS = 25


def _by_products(x: Tensor, y: Tensor, ratio: Tensor) -> Tensor:
    """The gradient of x by distances of order 2 to y, from the quotients of their gradients and themselves."""
    return x * SumDim.apply(ratio, -1, True) - matmul(ratio, y)


@planned("g", "distances")
def _ratios(g, distances):
    flat = (g.numel,)
    arrays = row_major("g", g, flat), row_major("distances", distances, flat)
    return Launches([(kernels.ratios, *arrays, Written(0, flat))], [intern(g.numpy_dtype, g.shape)])


def _check_rows(a: Layout, b: Layout, p: float) -> None:
    """RuntimeError unless there are distances of order ``p`` of the rows of two stacks of matrices."""
    for name, layout in (("X1", a), ("X2", b)):
        if layout.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {layout.ndim}D")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {a.shape[-1]} X2: {b.shape[-1]}")
    for name, layout in (("X1", a), ("X2", b)):
        if not layout.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {scalar_type(layout.dtype)}")
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if a.dtype is not b.dtype:
        raise expected_scalar_type(a.dtype, b.dtype)


_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@partial(public, method_too=False)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = _MODES[0]) -> Tensor:
    """The distances of order ``p`` of each of the rows of x1 (*, n, d) to each of x2 (*, m, d), as (*, n, m).

    The dims before the last two broadcast. p = 0 counts the elements that differ. ``compute_mode`` is accepted.
    RuntimeError where sizes or dtypes do not fit.
    """
    if compute_mode is not None and compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    p = p if type(p) is float else float_argument("cdist", "p", 3, p)
    if x1._layout.dtype is not x2._layout.dtype and not (x1._layout.numel and x2._layout.numel):
        if x1._layout.dtype.is_floating_point and x2._layout.dtype.is_floating_point:
            x2 = cast(x2, x1._layout.dtype)  # without elements PyTorch's kernel, which refuses, is not reached
    a, b = x1._layout.shape, x2._layout.shape
    if a[:-2] != b[:-2]:
        _check_rows(x1._layout, x2._layout, p)
        lead = tuple(broadcast_shapes(a[:-2], b[:-2]))
        x1, x2 = (x if x._layout.shape[:-2] == lead else x.expand(*lead, *x._layout.shape[-2:]) for x in (x1, x2))
    return Cdist.apply(x1, x2, p)


class Pdist(Structured):
    """Distances of order p of each row of x (n, d) to each behind it."""

    name, grad_name = "_pdist_forward", "PdistBackward0"
    samples = cases(*[partial(lambda p: (draw(4, 3), p), p) for p in (2.0, 1.0, 1.5, 3.0, math.inf)])

    def plan(x_layout, p):
        if x_layout.ndim != 2:
            raise RuntimeError(f"pdist only supports 2D tensors, got: {x_layout.ndim}D")
        if not x_layout.dtype.is_floating_point:
            raise RuntimeError("pdist only supports floating-point dtypes")
        if p < 0:
            raise RuntimeError("pdist only supports non-negative p values")
        n, d = x_layout.shape
        dtype, columns = x_layout.numpy_dtype, Written(1)
        turned = kernels.turn, row_major("x", x_layout, (1, n, d)), Written(1, (1, d, n))
        found = kernels.within, row_major("x", x_layout, (n, d)), columns, Written(0), kernels.kind_of(p), p
        return Launches([turned, found], [intern(dtype, (n * (n - 1) // 2,)), intern(dtype, (d, n))])

    def grad_x(g, out, x, p):
        n = x._layout.shape[0]
        first, second = np.triu_indices(n, 1)
        first, second = (x.new_tensor(i, dtype=int64) for i in (first, second))
        slopes = _slopes(x.index_select(0, first) - x.index_select(0, second), g, out, p)
        return x.new_zeros(x.shape).index_add(0, first, slopes).index_add(0, second, -slopes)

    @planned("g", "out", "x")
    def kernel_x(g, out, x, p):
        arrays = [row_major(name, layout, layout.shape) for name, layout in (("x", x), ("g", g), ("out", out))]
        result = intern(x.numpy_dtype, x.shape)
        return Launches([(kernels.within_gradient, *arrays, Written(0), kernels.kind_of(p), p)], [result])


@partial(public, method_too=False)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of order ``p`` of each row of a matrix (n, d) to each behind it, as (n (n - 1) / 2)."""
    return Pdist.apply(input, p if type(p) is float else float_argument("pdist", "p", 2, p))


public(pdist, module="nn.functional")


@public
@takes_out
def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The norm of order ``p`` of the difference of two tensors, which broadcast."""
    for place, (name, x) in enumerate((("input", input), ("other", other)), 1):
        if not isinstance(x, Tensor):
            raise must_be_tensor("dist", name, place, x)
    difference = input - other
    if difference._layout.dtype.category < 2:
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{scalar_type(difference.dtype)} instead."
        )
    return norm(difference, number_argument("dist", "p", 3, p))
