"""Vector norms: lengths of what is reduced, of any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, planned, row_major
from jitgrad.dispatch.registry import public, published
from jitgrad.dispatch.sizes import as_flag, dims_argument, number_argument
from jitgrad.kernels.loops import moments as kernels
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.reduction.along_dims import Reduction
from jitgrad.ops.reduction.extrema import Amax, Amin
from jitgrad.ops.reduction.reduction_plan import FULL, ReductionPlan, plan_reduction, unrecorded, with_reduced_dims
from jitgrad.ops.reduction.sums import SumDim, sum_values
from jitgrad.ops.shape.copy import cast

__all__ = ["VectorNorm"]


NORMS = (kernels.norm_rows, kernels.norm_columns)
POWERS = (kernels.powers_rows, kernels.powers_columns)


def _norm_values(x: Tensor, order: float, plan: ReductionPlan) -> Tensor:
    """The norms of ``x``, unrecorded, by ops of their own: of order 0, in another dtype, and on other devices."""
    if order == 2:
        return plan.reduce(NORMS, x, x._layout.dtype.to_real().numpy)
    size = unrecorded(x).abs()  # real, of complex numbers too
    dims, keepdim = plan.dims, len(plan.shape) == len(plan.ones)
    if math.isinf(order):
        return (Amax if order > 0 else Amin).apply(size, dims, keepdim)
    if order == 0:
        return sum_values(cast(size != 0, size.dtype), plan, None)
    if order == 1:
        return sum_values(size, plan, None)
    return sum_values(size**order, plan, None) ** (1 / order)


def _check_identity(x: Layout, order: float, dim: Any, plan: ReductionPlan) -> None:
    """RuntimeError where there is nothing to reduce, for an order whose norm of nothing is no number."""
    empty = next((d for d in plan.dims if x.ndim and not x.shape[d]), None)
    if empty is None:
        return
    where = "on an empty tensor " if dim is None or dim == () else f"on the dimension {empty}"
    raise RuntimeError(
        f"linalg.vector_norm cannot compute the {order:g} norm {where}because "
        f"{'' if dim is None or dim == () else 'this dimension is empty and '}the operation does not have an identity"
    )


def _direction(x: Tensor) -> Tensor:
    """x / |x|, and 0 for 0."""
    return x.sgn() if x._layout.dtype.is_complex else x.sign()


def _divisor(out: Tensor) -> Tensor:
    """``out`` with 1 for 0: a quotient by 0 has an infinite derivative, and 0 times that is NaN."""
    return table.where(out == 0, 1, out)


def _norm_gradient(g: Tensor, out: Tensor, x: Tensor, order: float) -> Tensor:
    """x / |x| * |x|**(p - 1) * g / out**(p - 1), with ``g`` and ``out`` in shapes that broadcast against ``x``.

    Zero where the norm or the element is 0, where the formula has no value: PyTorch takes that subgradient.
    """
    where = table.where
    if order == 1:
        return _direction(x) * g
    if order == 2:
        return x * where(out == 0, 0, g / _divisor(out))
    if math.isinf(order):
        # All elements as large as the norm share the gradient, as in amax; NaN, equal to nothing, is told by isnan.
        hit = (x.abs() == out) | (x.isnan() & out.isnan())
        share = cast(hit, g._layout.dtype)
        dims = tuple(d for d, n in enumerate(out.shape) if n == 1)
        return _direction(x) * share * (g / SumDim.apply(share, dims, True))
    scale = where(out == 0, 0, g / _divisor(out) ** (order - 1))
    # Below 2, |x|**(p - 2) is infinite at 0; above, x * |x|**(p - 2) needs no sign and is right at 0 by itself.
    if order < 2:
        size = x.abs()
        return _direction(x) * where(size == 0, 0, size ** (order - 1)) * scale
    return x * x.abs() ** (order - 2) * scale


def _norm_of(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    size = np.abs(x)
    if math.isinf(ord):
        return (np.max if ord > 0 else np.min)(size, dim, keepdims=keepdim)
    # ord 0 counts the elements that are not 0: the limit of the sum of powers, without its root.
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

    def plan(x_layout, ord=2, dim=None, keepdim=False, dtype=None):
        x = x_layout
        if x.dtype.category < 2:
            raise RuntimeError(
                f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {scalar_type(x.dtype)}"
            )
        plan = plan_reduction(x, dim, keepdim)
        if not x.numel and (ord < 0 or math.isinf(ord)):
            _check_identity(x, ord, dim, plan)
        if ord == 2 and dtype is None:
            return plan.launches(NORMS, x.dtype.to_real().numpy)
        if ord != 0 and dtype is None and x.device == "cpu":
            return plan.launches(POWERS, x.dtype.to_real().numpy, kernels.kind_of(ord), float(ord))
        return lambda x: _cast_norm(unrecorded(x, dtype), ord, dim, keepdim)

    def grad_x(g, out, x, ord, dim, keepdim):
        layout = x._layout
        if ord == 0:
            return None  # a count is constant wherever it has a derivative
        out, g = with_reduced_dims(out, layout, dim, keepdim), with_reduced_dims(g, layout, dim, keepdim)
        # Where the norm was taken in another dtype, so is its gradient; it is real for complex ``x`` too.
        if g._layout.dtype is not layout.dtype.to_real():
            x = cast(x, g._layout.dtype.to_complex() if layout.dtype.is_complex else g._layout.dtype)
        return cast(_norm_gradient(g, out, x, ord), layout.dtype)

    @planned("g", "out", "x")
    def kernel_x(g, out, x, ord, dim, keepdim):
        plan = plan_reduction(x, dim, keepdim)
        if ord != 2 or not plan.natural or not x.dtype.is_floating_point or not g.dtype is out.dtype is x.dtype:
            return VectorNorm.grad_x
        shape = plan.blocks[::2]
        arrays = row_major("g", g, shape), row_major("out", out, shape), Read("x", plan.blocks)
        result = intern(x.numpy_dtype, x.shape, None, x.device)
        return Launches([(kernels.norm_gradient, *arrays, Written(0, plan.blocks))], [result])


def _cast_norm(x: Tensor, order: float, dim: Any, keepdim: bool) -> Tensor:
    return _norm_values(x, order, plan_reduction(x._layout, dim, keepdim))


def _order(p: Any) -> float:
    """The order that ``norm`` is given by a name, None, or a number of NumPy or in a tensor."""
    if p is None or isinstance(p, str):
        return 2
    number = number_argument("norm", "p", 2, p)
    if isinstance(number, (complex, np.complexfloating)):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    return float(number)


@public
@takes_out
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Vector norm of order ``p`` over ``dim``, by default of all elements; "fro" is 2.

    inf and -inf give the largest and smallest magnitude, 0 the number of elements that are not 0. "nuc" is the sum of
    the singular values of a matrix.
    """
    if isinstance(p, str) and (p != "fro" or (isinstance(dim, (tuple, list)) and len(dim) > 2)):
        of_matrix: Any = published("linalg.matrix_norm")
        dims = tuple(range(input._layout.ndim)) if dim is None or dim is FULL else dim
        return of_matrix(input, p, dims, keepdim, dtype=dtype)
    order = p if isinstance(p, (int, float)) else _order(p)
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    dims = None if dim is FULL else dims_argument(dim)
    wanted = as_dtype("norm", dtype)
    if wanted is not None and wanted.category < 2:
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got {scalar_type(wanted)}"
        )
    return VectorNorm.apply(input, order, dims, keepdim, wanted)
