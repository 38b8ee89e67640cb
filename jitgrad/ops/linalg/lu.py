"""LU: A = P L U with a permutation P, L of ones on its diagonal, and U."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, compiled
from jitgrad.dispatch.planned import row_major as row_major_read
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.kernels.loops import small_matrices
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.creation.fill import Tril, Triu
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    as_rows,
    check_numbers,
    check_pivots,
    column_major,
    is_small,
    row_major,
    with_check,
)  # fmt: skip
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.triangular import LinalgSolveTriangular
from jitgrad.ops.shape.join import cat

__all__ = ["LinalgLuFactorEx", "LuUnpack", "Permutation", "factored"]


# -- the factors in one matrix --------------------------------------------------------------------------


def factored(
    x: Layout, places: tuple[int, int, int] = (0, 1, 2), name: str = "x"
) -> tuple[tuple[Any, ...], list[Layout]]:
    """The launch that factors tensor ``name``, and the layouts of LU, pivots and info, new arrays at ``places``."""
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    count, k = math.prod(batch), min(m, n)
    layouts = [column_major(x.numpy_dtype, batch, m, n), row_major(np.int32, batch, k), row_major(np.int32, batch)]
    if is_small(x):
        views: list[Any] = ["columns", (count, k), (count,)]
        return (small_matrices.lu, as_rows(name, x), *map(Written, places, views)), layouts
    return (kernels.lu_factor, Read(name), *map(Written, places)), layouts


def _factored_reference(x: Any, op: str = "") -> Any:
    """The textbook's algorithm, of one matrix after another."""
    m, n = x.shape[-2:]
    lu, pivots = x.copy(), np.zeros((*x.shape[:-2], min(m, n)), np.int32)
    for a, p in zip(lu.reshape(-1, m, n), pivots.reshape(-1, min(m, n)), strict=True):
        for k in range(min(m, n)):
            j = k + int(np.argmax(np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)))
            p[k], a[[k, j]] = j + 1, a[[j, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return lu, pivots, np.zeros(x.shape[:-2], np.int32)


class LinalgLuFactorEx(BatchedMatrices):
    """(L and U in one matrix, the rows that were exchanged, info): info is the place of a zero on U's diagonal.

    ``op``: the function that raises an error then, "" for none.
    """

    multiple_results, results = True, ("LU", "pivots", "info")
    samples = cases(lambda: (draw(3, 3),), lambda: (draw(2, 2, 4),), lambda: (draw(4, 2),))
    reference = _factored_reference

    def plan(x_layout, op=""):
        check_numbers("lu_cpu", x_layout)
        launch, layouts = factored(x_layout)
        return with_check(op, Launches([launch], layouts, 3))

    def grad_x(g, LU, pivots):
        k = min(LU.shape[-2:])
        lower, upper = LuUnpack.apply(LU)
        return _from_factors(g[0].narrow(-1, 0, k), g[0].narrow(-2, 0, k), Permutation.apply(LU, pivots), lower, upper)


def _from_factors(
    of_lower: Tensor | None, of_upper: Tensor | None, p: Tensor, lower: Tensor, upper: Tensor
) -> Tensor | None:  # fmt: skip
    """The gradient of A = P L U by those of L and U, one of which may be None.

    Of a square A it is P L^-H [tril(L^H gL, -1) + triu(gU U^H)] U^-H. The columns of a wide one that follow are L times
    those of U; their gradient reaches L as well. Likewise for the rows of a tall one.
    """
    m, n, k = lower.shape[-2], upper.shape[-1], lower.shape[-1]
    if of_lower is None and of_upper is None:
        return None
    first, second = lower.narrow(-2, 0, k), upper.narrow(-1, 0, k)
    in_lower = None if of_lower is None else matmul(adjoint(lower.narrow(-2, 0, k)), of_lower.narrow(-2, 0, k))
    in_upper = None if of_upper is None else matmul(of_upper.narrow(-1, 0, k), adjoint(second))
    further = None
    if m < n and of_upper is not None:
        further = of_upper.narrow(-1, k, n - k)
        in_lower = _minus(in_lower, matmul(further, adjoint(upper.narrow(-1, k, n - k))))
    if m > n and of_lower is not None:
        further = of_lower.narrow(-2, k, m - k)
        in_upper = _minus(in_upper, matmul(adjoint(lower.narrow(-2, k, m - k)), further))
    parts = [] if in_lower is None else [Tril.apply(in_lower, -1)]
    parts += [] if in_upper is None else [Triu.apply(in_upper)]
    inner = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    if m > n:
        left = LinalgSolveTriangular.apply(adjoint(first), inner, True, True, True)
        rows = zeros(*left.shape[:-2], m - k, k, dtype=left.dtype) if further is None else further
        found = LinalgSolveTriangular.apply(adjoint(second), cat([left, rows], -2), False, False)
    else:
        found = LinalgSolveTriangular.apply(adjoint(second), inner, False, False)
        if m < n:
            columns = zeros(*found.shape[:-2], k, n - k, dtype=found.dtype) if further is None else further
            found = cat([found, columns], -1)
        found = LinalgSolveTriangular.apply(adjoint(first), found, True, True, True)
    return matmul(p, found)


def _minus(x: Tensor | None, y: Tensor) -> Tensor:
    return -y if x is None else x - y


def check_pivoting(pivot: Any) -> None:
    """RuntimeError for LU without exchanges of rows, which LAPACK has not."""
    if not as_flag(pivot):
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def _factors(x: Tensor, pivot: Any, op: str, title: str = "torch.lu_factor") -> Any:
    if x._layout.ndim < 2:
        raise RuntimeError(f"{title}: Expected tensor with 2 or more dimensions. Got size: {list(x.shape)} instead")
    check_numbers("lu_cpu", x._layout)
    check_pivoting(pivot)
    return LinalgLuFactorEx.apply(x, op)


@takes_out
def linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """(L and U in one matrix, int32 of the rows that were exchanged): what ``lu_solve`` takes.

    RuntimeError where U has a zero on its diagonal.
    """
    return return_types.linalg_lu_factor(*_factors(A, pivot, "torch.linalg.lu_factor")[:2])


@takes_out
def linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU, pivots, info) as ``lu_factor``, but where U has a zero on its diagonal ``info`` is its place."""
    wanted = "torch.linalg.lu_factor_ex" if as_flag(check_errors) else ""
    return return_types.linalg_lu_factor_ex(*_factors(A, pivot, wanted))


public(linalg_lu_factor, module="linalg")
public(linalg_lu_factor_ex, module="linalg")


@public
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """(L and U in one matrix, the rows that were exchanged), and with ``get_infos`` LAPACK's info of each matrix."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in "
        "a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
        "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    infos = as_flag(get_infos)
    found = _factors(A, pivot, "")
    found = tuple(found) if infos else tuple(found[:2])
    if out is None:
        return found
    for target, value in zip(out, found, strict=True):
        target.resize_as_(value).copy_(value)
    return out


# -- L, U and P -----------------------------------------------------------------------------------------


def _unpacked(lu: Layout, where: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], list[Layout]]:
    """The launch that takes L and U from the array ``where``, and their layouts."""
    batch, (m, n), dtype = lu.shape[:-2], lu.shape[-2:], lu.numpy_dtype
    k = min(m, n)
    layouts, count = [row_major(dtype, batch, m, k), row_major(dtype, batch, k, n)], math.prod(batch)
    return [(kernels.unpack, where, Written(0, (count, m, k)), Written(1, (count, k, n)))], layouts


