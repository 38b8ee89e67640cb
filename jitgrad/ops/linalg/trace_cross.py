"""The trace of a matrix, and the cross product of vectors of three elements."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import expected_scalar_type, not_implemented_for
from jitgrad.core.layout import broadcast_shapes, intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.batch_rules import BatchedCall, rewritten
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops.cross import cross as cross_loop
from jitgrad.kernels.loops.reduction import sum_rows
from jitgrad.ops.creation.fill import read_diagonal
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.reduction.reduction_plan import plan_reduction
from jitgrad.ops.reduction.sums import sum_values
from jitgrad.ops.shape.expand import Expand
from jitgrad.ops.shape.slicing import Diagonal, Embedded

__all__ = ["Cross", "Trace", "linalg_cross"]


class Trace(Structured, public=True):
    """Sum of the diagonal of a matrix; int64 for whole numbers. RuntimeError for what is no matrix."""

    linear = ("x",)
    batch = rewritten(lambda call, x: _trace_of_each(x))
    samples = cases(lambda: (draw(3, 3),), lambda: (draw(2, 4).t(),))
    reference = np.trace

    def plan(x_layout):
        _check_matrix(x_layout.ndim)
        dtype = x_layout.dtype
        if dtype.category == 0:
            raise not_implemented_for("trace", dtype)
        read = read_diagonal(x_layout, 0, 1)
        if read is None:
            return _trace
        diagonal = intern(x_layout.numpy_dtype, read[2].view)
        total = intern(x_layout.numpy_dtype if dtype.category >= 2 else int64.numpy, ())
        summing = sum_rows, Written(1, (1, diagonal.numel)), Written(0, (1,))
        return Launches([read, summing], [total, diagonal])

    def grad_x(g, x_layout):
        return Embedded.apply(Expand.apply(g, (min(x_layout.shape),)), x_layout, Diagonal, (0, 0, 1))


def _trace(x: Tensor) -> Tensor:
    """The trace of a matrix of any strides, on any device."""
    diagonal = Diagonal.forward(x, 0, 0, 1)
    return sum_values(diagonal, plan_reduction(diagonal._layout, 0), None)


def _check_matrix(ndim: int) -> None:
    if ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {ndim}")


def _trace_of_each(x: Tensor) -> Tensor:
    _check_matrix(x._layout.ndim - 1)
    return x.diagonal(0, 1, 2).sum(-1)


def _cross_batched(call: BatchedCall) -> Tensor:
    return call.run(x=call.whole("x"), y=call.whole("y"))


class Cross(Structured):
    """Cross products of the vectors along ``dim``, counted from the end; the two are of one shape, there 3."""

    linear = ("x", "y")
    batch = _cross_batched
    name, grad_name = "linalg_cross", "LinalgCrossBackward0"
    samples = cases(lambda: (draw(2, 3), draw(2, 3, seed=1), -1), lambda: (draw(3, 2), draw(3, 2, seed=1), -2))
    reference = lambda x, y, dim: np.cross(x, y, axis=dim)

    def plan(x_layout, y_layout, dim):
        shape, at = x_layout.shape, x_layout.ndim + dim
        blocks = math.prod(shape[:at]), 3, math.prod(shape[at + 1 :])
        arrays = row_major("x", x_layout, blocks), row_major("y", y_layout, blocks), Written(0, blocks)
        return Launches([(cross_loop, *arrays)], [intern(x_layout.numpy_dtype, shape)])

    def grad_x(g, y, dim):
        return Cross.apply(conj(y), g, dim)

    def grad_y(g, x, dim):
        return Cross.apply(g, conj(x), dim)


@partial(public, module="linalg")
@takes_out
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of the vectors along ``dim``, of size 3; the two broadcast.

    RuntimeError where sizes or dtypes do not fit.
    """
    if input._layout.ndim != other._layout.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if not input._layout.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    d = normalize_dim(dim, input._layout.ndim)
    a, b = input._layout.shape[d], other._layout.shape[d]
    if a != 3 or b != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {a} and {b}")
    if input.dtype is not other.dtype:
        raise expected_scalar_type(input.dtype, other.dtype)
    if input._layout.dtype.category == 0:
        raise not_implemented_for("cross", input.dtype)
    shape = input._layout.shape
    if shape == other._layout.shape:
        return Cross.apply(input, other, d - len(shape))
    shape = broadcast_shapes(shape, other._layout.shape)
    x, y = [t if t._layout.shape == shape else t.expand(shape) for t in (input, other)]
    return Cross.apply(x, y, d - len(shape))


@public
@takes_out
def cross(input: Tensor, other: Tensor, dim: Any = None) -> Tensor:
    """Cross products of the vectors along ``dim``; without it along the first dim of size 3, with a warning."""
    if dim is not None:
        return linalg_cross(input, other, dim=dim)
    warn_once(
        "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
        "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a "
        "future release."
    )
    if 3 not in input._layout.shape:
        raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=input._layout.shape.index(3))
