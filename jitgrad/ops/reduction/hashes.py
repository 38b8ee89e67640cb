"""Numbers that tell whether tensors hold the same values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.dtypes import float64, int64, uint64
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_samples import cases
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import as_flag, dims_argument
from jitgrad.kernels.loops import extrema as kernels
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.reduction.along_dims import Reduction
from jitgrad.ops.reduction.reduction_plan import plan_reduction, unrecorded
from jitgrad.ops.shape.dtype_view import ViewAsDtype

__all__: list[str] = []


def _numbers(*shape: int) -> Tensor:
    return tensor(np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) * 7 - 9)


class XorSum(Reduction):
    """The exclusive or of the bits of int64 elements over ``dim``."""

    samples = cases(lambda: (_numbers(2, 3),), lambda: (_numbers(2, 3, 2), 1, True))
    reference = lambda x, dim=None, keepdim=False: np.bitwise_xor.reduce(x, dim, keepdims=keepdim)

    def forward(x, dim=None, keepdim=False):
        plan = plan_reduction(x._layout, dim, keepdim)
        return plan.reduce((kernels.xor_rows, kernels.xor_columns), x, x._layout.numpy_dtype)


@method
def hash_tensor(input: Tensor, dim: Any = None, keepdim: bool = False, *, mode: int = 0) -> Tensor:
    """The exclusive or of the elements' bits, as float64 or int64, over ``dim``, by default of all; a uint64.

    RuntimeError for another ``mode`` than 0, and where no dim is named to reduce nothing; NotImplementedError for
    complex numbers and uint64.
    """
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dtype = input._layout.dtype
    if dtype.is_complex or dtype is uint64:
        raise not_implemented_for("xor_sum_cpu", dtype)
    dims = dims_argument(dim)
    if not input._layout.numel:
        if dims is None or dims == ():
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        for d in plan_reduction(input._layout, dims).dims:
            if not input._layout.shape[d]:
                raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    wide = unrecorded(input).resolve_neg().to(float64 if dtype.is_floating_point else int64)
    found = XorSum.apply(ViewAsDtype.apply(wide, int64), dims, as_flag(keepdim))
    return ViewAsDtype.apply(found, uint64).detach()


public(takes_out(hash_tensor), method_too=False)