def _unpacked_reference(lu: Any) -> Any:
    k = min(lu.shape[-2:])
    return np.tril(lu[..., :k], -1) + np.eye(lu.shape[-2], k), np.triu(lu[..., :k, :])


class LuUnpack(BatchedMatrices):
    """(L, U) from the one matrix that holds both."""

    multiple_results, results = True, ("L", "U")
    linear = ()
    samples = cases(lambda: (draw(3, 3),), lambda: (draw(2, 2, 4),), lambda: (draw(4, 2),))
    reference = _unpacked_reference

    def plan(x_layout):
        check_numbers("lu_unpack", x_layout)
        batch, sizes = x_layout.shape[:-2], x_layout.shape[-2:]
        # Matrices in any order, which the loop reads across: a reshape would copy some.
        whole = Read("x", (math.prod(batch), *sizes)) if x_layout.ndim != 3 else Read("x")
        return Launches(*_unpacked(x_layout, whole), 2)

    def grad_x(g, x_layout):
        (m, n), parts = x_layout.shape[-2:], []
        if g[0] is not None:
            parts.append(_padded(Tril.apply(g[0], -1), -1, n))
        if g[1] is not None:
            parts.append(_padded(Triu.apply(g[1]), -2, m))
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _padded(x: Tensor, dim: int, size: int) -> Tensor:
    """``x`` with zeros up to ``size`` along ``dim``."""
    shape = list(x.shape)
    shape[dim] = size - shape[dim]
    return cat([x, zeros(*shape, dtype=x.dtype)], dim) if shape[dim] else x


