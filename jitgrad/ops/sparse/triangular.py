"""Systems of equations whose matrix is a sparse triangle."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.core import return_types
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.linalg.batched_matrices import adjoint, transposed
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.linalg.triangular import triangle
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.sparse.convert import to_coo
from jitgrad.ops.sparse.parts import ordered_values
from jitgrad.ops.sparse.places import rows_of
from jitgrad.ops.sparse.pointwise import conj as sparse_conj
from jitgrad.ops.sparse.row_products import new_matrix

__all__: list[str] = []


class SparseTriangularSolve(Structured, listed=False):
    """X of A X = B for the triangle of a sparse A, or of A^T X = B; as in PyTorch, NaN if A stores nothing."""

    name, grad_name, linear = "_sparse_triangular_solve", "TriangularSolveBackward0", ("b",)
    half, sparse = True, True

    def forward(b, a, upper, transpose, unit):
        if not a._pattern.nnz:
            return FUNCTIONS["full_like"](b.detach(), math.nan)
        rows = rows_of(a._pattern)
        rows = rows.transposed() if transpose else rows
        values, right = ordered_values(a._stored.detach(), rows.order), contiguous(b.detach())
        out = new_matrix(tuple(b._layout.shape), b)
        launch(kernels.solve_rows, contiguous(values)._data, rows.crow, rows.ordered_cols, right._data,
               upper != transpose, unit, out._data)  # fmt: skip
        return out

    def grad_b(g, a, upper, transpose, unit):
        return SparseTriangularSolve.apply(g, sparse_conj(a), upper, not transpose, unit)

    def grad_a(g, a, out, upper, transpose, unit):
        of_b = SparseTriangularSolve.apply(g, sparse_conj(a), upper, not transpose, unit)
        product = matmul(conj(out), transposed(of_b)) if transpose else matmul(of_b, adjoint(out))
        return triangle(-product, upper, unit)


@sparse_form("triangular_solve")
def triangular_solve(
    input: Tensor, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(X of A X = B, nothing) for the triangle of a CSR or BSR matrix."""
    if not isinstance(A, SparseTensor) or isinstance(input, SparseTensor) or A._pattern.kind == "sparse_coo":
        raise SparseOperand("triangular_solve")
    if A._pattern.kind[-1] == "c":
        raise ValueError("triangular_solve: unsupported sparse layout.")
    if A.ndim > 2 or input.ndim > 2:
        raise RuntimeError("triangular_solve: batches of sparse matrices are not supported")
    a = to_coo(A) if A._pattern.block else A
    found = SparseTriangularSolve.apply(input, a, bool(upper), bool(transpose), bool(unitriangular))
    return return_types.triangular_solve(found, zeros(0, dtype=A.dtype))
