"""The exponential of matrices."""

from __future__ import annotations

import math
from functools import partial

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written
from jitgrad.dispatch.planned import row_major as row_major_array
from jitgrad.dispatch.registry import public
from jitgrad.kernels.loops import spectral as kernels
from jitgrad.ops.linalg.batched_matrices import BatchedMatrices, adjoint, check_floating, check_square, row_major
from jitgrad.ops.shape.join import cat

__all__ = ["LinalgMatrixExp"]


class LinalgMatrixExp(BatchedMatrices):
    """1 + x + x x / 2 + ... of each matrix."""

    name = "_linalg_matrix_exp"
    samples = cases(lambda: (draw(3, 3),), lambda: (draw(2, 2, 2).mT,))

    def plan(x_layout):
        check_square("linalg.matrix_exp", x_layout)
        check_floating("linalg.matrix_exp", x_layout)
        batch, n = x_layout.shape[:-2], x_layout.shape[-1]
        stack = math.prod(batch), n, n
        out = row_major(x_layout.numpy_dtype, batch, n, n)
        return Launches([(kernels.matrix_exp, row_major_array("x", x_layout, stack), Written(0, stack))], [out])

    def grad_x(g, x):
        # exp of [[X, G], [0, X]] has on its right the derivative of exp at X in the direction of G (Mathias 1996).
        x, n = adjoint(x), x._layout.shape[-1]
        blocks = cat([cat([x, g], -1), cat([x.new_zeros(()).expand(x.shape), x], -1)], -2)
        return LinalgMatrixExp.apply(blocks).narrow(-2, 0, n).narrow(-1, n, n)


@partial(public, module="linalg")
def linalg_matrix_exp(A: Tensor) -> Tensor:
    """The exponential 1 + A + A A / 2 + ... of square matrices (*, n, n). RuntimeError for what is not square."""
    return LinalgMatrixExp.apply(A)


@public
def matrix_exp(input: Tensor) -> Tensor:
    """``linalg.matrix_exp``, as a method too."""
    return LinalgMatrixExp.apply(input)
