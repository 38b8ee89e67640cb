"""Inverse matrices, determinants, and systems of linear equations, by the LU of a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.layout import Layout, broadcast_shapes, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, planned
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices, adjoint, check_dtypes, check_factors, check_floating, check_matrix, check_numbers, check_square,
    column_major, row_major, with_check,
)  # fmt: skip
from jitgrad.ops.linalg.lu import LinalgLuFactorEx, LinalgLuSolve, LuUnpack, Permutation, factored, solved_by_lu
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.shape.expand import Expand, Unsqueeze

__all__ = ["LinalgDet", "LinalgInvEx", "LinalgSlogdet", "LinalgSolveEx"]

# -- inverse --------------------------------------------------------------------------------------------


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
        return Launches([(kernels.inverse, Read("x"), Written(0), Written(1))], layouts, 2, with_check(op))

    def grad_x(g, inverse):
        turned = adjoint(inverse)
        return -matmul(turned, matmul(g[0], turned))


def _inverse(x: Tensor, op: str) -> Any:
    check_floating("linalg.inv", x._layout)
    check_square("linalg.inv", x._layout)
    return LinalgInvEx.apply(x, op)


@takes_out
def _linalg_inv(A: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError where one is singular."""
    return _inverse(A, "linalg.inv")[0]


