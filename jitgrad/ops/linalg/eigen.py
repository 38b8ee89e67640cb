"""Eigenvalues and eigenvectors, of Hermitian matrices and of any."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import must_be, scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.kernels.loops import spectral as kernels
from jitgrad.ops.creation.constants import new
from jitgrad.ops.linalg.batched_matrices import BatchedMatrices, check_numbers, check_square, column_major, row_major
from jitgrad.ops.linalg.decompositions import (
    check_phases,
    decomposed,
    diagonal_mask,
    differences,
    is_recorded,
    refuse_unconverged,
    solve,
)
from jitgrad.ops.linalg.matmul import matmul

__all__ = ["LinalgEig", "LinalgEigh"]


def _gradient(g: Any, values: Tensor, vectors: Tensor, hermitian: bool) -> Tensor | None:
    """The gradient of the matrices V diag(L) V^-1, given those of L and V: PyTorch's formula.

    It is V^-H (diag(gL) + (V^H gV - V^H V diag(Re V^H gV)) / E) V^H with E[i, j] = conj(L[j] - L[i]). Hermitian
    matrices have V^-1 = V^H, and of V^H gV the part that is no direction in which V can change is left out.
    """
    of_values, of_vectors = g
    adjoint = vectors.mH
    if of_vectors is None:
        if of_values is None:
            return None
        if hermitian:
            return matmul(vectors * of_values.unsqueeze(-2), adjoint)
        return solve(adjoint, of_values.unsqueeze(-1) * adjoint)
    inner = matmul(adjoint, of_vectors)
    if vectors._layout.dtype.is_complex:
        phases = inner.diagonal(0, -2, -1).imag
        name = "linalg_eigh_backward" if hermitian else "linalg_eig_backward"
        check_phases(name, "eigenvectors", phases, phases.new_zeros(()).expand(phases.shape))
    if hermitian:
        inner = (inner - inner.mH) * 0.5
    else:
        lengths = inner.diagonal(0, -2, -1)
        lengths = lengths.real if lengths.is_complex() else lengths
        inner = inner - matmul(adjoint, vectors * lengths.unsqueeze(-2))
    inner = inner / differences(values if hermitian else values.conj())
    if of_values is not None:
        inner = table.where(diagonal_mask(values), of_values.unsqueeze(-1).to(inner.dtype), inner)
    inner = matmul(inner, adjoint)
    return matmul(vectors, inner) if hermitian else solve(adjoint, inner)


class LinalgEigh(BatchedMatrices, listed=False):
    """(eigenvalues, eigenvectors) of Hermitian matrices, of which one triangle is read; no vectors unless wanted."""

    name, grad_name = "_linalg_eigh", "LinalgEighBackward0"
    multiple_results, results = True, ("eigenvalues", "eigenvectors")

    def plan(x_layout, lower, wanted):
        check_square("linalg.eigh", x_layout)
        check_numbers("linalg_eigh_cpu", x_layout)
        shape, real = x_layout.shape, x_layout.dtype.to_real().numpy
        values = row_major(real, shape[:-1])
        fail, part = refuse_unconverged("linalg.eigh", "eigen"), "L" if lower else "U"
        if not wanted:
            results = lambda v: (v, new(x_layout.dtype, (0,), x_layout.device))
            return decomposed(x_layout, kernels.eigvalsh, [values], fail, part, results=results)
        vectors = column_major(x_layout.numpy_dtype, shape[:-2], *shape[-2:])
        return decomposed(x_layout, kernels.eigh, [values, vectors], fail, part)

    def grad_x(g, eigenvalues, eigenvectors):
        return _gradient(g, eigenvalues, eigenvectors, True)


def _is_lower(part: str) -> bool:
    if not isinstance(part, str):
        raise must_be("linalg_eigh", "UPLO", 2, "str", part)
    if part not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {part}")
    return part in "Ll"


@partial(public, module="linalg")
@takes_out
def linalg_eigh(input: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices, of which the lower or upper triangle is read.

    (*, n, n) to ascending real eigenvalues (*, n) and a matrix whose columns are the vectors. The vectors are unique up
    to phases, and only of distinct values: gradients of what depends on more are infinite, NaN, or RuntimeError.
    LinAlgError where LAPACK finds none.
    """
    return return_types.linalg_eigh(*LinalgEigh.apply(input, _is_lower(UPLO), True))


@partial(public, module="linalg")
@takes_out
def linalg_eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues (*, n), real and ascending, of Hermitian matrices (*, n, n)."""
    return LinalgEigh.apply(input, _is_lower(UPLO), is_recorded(input))[0]


def _refuse_infinite(_: np.ndarray, ndim: int) -> NoReturn:
    raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")


def _complex_dtype(op: str, x: Layout) -> Any:
    check_square(op, x)
    if x.dtype.category < 2:
        raise RuntimeError(f"Unknown Complex ScalarType for {scalar_type(x.dtype)}")
    check_numbers("linalg_eig_out_cpu", x)
    return x.dtype.to_complex().numpy


class LinalgEig(BatchedMatrices, listed=False):
    """(eigenvalues, eigenvectors) of square matrices, complex, the vectors of length 1."""

    name, grad_name = "linalg_eig", "LinalgEigBackward0"
    multiple_results, results = True, ("eigenvalues", "eigenvectors")

    def plan(x_layout):
        dtype, shape = _complex_dtype("linalg.eig", x_layout), x_layout.shape
        layouts = row_major(dtype, shape[:-1]), column_major(dtype, shape[:-2], *shape[-2:])
        return decomposed(x_layout, kernels.eig, layouts, _refuse_infinite)

    def grad_x(g, eigenvalues, eigenvectors, x_layout):
        found = _gradient(g, eigenvalues, eigenvectors, False)
        return found if found is None or x_layout.dtype.is_complex else found.real


class LinalgEigvals(BatchedMatrices):
    """The eigenvalues of square matrices, complex."""

    name, samples = "_linalg_eigvals", cases(lambda: (draw(3, 3),))

    def plan(x_layout):
        values = row_major(_complex_dtype("linalg.eigvals", x_layout), x_layout.shape[:-1])
        return decomposed(x_layout, kernels.eigvals, [values], _refuse_infinite, results=lambda values: values)


@partial(public, module="linalg")
@takes_out
def linalg_eig(input: Tensor) -> Any:
    """(eigenvalues, eigenvectors) of square matrices (*, n, n): complex, (*, n) and (*, n, n), in no order.

    The columns are vectors of length 1, unique up to phases; gradients of what depends on these are a RuntimeError.
    """
    return return_types.linalg_eig(*LinalgEig.apply(input))


@partial(public, module="linalg")
@takes_out
def linalg_eigvals(input: Tensor) -> Tensor:
    """The eigenvalues (*, n), complex and in no order, of square matrices (*, n, n)."""
    return LinalgEig.apply(input)[0] if is_recorded(input) else LinalgEigvals.apply(input)