class Permutation(BatchedMatrices):
    """P of A = P L U, in the dtype of ``lu``, from the rows that were exchanged."""

    cores = {"pivots": 1}
    samples = cases(
        lambda: (draw(3, 3), tensor([3, 2, 3]).int()), lambda: (draw(2, 4, 2), tensor([[2, 4], [4, 3]]).int())
    )

    def reference(lu, pivots):
        m, k = lu.shape[-2], pivots.shape[-1]
        out = np.broadcast_to(np.eye(m), (*lu.shape[:-2], m, m)).copy()
        for p, places in zip(out.reshape(-1, m, m), pivots.reshape(-1, k), strict=True):
            for row in reversed(range(k)):
                p[[row, places[row] - 1]] = p[[places[row] - 1, row]]
        return out

    def plan(lu_layout, pivots_layout):
        check_numbers("lu_unpack", lu_layout)
        batch, m = lu_layout.shape[:-2], lu_layout.shape[-2]
        out, count = row_major(lu_layout.numpy_dtype, batch, m, m), math.prod(batch)
        pivots = row_major_read("pivots", pivots_layout, (count, pivots_layout.shape[-1]))
        return Launches([(kernels.permutation, pivots, Written(0, (count, m, m)))], [out])


class LinalgLu(BatchedMatrices):
    """(L, U, the rows that were exchanged)."""

    multiple_results, results = True, ("L", "U", "pivots")
    samples = LinalgLuFactorEx.samples

    def reference(x):
        lu, pivots, _ = _factored_reference(x)
        return *_unpacked_reference(lu), pivots

    def plan(x_layout):
        # The results come first: L, U and pivots, then the matrix that holds both and info.
        factor, (whole, pivots, info) = factored(x_layout, (3, 2, 4))
        stack = math.prod(x_layout.shape[:-2]), *x_layout.shape[-2:]
        unpack, parts = _unpacked(x_layout, Written(3, stack))
        return Launches([factor, *unpack], [*parts, pivots, whole, info], 3)

    def grad_x(g, L, U, pivots):
        return _from_factors(g[0], g[1], Permutation.apply(L, pivots), L, U)


@takes_out
def linalg_lu(A: Tensor, *, pivot: bool = True) -> Any:
    """(P, L, U) of A = P L U: a permutation, lower triangular with ones on the diagonal, upper triangular."""
    if A._layout.ndim < 2:
        raise RuntimeError(f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead")
    check_numbers("lu_cpu", A._layout)
    check_pivoting(pivot)
    lower, upper, pivots = LinalgLu.apply(A)
    return return_types.linalg_lu(Permutation.apply(lower.detach(), pivots), lower, upper)


public(linalg_lu, module="linalg")


@takes_out
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """(P, L, U) from what ``lu_factor`` returned; those that are not asked for are empty."""
    if LU_data._layout.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.shape)} instead"
        )
    data, pivots = as_flag(unpack_data), as_flag(unpack_pivots)
    if pivots and LU_pivots.dtype.name != "int32":
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this "
            "function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    nothing = zeros(0, dtype=LU_data.dtype)
    lower, upper = LuUnpack.apply(LU_data) if data else (nothing, nothing)
    p = CheckedPermutation.apply(LU_data.detach(), LU_pivots) if pivots else nothing
    return return_types.lu_unpack(p, lower, upper)


public(lu_unpack, method_too=False)


class CheckedPermutation(Permutation):
    """P of A = P L U from pivots that anybody may have written: RuntimeError for one that is no row."""

    def plan(lu_layout, pivots_layout):
        made = compiled(Permutation.plan(lu_layout, pivots_layout), {"lu": lu_layout, "pivots": pivots_layout})
        rows = lu_layout.shape[-2]

        def run(lu: Tensor, pivots: Tensor) -> Tensor:
            check_pivots(pivots, 1, rows, _no_row_to_unpack)
            return made(lu, pivots)

        return run


def _no_row_to_unpack(found: Any) -> NoReturn:
    raise RuntimeError(
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of "
        "lu_factor?"
    )
