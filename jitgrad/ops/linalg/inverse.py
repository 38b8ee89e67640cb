"""Inverse matrices, by their LU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.kernels.loops import small_matrices
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    check_floating,
    check_square,
    column_major,
    is_small,
    row_major,
    with_check,
)  # fmt: skip
from jitgrad.ops.linalg.lu import factored
from jitgrad.ops.linalg.matmul import matmul

__all__ = ["LinalgInvEx"]


class LinalgInvEx(BatchedMatrices):
    """(inverse, info): info is the place of a zero on U's diagonal, where a matrix is singular.

    ``op``: the function that raises an error then, "" for none.
    """

    multiple_results, results = True, ("inverse", "info")
    samples = cases(lambda: (draw(3, 3),), lambda: (draw_complex(2, 2, 2),))
    reference = lambda x, op="": (np.linalg.inv(x), np.zeros(x.shape[:-2], np.int32))

    def plan(x_layout, op=""):
        batch, n = x_layout.shape[:-2], x_layout.shape[-1]
        layouts = [column_major(x_layout.numpy_dtype, batch, n, n), row_major(np.int32, batch)]
        launches = [(kernels.inverse, Read("x"), Written(0), Written(1))]
        if is_small(x_layout):
            factor, (lu, pivots, _) = factored(x_layout, (2, 3, 1))
            launches = [factor, (small_matrices.inverse, *factor[2:], Written(0, "columns"))]
            layouts += [lu, pivots]
        return with_check(op, Launches(launches, layouts, 2))

    def grad_x(g, inverse):
        turned = adjoint(inverse)
        return -matmul(turned, matmul(g[0], turned))


def _inverse(x: Tensor, op: str) -> Any:
    check_floating("linalg.inv", x._layout, half=False)
    check_square("linalg.inv", x._layout)
    return LinalgInvEx.apply(x, op)


@takes_out
def linalg_inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError where one is singular."""
    return _inverse(A, "linalg.inv")[0]


@takes_out
def linalg_inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): where a matrix is singular ``info`` is the place of the first zero on U's diagonal.

    With ``check_errors`` LinAlgError is raised there.
    """
    return return_types.linalg_inv_ex(*_inverse(A, "linalg.inv_ex" if as_flag(check_errors) else ""))


public(linalg_inv, module="linalg")
public(linalg_inv_ex, module="linalg")


@public
@takes_out
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError where one is singular."""
    return _inverse(input, "linalg.inv")[0]


@takes_out
def linalg_tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor that is read as a matrix: its first ``ind`` dims are the rows, the others the columns."""
    A = input
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind', but got " f"{ind}")
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{columns} != {rows}"
        )
    inverted = _inverse(A.reshape(rows, rows), "linalg.inv")[0]
    return inverted.reshape(*A.shape[ind:], *A.shape[:ind])


public(linalg_tensorinv, module="linalg")
