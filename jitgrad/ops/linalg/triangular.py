"""Systems of linear equations with triangular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.kernels.loops import small_matrices
from jitgrad.ops.creation.fill import Tril, Triu
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    as_rows,
    broadcast_batches,
    check_dtypes,
    check_factors,
    check_matrix,
    check_numbers,
    check_square,
    column_major,
    is_small,
    transposed,
)  # fmt: skip
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.matrix_products import conj

__all__ = ["LinalgSolveTriangular", "TriangularSolve", "check_systems", "triangle"]


def triangle(x: Tensor, upper: bool, unit: bool) -> Tensor:
    """The part of a matrix's gradient that is the triangle's; with ``unit`` without the diagonal."""
    return Triu.apply(x, int(unit)) if upper else Tril.apply(x, -int(unit))


def _solution(a: Any, b: Any, upper: bool, left: bool = True, unit: bool = False) -> Any:
    triangle = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    triangle = triangle + np.eye(a.shape[-1]) * unit
    if left:
        return np.linalg.solve(triangle, b)
    return np.linalg.solve(triangle.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)


class LinalgSolveTriangular(BatchedMatrices):
    """X of A X = B, or, not ``left``, of X A = B; of A one triangle is read, with ``unit`` as if its diagonal was 1."""

    linear = ("b",)
    samples = cases(
        lambda: (draw(3, 3) + 3, draw(3, 2), True),
        lambda: (draw(2, 3, 3) + 3, draw(2, 2, 3), False, False, True),
        lambda: (draw_complex(2, 2) + 3, draw_complex(2, 3), False),
    )
    reference = _solution

    def plan(a_layout, b_layout, upper, left=True, unit=False):
        check_numbers("triangular_solve_cpu", a_layout)
        out = column_major(b_layout.numpy_dtype, b_layout.shape[:-2], *b_layout.shape[-2:])
        launch = kernels.solve_triangular, Read("a"), Read("b"), Written(0), upper, left, unit
        if is_small(a_layout) and out.numel:
            given = as_rows("a", a_layout), as_rows("b", b_layout)
            launch = small_matrices.solve_triangular, *given, Written(0, "columns"), upper, left, unit
        return Launches([launch], [out])

    def grad_a(g, a, out, upper, left, unit):
        of_b = LinalgSolveTriangular.apply(adjoint(a), g, not upper, left, unit)
        product = matmul(of_b, adjoint(out)) if left else matmul(adjoint(out), of_b)
        return triangle(-product, upper, unit)

    def grad_b(g, a, upper, left, unit):
        return LinalgSolveTriangular.apply(adjoint(a), g, not upper, left, unit)

    def kernels(wants, g, a, out, upper, left, unit):  # both need the same solution
        if len(wants) < 2:
            return {}
        of_b = LinalgSolveTriangular.apply(adjoint(a), g, not upper, left, unit)
        product = matmul(of_b, adjoint(out)) if left else matmul(adjoint(out), of_b)
        return {"a": triangle(-product, upper, unit), "b": of_b}


@takes_out
def linalg_solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X of A X = B, or of X A = B if not ``left``, for triangular matrices A; batches broadcast.

    Of A only the triangle is read, and with ``unitriangular`` no diagonal. Nothing is raised for singular A.
    """
    op = "linalg.solve_triangular"
    check_dtypes(op, input._layout, B._layout)
    check_square(op, input._layout)
    check_matrix(op, B._layout, "B")
    left = as_flag(left)
    check_factors(op, input._layout, B._layout, left)
    b, a = broadcast_batches(B, input)
    return LinalgSolveTriangular.apply(a, b, as_flag(upper), left, as_flag(unitriangular))


public(linalg_solve_triangular, module="linalg")


class TriangularSolve(BatchedMatrices):
    """(X of A X = B, a column-major copy of A); with ``transpose`` of A^T X = B."""

    multiple_results, results = True, ("solution", "coefficient")
    samples = cases(
        lambda: (draw(3, 2), draw(3, 3) + 3, True, False, False),
        lambda: (draw(3, 2), draw(3, 3) + 3, False, True, True),
    )

    def reference(b, a, upper, transpose, unit):
        turned = a.swapaxes(-1, -2) if transpose else a
        return _solution(turned, b, upper != transpose, True, unit), a

    def plan(b_layout, a_layout, upper, transpose, unit):
        check_numbers("triangular_solve_cpu", a_layout)
        dtype, batch, (n, k) = b_layout.numpy_dtype, b_layout.shape[:-2], b_layout.shape[-2:]
        factor = Read("a", lambda a: a._data.swapaxes(-1, -2)) if transpose else Read("a")
        launches = [
            (kernels.solve_triangular, factor, Read("b"), Written(0), upper != transpose, True, unit),
            (kernels.copied, Read("a"), Written(1)),
        ]
        return Launches(launches, [column_major(dtype, batch, n, k), column_major(dtype, batch, n, n)], 2)

    def grad_b(g, a, upper, transpose, unit):
        if g[0] is None:
            return None
        return TriangularSolve.apply(g[0], conj(a), upper, not transpose, unit)[0]

    def grad_a(g, a, solution, upper, transpose, unit):
        if g[0] is None:
            return g[1]
        of_b = TriangularSolve.apply(g[0], conj(a), upper, not transpose, unit)[0]
        product = matmul(conj(solution), transposed(of_b)) if transpose else matmul(of_b, adjoint(solution))
        found = triangle(-product, upper, unit)
        return found if g[1] is None else found + g[1]


def _check_systems(op: str, b: Tensor, a: Tensor) -> None:
    """RuntimeError unless there are matrices A, square, and B of as many rows."""
    for name, x in (("b", b), ("A", a)):
        if x._layout.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has {x.ndim} "
                "dimensions instead"
            )
    check_systems(op, b, a)


def check_systems(op: str, b: Tensor, a: Tensor) -> None:
    """RuntimeError unless B and A are of one dtype, A square, and B of as many rows."""
    if a.dtype is not b.dtype:
        names = [x.dtype.title for x in (b, a)]
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {names[0]} and A of type {names[1]} instead."
        )
    check_square("", a._layout)
    n, (rows, columns) = a.shape[-1], b.shape[-2:]
    if n != rows:
        raise RuntimeError(
            f"Incompatible matrix sizes for {op}: each A matrix is {n} by {n} but each b matrix is {rows} by {columns}"
        )


@public
@takes_out
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(solution X of A X = B, copy of A) for triangular matrices A; batches broadcast."""
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future "
        "PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one "
        "of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
        "X = torch.linalg.solve_triangular(A, B)."
    )
    _check_systems("triangular_solve", input, A)
    b, a = broadcast_batches(input, A)
    found = TriangularSolve.apply(b, a, as_flag(upper), as_flag(transpose), as_flag(unitriangular))
    return return_types.triangular_solve(*found)
