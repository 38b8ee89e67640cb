"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import must_be, not_implemented_for
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.sizes import as_flag, dims_argument, int_argument
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.loops import softmax as kernels
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.reduction.along_dims import AlongDim, Reduction, along_axis, over_axes
from jitgrad.ops.reduction.extrema import Amax
from jitgrad.ops.reduction.reduction_plan import plan_reduction, unrecorded, with_reduced_dims
from jitgrad.ops.reduction.sums import SumDim
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.view import UnsafeView

__all__ = ["along"]

def along(rows: Kernel, columns: Kernel, dim: int, **inputs: Layout) -> Any:
    """Plan the launch of a kernel that works along ``dim`` on tensors of one shape; the result has it too.

    ``rows`` takes arrays (outer, n), for the last dim, ``columns`` (outer, n, inner). inputs: layouts by the tensors'
    names, the last of which has the result's dtype.
    """
    layout = list(inputs.values())[-1]
    out = intern(layout.numpy_dtype, layout.shape, None, layout.device)
    if not out.numel:
        normalize_dim(dim, out.ndim)
        return lambda *_: wrap(empty_for(out), out)
    shape = plan_reduction(out, dim).source
    arrays = [row_major(name, x, shape) for name, x in inputs.items()]
    return Launches([(rows if len(shape) == 2 else columns, *arrays, Written(0, shape))], [out])


def _check(op: str, x: Layout, dim: int) -> None:
    if not x.dtype.is_floating_point and x.numel:  # PyTorch returns what is empty before it looks at the dtype
        # PyTorch has a kernel of its own for the last dim, which its error names.
        last = normalize_dim(dim, x.ndim) == x.ndim - 1
        raise not_implemented_for(f"{op}{'_lastdim' if last else ''}_kernel_impl", x.dtype)


class Softmax(AlongDim):
    """exp(x) / sum(exp(x)) along ``dim``."""

    name = "_softmax"
    reference = along_axis(lambda x, axis: np.exp(x) / np.exp(x).sum(axis, keepdims=True))

    def plan(x_layout, dim):
        _check("softmax", x_layout, dim)
        return along(kernels.softmax_rows, kernels.softmax_columns, dim, x=x_layout)

    def grad_x(g, out, dim):
        # The Jacobian is diag(out) - out outᵀ along ``dim``, and symmetric.
        return out * (g - SumDim.apply(g * out, dim, True))

    @planned("g", "out")
    def kernel_x(g, out, dim):
        return along(kernels.softmax_rows_gradient, kernels.softmax_columns_gradient, dim, g=g, out=out)


class LogSoftmax(AlongDim):
    """x - log(sum(exp(x))) along ``dim``."""

    name = "_log_softmax"
    reference = along_axis(lambda x, axis: x - np.log(np.exp(x).sum(axis, keepdims=True)))

    def plan(x_layout, dim):
        _check("log_softmax", x_layout, dim)
        return along(kernels.log_softmax_rows, kernels.log_softmax_columns, dim, x=x_layout)

    def grad_x(g, out, dim):
        # The derivative of the logarithm of the sum is the softmax, which is exp(out).
        return g - out.exp() * SumDim.apply(g, dim, True)

    @planned("g", "out")
    def kernel_x(g, out, dim):
        return along(kernels.log_softmax_rows_gradient, kernels.log_softmax_columns_gradient, dim, g=g, out=out)


def _dim(op: str, dim: Any) -> int:
    return int_argument(op, "dim", 2, dim)


def _required(op: str, dim: Any) -> int:
    if dim is ...:
        raise TypeError(f'{op}() missing 1 required positional arguments: "dim"')
    return _dim(op, dim)


@public
@numpy_names
def softmax(input: Tensor, dim: int = ..., dtype: Any = None) -> Tensor:  # type: ignore[assignment]
    """exp(x) / sum(exp(x)) along ``dim``, in ``dtype`` if given.

    NotImplementedError for integers and complex numbers, IndexError for a dim out of range.
    """
    dim = _required("softmax", dim)
    wanted = as_dtype("softmax", dtype)
    return Softmax.apply(input if wanted is None else cast(input, wanted), dim)


@public
@numpy_names
def log_softmax(input: Tensor, dim: int = ..., dtype: Any = None) -> Tensor:  # type: ignore[assignment]
    """Logarithm of softmax along ``dim``: x - logsumexp(x), in ``dtype`` if given.

    NotImplementedError for integers and complex numbers, IndexError for a dim out of range.
    """
    dim = _required("log_softmax", dim)
    wanted = as_dtype("log_softmax", dtype)
    return LogSoftmax.apply(input if wanted is None else cast(input, wanted), dim)


def softmin(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax of -x along ``dim``."""
    return softmax(-input, _dim("softmin", dim), dtype)


public(softmin, method_too=False)


class Logsumexp(Reduction):
    """log(sum(exp(x))) over ``dim``, an int or several, without overflow; -inf where there is nothing."""

    name = "_logsumexp"
    samples = cases(
        lambda: (draw(3, 4), 1),
        lambda: (draw(2, 3, 4), (0, 2), True),
        lambda: (draw(4, 3).t(), 0),
        lambda: (draw(2, 3) + draw(2, 3, seed=1) * 1j, 1),
    )
    reference = over_axes(lambda x, **along: np.log(np.exp(x).sum(**along)))

    def plan(x_layout, dim, keepdim=False):
        if x_layout.dtype.is_complex:
            return lambda x: _complex_logsumexp(unrecorded(x), dim, keepdim)
        # Integers and bools have exponentials in the default dtype.
        if x_layout.dtype.category < 2:
            return lambda x: Logsumexp.forward(unrecorded(x, dtypes.get_default_dtype()), dim, keepdim)
        plan = plan_reduction(x_layout, dim, keepdim)
        kernel = kernels.logsumexp_rows if plan.flat else kernels.logsumexp_columns
        return Launches([(kernel, plan.blocks_of("x"), Written(0, plan.target))], [plan.layout(x_layout.numpy_dtype)])

    def grad_x(g, out, x, dim, keepdim):
        layout = x._layout
        share = (x - with_reduced_dims(out, layout, dim, keepdim)).exp()
        return with_reduced_dims(g, layout, dim, keepdim) * (share.conj() if layout.dtype.is_complex else share)


def _complex_logsumexp(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """``logsumexp`` of complex numbers, unrecorded: the largest real part is taken out of the exponentials."""
    if not x._layout.numel:
        return SumDim.apply(x, dim, keepdim).log()
    largest = Amax.apply(x.real, plan_reduction(x._layout, dim).dims, True)
    largest = table.where(largest.isinf(), 0, largest)
    out = SumDim.apply((x - largest).exp(), dim, True).log() + largest
    return out if keepdim else UnsafeView.forward(out, plan_reduction(x._layout, dim).shape)


@public
@numpy_names
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over ``dim``, an int or several, without overflow; -inf where there is nothing."""
    if keepdim is not False and keepdim is not True:  # 1 would find the plan of True
        keepdim = as_flag(keepdim)
    if dim is None:
        raise must_be("logsumexp", "dim", 2, "tuple of ints", dim)
    return Logsumexp.apply(input, dim if type(dim) is int else dims_argument(dim), keepdim)