@takes_out
def _linalg_inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): where a matrix is singular ``info`` is the place of the first zero on U's diagonal.

    With ``check_errors`` LinAlgError is raised there.
    """
    return return_types.linalg_inv_ex(*_inverse(A, "linalg.inv_ex" if as_flag(check_errors) else ""))


public(_linalg_inv, "linalg_inv", module="linalg")
public(_linalg_inv_ex, "linalg_inv_ex", module="linalg")


@public
@takes_out
def inverse(input: Tensor) -> Tensor:
    """The inverse of square matrices; LinAlgError where one is singular."""
    return _inverse(input, "linalg.inv")[0]


# -- determinants ---------------------------------------------------------------------------------------


def _of_determinants(x: Layout, kernel: Any, dtypes: Sequence[Any]) -> Launches:
    """Plan numbers of these dtypes by a kernel of LU and pivots; then come these two."""
    count, n, first = math.prod(x.shape[:-2]), x.shape[-1], len(dtypes)
    factor, (lu, pivots, info) = factored(x, first)
    numbers = [row_major(d, x.shape[:-2]) for d in dtypes]
    parts = Written(first, (count, n, n)), Written(first + 1, (count, n))
    launch = (kernel, *parts, *[Written(k, (count,)) for k in range(first)])
    return Launches([factor, launch], [*numbers, lu, pivots, info], first + 2)


@planned("LU", "pivots", "factor")
def _scaled_inverse(LU, pivots, factor):
    """``factor`` times the adjoint of the inverse of what LU is of."""
    out = row_major(LU.numpy_dtype, LU.shape[:-2], *LU.shape[-2:])
    return Launches([(kernels.scaled_inverse, *map(Read, ("LU", "pivots", "factor")), Written(0))], [out])


@planned("LU", "pivots", "det", "factor")
def _scaled_adjugate(LU, pivots, det, factor):
    """``factor`` times the adjoint of the adjugate of what LU is of."""
    out = row_major(LU.numpy_dtype, LU.shape[:-2], *LU.shape[-2:])
    return Launches([(kernels.scaled_adjugate, *map(Read, ("LU", "pivots", "det", "factor")), Written(0))], [out])


def _of_each(x: Tensor) -> Tensor:
    """Numbers as matrices of one element."""
    return Unsqueeze.apply(Unsqueeze.apply(x, -1), -1)


def _away_from_singular(x: Tensor, lu: Tensor, pivots: Tensor) -> list[Tensor]:
    """``x`` plus and minus a constant by which no element on the diagonal of U is zero, or next to that."""
    diagonal = lu.diagonal(0, -2, -1).abs()
    eps = float(np.finfo(lu._layout.numpy_dtype).eps)
    largest = diagonal.amax(-1, True)
    largest = table.where(largest == 0, 1.0, largest)
    shift = table.where(diagonal <= largest * (eps * x.shape[-1]), largest * math.sqrt(eps), 0.0)
    lower = LuUnpack.apply(lu)[0]
    moved = matmul(Permutation.apply(lu, pivots), lower * Unsqueeze.apply(shift, -2))
    return [x + moved, x - moved]


class LinalgDet(BatchedMatrices):
    """(determinant, LU, pivots).

    The gradient is the adjoint of the adjugate, which is conj(det) A^-H where A has an inverse. Where it has none, zeros
    on the diagonal of U are taken for something small: the adjugate is a polynomial, so this makes little difference,
    and less where what was added is subtracted as well, as for gradients of gradients, where more has to be added.
    (PyTorch has the adjugate only where gradients are recorded, otherwise zeros.)
    """

    multiple_results, results, constants = True, ("det", "LU", "pivots"), ("LU",)
    samples = cases(lambda: (draw(3, 3),), lambda: (draw_complex(2, 2, 2),))

    def reference(x):
        return np.linalg.det(x), *LinalgLuFactorEx.reference(x)[:2]

    def plan(x_layout):
        check_numbers("lu_cpu", x_layout)
        return _of_determinants(x_layout, kernels.determinants, [x_layout.numpy_dtype])

    def grad_x(g, x, LU, pivots):
        if not x._layout.numel:
            return zeros_like(x)
        near = _away_from_singular(x, LU, pivots)
        found = [adjoint(LinalgInvEx.apply(y)[0]) * _of_each(g[0] * conj(LinalgDet.apply(y)[0])) for y in near]
        return (found[0] + found[1]) * 0.5

    def kernel_x(g, det, LU, pivots):
        return _scaled_adjugate(LU, pivots, det, g[0])


def _det_input(op: str, x: Tensor) -> Tensor:
    check_square(op, x._layout)
    check_floating(op, x._layout)
    return x


@takes_out
def _linalg_det(A: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return LinalgDet.apply(_det_input("linalg.det", A))[0]


public(_linalg_det, "linalg_det", module="linalg")


@public
def det(input: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return LinalgDet.apply(_det_input("linalg.det", input))[0]


class LinalgSlogdet(BatchedMatrices):
    """(sign or phase of the determinant, logarithm of its absolute value, LU, pivots)."""

    multiple_results, results, constants = True, ("sign", "logabsdet", "LU", "pivots"), ("LU",)
    samples = cases(lambda: (draw(3, 3),), lambda: (draw_complex(2, 2, 2),))

    def reference(x):
        return *np.linalg.slogdet(x), *LinalgLuFactorEx.reference(x)[:2]

    def plan(x_layout):
        check_numbers("lu_cpu", x_layout)
        dtype = x_layout.numpy_dtype
        return _of_determinants(x_layout, kernels.log_determinants, [dtype, np.zeros(0, dtype).real.dtype])

    def grad_x(g, x, sign):
        factor = _slogdet_factor(g, sign)
        return None if factor is None else adjoint(LinalgInvEx.apply(x)[0]) * _of_each(factor)

    def kernel_x(g, sign, LU, pivots):
        factor = _slogdet_factor(g, sign)
        return None if factor is None else _scaled_inverse(LU, pivots, factor)


def _slogdet_factor(g: Sequence[Any], sign: Tensor) -> Tensor | None:
    """What the adjoint of the inverse is multiplied by: the gradient of log|det|, and minus i times the phase's."""
    if not sign._layout.dtype.is_complex:
        return g[1]
    factor = None if g[1] is None else g[1].to(sign.dtype)
    if g[0] is None:
        return factor
    turned = (conj(g[0]) * sign).imag * -1j
    return turned if factor is None else factor + turned


@takes_out
def _linalg_slogdet(A: Tensor) -> Any:
    """(sign, logabsdet): the sign, or phase, of the determinant, and the logarithm of its absolute value."""
    return return_types.linalg_slogdet(*LinalgSlogdet.apply(_det_input("linalg.slogdet", A))[:2])


public(_linalg_slogdet, "linalg_slogdet", module="linalg")


@public
@takes_out
def slogdet(input: Tensor) -> Any:
    """(sign, logabsdet): the sign, or phase, of the determinant, and the logarithm of its absolute value."""
    return return_types.slogdet(*LinalgSlogdet.apply(_det_input("linalg.slogdet", input))[:2])


