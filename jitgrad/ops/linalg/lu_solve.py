"""What is solved by the LU of a matrix."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, compiled, planned
from jitgrad.dispatch.planned import row_major as in_rows
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.kernels.loops import small_matrices
from jitgrad.ops.creation.fill import Tril, Triu
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    as_rows,
    broadcast_batches,
    check_dtypes,
    check_factors,
    check_floating,
    check_matrix,
    check_pivots,
    check_square,
    column_major,
    is_small,
    row_major,
    transposed,
)  # fmt: skip
from jitgrad.ops.linalg.lu import LuUnpack, Permutation
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.shape.expand import Expand

__all__ = ["LinalgLuSolve", "small_systems", "solved_by_lu"]


def _no_row_to_solve(found: Any) -> NoReturn:
    bound = "greater or equal to 1" if found.item(1) < 1 else "smaller or equal to LU.size(-2)"
    raise RuntimeError(
        f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of lu_factor?"
    )


def _solved_reference(lu: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    lower, upper = LuUnpack.reference(lu)
    a = Permutation.reference(lu, pivots) @ lower @ upper
    a = a.conj().swapaxes(-1, -2) if adjoint else a
    return np.linalg.solve(a, b) if left else np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)


def small_systems(
    lu: Any, pivots: Any, name: str, b: Layout, out: Layout, vectors: bool, working: int, turned: bool = False
) -> tuple[list[tuple[Any, ...]], list[Layout]]:  # fmt: skip
    """Launches that solve A X = B, or ``turned`` A^T X = B, for small matrices, and layouts of working memory for it.

    lu, pivots: what they get of A's LU. name, b: the tensor of right-hand sides, ``vectors`` of one dim less than A.
    out: the layout of new array 0, X. working: the number of the first new array that is free.
    """
    sides = as_rows(name, b, vectors=vectors)
    if not vectors:
        return [(small_matrices.solve, lu, pivots, sides, Written(0, "columns"), turned)], []
    place = 0 if out.contiguous else working
    solution = Written(place, (b.numel // b.shape[-1], 1, b.shape[-1]))
    launches = [(small_matrices.solve, lu, pivots, sides, solution, turned)]
    if not place:
        return launches, []
    return [*launches, (kernels.copied, Written(working), Written(0))], [row_major(b.numpy_dtype, b.shape)]


class LinalgLuSolve(BatchedMatrices):
    """X of A X = B, or, not ``left``, of X A = B, for the LU of A; ``adjoint``: for A^H in the place of A."""

    cores = {"pivots": 1}
    linear = ("b",)
    samples = cases(
        lambda: (draw(3, 3) + 3, tensor([3, 2, 3]).int(), draw(3, 2)),
        lambda: (draw(2, 2, 2) + 3, tensor([[2, 2], [1, 2]]).int(), draw(2, 1, 2), False),
        lambda: (draw_complex(2, 2) + 3, tensor([2, 2]).int(), draw_complex(2, 1), True, True),
        lambda: (draw_complex(2, 2) + 3, tensor([2, 2]).int(), draw_complex(1, 2), False, True),
    )
    reference = _solved_reference

    def plan(LU_layout, pivots_layout, b_layout, left=True, adjoint=False):
        batch, (m, n), dtype = b_layout.shape[:-2], b_layout.shape[-2:], b_layout.numpy_dtype
        out = column_major(dtype, batch, m, n) if left else row_major(dtype, batch, m, n)
        made = compiled(
            _solving(LU_layout, pivots_layout, "b", b_layout, out, left, adjoint),
            {"LU": LU_layout, "pivots": pivots_layout, "b": b_layout},
        )
        rows = LU_layout.shape[-1]

        def run(LU: Tensor, pivots: Tensor, b: Tensor) -> Tensor:
            check_pivots(pivots, 1, rows, _no_row_to_solve)
            return made(LU, pivots, b)

        return run

    def grad_LU(g, LU, pivots, b, out, left, adjoint):
        of_b = LinalgLuSolve.apply(LU, pivots, g, left, not adjoint)
        # Minus the gradient of A, or A^H.
        product = matmul(of_b, _adjoint(out)) if left else matmul(_adjoint(out), of_b)
        lower, upper = LuUnpack.apply(LU)
        inner = matmul(transposed(Permutation.apply(LU, pivots)), _adjoint(product) if adjoint else product)
        below = Tril.apply(matmul(inner, _adjoint(upper)), -1)
        return -(below + Triu.apply(matmul(_adjoint(lower), inner)))

    def grad_b(g, LU, pivots, left, adjoint):
        return LinalgLuSolve.apply(LU, pivots, g, left, not adjoint)


_adjoint = adjoint  # within rules ``adjoint`` is an argument


@planned("LU", "pivots", "g")
def solved_by_lu(LU, pivots, g, left):
    """X of A^H X = G, or X A^H = G, where LU was made here: pivots are not looked at."""
    lay: Any = row_major if g.ndim < LU.ndim or not left else column_major
    out = lay(g.numpy_dtype, g.shape[:-2], *g.shape[-2:])
    return _solving(LU, pivots, "g", g, out, left, True)


def _solving(
    lu: Layout, pivots: Layout, name: str, b: Layout, out: Layout, left: bool, adjoint: bool
) -> Launches:  # fmt: skip
    """The plan that solves by tensors LU and pivots; ``name``: the tensor of right-hand sides."""
    if not (left and is_small(lu) and b.numel):
        return Launches([(kernels.lu_solve, Read("LU"), Read("pivots"), Read(name), Written(0), left, adjoint)], [out])
    chosen = in_rows("pivots", pivots, (pivots.numel // lu.shape[-1], lu.shape[-1]))
    launches, working = small_systems(Read("LU", "columns"), chosen, name, b, out, b.ndim < lu.ndim, 1, adjoint)
    return Launches(launches, [out, *working])


@takes_out
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A X = B, or X A = B if not ``left``, from what ``lu_factor`` made of A; batches broadcast.

    ``adjoint``: A^H stands in the place of A. RuntimeError for pivots that are no rows.
    """
    title, op = "torch.linalg.lu_solve", "linalg.lu_solve"
    check_floating(title, LU._layout)
    if pivots.dtype.name != "int32":
        raise RuntimeError(f"{op}: pivots should be a Tensor of scalar type torch.int32")
    check_dtypes(op, LU._layout, B._layout, "LU B")
    check_square(title, LU._layout)
    check_matrix(op, B._layout, "B")
    left = as_flag(left)
    check_factors(op, LU._layout, B._layout, left)
    if pivots.shape[-1:] != LU.shape[-1:]:
        raise RuntimeError(f"{op}: Number of pivots per batch should be same as the dimension of the matrix")
    if pivots.shape != LU.shape[:-1]:
        raise RuntimeError(
            f"{op}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    factors, b = broadcast_batches(LU, B)
    if factors is not LU:
        pivots = Expand.apply(pivots, factors.shape[:-1])
    return LinalgLuSolve.apply(factors, pivots, b, left, as_flag(adjoint))


public(linalg_lu_solve, module="linalg")


@public
@takes_out
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X of A X = B from what ``lu_factor`` made of A."""
    warnings.warn(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release."
        "\nNote that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\n"
        "should be replaced with\nX = torch.linalg.lu_solve(LU, pivots, B)", UserWarning, stacklevel=user_level(),
    )  # fmt: skip
    return linalg_lu_solve(LU_data, LU_pivots, input)
