"""Singular values and vectors."""

from __future__ import annotations

from functools import partial
from typing import Any

from jitgrad.core import return_types
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import spectral as kernels
from jitgrad.ops.creation.constants import new
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    check_floating,
    check_matrix,
    check_numbers,
    column_major,
    row_major,
)
from jitgrad.ops.linalg.decompositions import (
    check_phases,
    decomposed,
    differences,
    is_recorded,
    refuse_unconverged,
)
from jitgrad.ops.linalg.matmul import matmul

__all__ = ["LinalgSvd"]

_FAIL = refuse_unconverged("linalg.svd", "singular", "contained non-finite values.")


def _skew(x: Tensor) -> Tensor:
    return x - x.mH


class LinalgSvd(BatchedMatrices):
    """(U, S, Vh) with x = U diag(S) Vh; U and Vh square if ``full``, none unless ``vectors``."""

    name, grad_name = "_linalg_svd", "LinalgSvdBackward0"
    multiple_results, results = True, ("U", "S", "Vh")
    samples = cases(
        lambda: (draw(3, 3), False),
        lambda: (draw(2, 4, 3), False),
        lambda: (draw(4, 2).t(), False),
    )

    def plan(x_layout, full, vectors=True):
        check_matrix("linalg.svd", x_layout)
        check_floating("linalg.svd", x_layout)
        check_numbers("linalg_svd_cpu", x_layout)
        batch, (m, n), dtype = x_layout.shape[:-2], x_layout.shape[-2:], x_layout.numpy_dtype
        k = min(m, n)
        values = row_major(x_layout.dtype.to_real().numpy, batch, k)
        if not vectors:
            kind, device = x_layout.dtype, x_layout.device
            results = lambda s: (new(kind, (0,), device), s, new(kind, (0,), device))
            return decomposed(x_layout, kernels.svdvals, [values], _FAIL, results=results)
        left = column_major(dtype, batch, m, m if full else k)
        right = column_major(dtype, batch, n if full else k, n)
        return decomposed(x_layout, kernels.svd, [left, values, right], _FAIL, full)

    def grad_x(g, U, S, Vh, full):
        if full and U._layout.shape[-1] != Vh._layout.shape[-1]:
            k = S._layout.shape[-1]
            # Vectors beyond the values are any that complete a basis: no loss may depend on them.
            U, Vh = U.narrow(-1, 0, k), Vh.narrow(-2, 0, k)
            g = [
                None if g[0] is None else g[0].narrow(-1, 0, k),
                g[1],
                None if g[2] is None else g[2].narrow(-2, 0, k),
            ]
        return _gradient(*g, U, S, Vh)


def _gradient(of_u: Any, of_s: Any, of_vh: Any, u: Tensor, s: Tensor, vh: Tensor) -> Tensor | None:
    """The gradient of the matrices U diag(S) Vh, given those of the factors: PyTorch's formula.

    It is U (diag(gS) + (skew(U^H gU) S + S skew(Vh gVh^H)) / E) Vh with E[i, j] = S[j]^2 - S[i]^2, plus, for the longer
    side, what of its vectors' gradient lies outside their span, divided by S.
    """
    m, n = u._layout.shape[-2], vh._layout.shape[-1]
    if of_u is None and of_vh is None:
        if of_s is None:
            return None
        return matmul(u, of_s.unsqueeze(-1) * vh) if m >= n else matmul(u * of_s.unsqueeze(-2), vh)
    left = None if of_u is None else _skew(matmul(u.mH, of_u))
    right = None if of_vh is None else _skew(matmul(vh, of_vh.mH))
    is_complex = u._layout.dtype.is_complex
    if is_complex:
        zeros = s.new_zeros(()).expand(s.shape)
        phases = [zeros if t is None else t.diagonal(0, -2, -1).imag for t in (left, right)]
        check_phases("svd_backward", "singular vectors", phases[0], -phases[1])
    terms = []
    if left is not None:
        terms.append(left * s.unsqueeze(-2))
    if right is not None:
        terms.append(s.unsqueeze(-1) * right)
    inner = sum(terms[1:], terms[0]) / differences(s * s)
    if of_s is not None:
        inner = inner + of_s.diag_embed()
    if is_complex and left is not None and right is not None:
        inner = inner + (left.diagonal(0, -2, -1) / (s * 2)).diag_embed()
    if m > n and of_u is not None:
        outside = of_u / s.unsqueeze(-2)
        outside = outside - matmul(u, matmul(u.mH, outside))
        return matmul(matmul(u, inner) + outside, vh)
    if m < n and of_vh is not None:
        outside = of_vh / s.unsqueeze(-1)
        outside = outside - matmul(matmul(outside, vh.mH), vh)
        return matmul(u, matmul(inner, vh) + outside)
    return matmul(u, matmul(inner, vh)) if m >= n else matmul(matmul(u, inner), vh)


@partial(public, module="linalg")
@takes_out
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh: singular values (*, k), descending, and unitary matrices of vectors.

    (*, m, n) to (*, m, m), (*, k) and (*, n, n), k the smaller of m and n; without ``full_matrices`` to (*, m, k),
    (*, k) and (*, k, n). Vectors are unique up to phases, and only of distinct values: gradients of what depends on
    more are infinite, NaN, or RuntimeError. LinAlgError where LAPACK finds none; ``driver`` chooses for GPUs only.
    """
    _refuse_driver(driver)
    return return_types.linalg_svd(*LinalgSvd.apply(A, as_flag(full_matrices)))


@partial(public, module="linalg")
@takes_out
def linalg_svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values (*, k), descending, of matrices (*, m, n), k the smaller of m and n."""
    _refuse_driver(driver)
    return LinalgSvd.apply(A, False, is_recorded(A))[1]


def _refuse_driver(driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@public
@takes_out
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with input = U diag(S) V^H; ``some``: of U and V only the vectors that have a value.

    Without ``compute_uv`` U and V are square and zero.
    """
    if input._layout.ndim < 2:
        raise RuntimeError("linalg.svd: input should have at least 2 dimensions, but has "
                           f"{input._layout.ndim} dimensions instead")  # fmt: skip
    if as_flag(compute_uv):
        u, s, vh = LinalgSvd.apply(input, not as_flag(some))
        return return_types.svd(u, s, vh.mH)
    *lead, m, n = input._layout.shape
    s = LinalgSvd.apply(input, False, is_recorded(input))[1]
    return return_types.svd(input.new_zeros((*lead, m, m)), s, input.new_zeros((*lead, n, n)))