@public
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinants: NaN where one is negative, complex for complex matrices."""
    sign, size = LinalgSlogdet.apply(_det_input("logdet", input))[:2]
    return sign.log() + size if sign._layout.dtype.is_complex else table.where(sign == -1, math.nan, size)


# -- systems --------------------------------------------------------------------------------------------


def _is_vector(a: Layout, b: Layout) -> bool:
    """Whether right-hand sides are vectors: one, or one for each matrix."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solution(a: Any, b: Any, left: bool = True, op: str = "") -> Any:
    lu, pivots, info = LinalgLuFactorEx.reference(a)
    vectors = b.ndim < a.ndim
    b = b[..., None] if vectors else b
    x = np.linalg.solve(a, b) if left else np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
    return x[..., 0] if vectors else x, lu, pivots, info


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

    @staticmethod
    def batch(call):
        vectors = call.ndim("B") < call.ndim("A")
        call.op.cores["B"] = 1 if vectors else 2
        return BatchedMatrices.batch(call)

    def plan(A_layout, B_layout, left=True, op=""):
        check_numbers("linalg_solve", A_layout)
        factor, (lu, pivots, info) = factored(A_layout, 1, "A")
        layouts = [_solved_layout(A_layout, B_layout, left), lu, pivots, info]
        solve = (kernels.lu_solve, Written(1), Written(2), Read("B"), Written(0), left, False)
        return Launches([factor, solve], layouts, 4, with_check(op))

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


def _solve(op: str, A: Tensor, B: Tensor, left: Any) -> tuple[Tensor, Tensor]:
    """(X, info) of checked arguments; ``op``: the function that raises an error for singular matrices, "" for none."""
    title, left = "linalg.solve", as_flag(left)
    check_floating(title, A._layout)
    check_dtypes(title, A._layout, B._layout)
    check_square(title, A._layout)
    vectors = _is_vector(A._layout, B._layout)
    if not vectors:
        check_matrix(title, B._layout, "B")
        check_factors(title, A._layout, B._layout, left)
    elif A.shape[-1] != B.shape[-1]:
        n = A.shape[-1]
        raise RuntimeError(
            f"{title}: Incompatible shapes of A and B for the equation AX = B ({n}x{n} and {B.shape[-1]}x1)"
        )
    if vectors and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    core = 1 if vectors else 2
    batch = broadcast_shapes(A.shape[:-2], B.shape[: B.ndim - core])
    b = B if B.shape[: B.ndim - core] == batch else Expand.apply(B, (*batch, *B.shape[B.ndim - core :]))
    if A.shape[:-2] == batch:
        found = LinalgSolveEx.apply(A, b, left, op)
        return found[0], found[3]
    # One factorisation serves several right-hand sides.
    lu, pivots, info = LinalgLuFactorEx.apply(A, op)
    lu, pivots = Expand.apply(lu, (*batch, *A.shape[-2:])), Expand.apply(pivots, (*batch, A.shape[-1]))
    columns = Unsqueeze.apply(b, -1) if vectors else b
    x = LinalgLuSolve.apply(lu, pivots, columns, left)
    return x.squeeze(-1) if vectors else x, info


@takes_out
def _linalg_solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B, or of X A = B if not ``left``, for square matrices A; batches broadcast.

    B may be a vector, or a batch of as many vectors as there are matrices. LinAlgError where A is singular.
    """
    return _solve("torch.linalg.solve", A, B, left)[0]


@takes_out
def _linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(X, info) as ``solve``: where A is singular, ``info`` is the place of the first zero on U's diagonal."""
    return return_types.linalg_solve_ex(*_solve("torch.linalg.solve_ex" if as_flag(check_errors) else "", A, B, left))


public(_linalg_solve, "linalg_solve", module="linalg")
public(_linalg_solve_ex, "linalg_solve_ex", module="linalg")


# -- tensors as matrices --------------------------------------------------------------------------------


@takes_out
def _linalg_tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor that is read as a matrix: its first ``ind`` dims are the rows, the others the columns."""
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


@takes_out
def _linalg_tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X of which the product with A over all dims of X is B; ``dims`` of A are moved to its end before."""
    if dims is not None:
        places = [normalize_dim(d, A.ndim) for d in dims]
        A = A.movedim(places, list(range(A.ndim - len(places), A.ndim)))
    rest = A.shape[B.ndim :]
    rows, columns = math.prod(A.shape[: B.ndim]), math.prod(rest)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {rows}"
        )
    return _solve("torch.linalg.solve", A.reshape(rows, rows), B.reshape(rows), True)[0].reshape(*rest)


public(_linalg_tensorinv, "linalg_tensorinv", module="linalg")
public(_linalg_tensorsolve, "linalg_tensorsolve", module="linalg")
