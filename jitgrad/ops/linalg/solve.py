"""Systems of linear equations, by the LU of their matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.layout import Layout, broadcast_shapes, intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    check_dtypes,
    check_factors,
    check_floating,
    check_matrix,
    check_numbers,
    check_square,
    column_major,
    is_small,
    kept,
    row_major,
    whole_batches,
    with_check,
)  # fmt: skip
from jitgrad.ops.linalg.lu import LinalgLuFactorEx, factored
from jitgrad.ops.linalg.lu_solve import LinalgLuSolve, small_systems, solved_by_lu
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.shape.expand import Expand, Unsqueeze

__all__ = ["LinalgSolveEx"]


def _is_vector(a: Layout, b: Layout) -> bool:
    """Whether right-hand sides are vectors: one, or one for each matrix."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solution(a: Any, b: Any, left: bool = True, op: str = "") -> Any:
    lu, pivots, info = LinalgLuFactorEx.reference(a)
    vectors = b.ndim < a.ndim
    b = b[..., None] if vectors else b
    x = np.linalg.solve(a, b) if left else np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
    return x[..., 0] if vectors else x, lu, pivots, info


def _with_vectors(call: BatchedCall) -> Any:
    return whole_batches(call, B=1 if call.ndim("B") < call.ndim("A") else 2)


class LinalgSolveEx(BatchedMatrices):
    """(X of A X = B or, not ``left``, X A = B, LU, pivots, info); of one dim less B are vectors.

    ``op``: the function that raises an error where a matrix is singular, "" for none.
    """

    multiple_results, results, constants = True, ("result", "LU", "pivots", "info"), ("LU",)
    samples = cases(
        lambda: (draw(3, 3), draw(3, 2)), lambda: (draw(2, 3, 3), draw(2, 2, 3), False),
        lambda: (draw_complex(2, 2), draw_complex(2)),
    )  # fmt: skip
    reference = _solution

    batch = _with_vectors

    def plan(A_layout, B_layout, left=True, op=""):
        check_numbers("lu_cpu", A_layout)
        factor, (lu, pivots, info) = factored(A_layout, (1, 2, 3), "A")
        layouts = [_solved_layout(A_layout, B_layout, left), lu, pivots, info]
        solve = [(kernels.lu_solve, Written(1), Written(2), Read("B"), Written(0), left, False)]
        if left and is_small(A_layout) and B_layout.numel:
            solve, further = small_systems(*factor[2:4], "B", B_layout, layouts[0], B_layout.ndim < A_layout.ndim, 4)
            layouts += further
        return with_check(op, Launches([factor, *solve], layouts, 4))

    def grad_A(g, A, B_layout, result, left):
        of_b = LinalgSolveEx.apply(adjoint(A), g[0], left)[0]
        return _of_matrix(of_b, result, A._layout, left)

    def grad_B(g, A, left):
        return LinalgSolveEx.apply(adjoint(A), g[0], left)[0]

    def kernels(wants, g, A, B_layout, result, LU, pivots, left):
        of_b = solved_by_lu(LU, pivots, g[0], left)
        return {"B": of_b} | ({"A": _of_matrix(of_b, result, A._layout, left)} if "A" in wants else {})


def _of_matrix(of_b: Tensor, x: Tensor, a: Layout, left: bool) -> Tensor:
    """The gradient of A by that of B."""
    if x._layout.ndim < a.ndim:
        of_b, x = Unsqueeze.apply(of_b, -1), Unsqueeze.apply(x, -1)
    return -matmul(of_b, adjoint(x)) if left else -matmul(adjoint(x), of_b)


def _solved_layout(a: Layout, b: Layout, left: bool) -> Layout:
    """Solutions lie as PyTorch has them: column-major, of X A = B row-major; vectors as columns of their last dims."""
    if b.ndim == a.ndim:
        lay: Any = column_major if left else row_major
        return lay(b.numpy_dtype, b.shape[:-2], *b.shape[-2:])
    return column_major(b.numpy_dtype, b.shape[:-2], *b.shape[-2:]) if b.ndim > 1 else row_major(b.numpy_dtype, b.shape)


@kept
def _plan_system(a: Layout, b: Layout, left: bool) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
    """(whether right-hand sides are vectors, their shape with the batch of both, the batch) of what fits."""
    title = "linalg.solve"
    check_floating(title, a)
    check_dtypes(title, a, b)
    check_square(title, a)
    vectors = _is_vector(a, b)
    if not vectors:
        check_matrix(title, b, "B")
    check_factors(title, a, intern(b.numpy_dtype, (*b.shape, 1)) if vectors else b, left)
    core = b.ndim - (1 if vectors else 2)
    batch = tuple(broadcast_shapes(b.shape[:core], a.shape[:-2]))
    return vectors, (*batch, *b.shape[core:]), batch


def _solve(op: str, A: Tensor, B: Tensor, left: Any) -> tuple[Tensor, Tensor]:
    """(X, info) of checked arguments; ``op``: the function that raises an error for singular matrices, "" for none."""
    left = as_flag(left)
    vectors, shape, batch = _plan_system(A._layout, B._layout, left)
    b = B if B._layout.shape == shape else Expand.apply(B, shape)
    if A._layout.shape[:-2] == batch:
        found = LinalgSolveEx.apply(A, b, left, op)
        return found[0], found[3]
    # One factorisation serves several right-hand sides.
    lu, pivots, info = LinalgLuFactorEx.apply(A, op)
    lu, pivots = Expand.apply(lu, (*batch, *A.shape[-2:])), Expand.apply(pivots, (*batch, A.shape[-1]))
    columns = Unsqueeze.apply(b, -1) if vectors else b
    x = LinalgLuSolve.apply(lu, pivots, columns, left)
    return x.squeeze(-1) if vectors else x, info


@takes_out
def linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B, or of X A = B if not ``left``, for square matrices A; batches broadcast.

    B may be a vector, or a batch of as many vectors as there are matrices. LinAlgError where A is singular.
    """
    return _solve("torch.linalg.solve", A, B, left)[0]


@takes_out
def linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(X, info) as ``solve``: where A is singular, ``info`` is the place of the first zero on U's diagonal."""
    return return_types.linalg_solve_ex(*_solve("torch.linalg.solve_ex" if as_flag(check_errors) else "", A, B, left))


public(linalg_solve, module="linalg")
public(linalg_solve_ex, module="linalg")


@takes_out
def linalg_tensorsolve(input: Tensor, other: Tensor, dims: tuple[int, ...] | None = None) -> Tensor:
    """X of which the product with A over all dims of X is B; ``dims`` of A are moved to its end before."""
    A, B = input, other
    if dims is not None:
        places = [normalize_dim(d, A.ndim) for d in dims]
        A = A.movedim(places, list(range(A.ndim - len(places), A.ndim)))
    rest = A.shape[B.ndim :]
    rows, columns = B.numel(), math.prod(rest)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {rows}"
        )
    return _solve("torch.linalg.solve", A.reshape(rows, rows), B.reshape(rows), True)[0].reshape(*rest)


public(linalg_tensorsolve, module="linalg")
