"""LDL of symmetric or Hermitian matrices, A = P L D L^T P^T. PyTorch has no gradients here."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, compiled
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    broadcast_batches,
    check_floating,
    check_numbers,
    check_pivots,
    check_square,
    column_major,
    row_major,
    with_check,
)  # fmt: skip
from jitgrad.ops.linalg.triangular import check_systems
from jitgrad.ops.shape.expand import Expand

__all__: list[str] = []


def _symmetric(x: Any, hermitian: bool) -> Any:
    """The matrix whose lower triangle is read."""
    lower = np.tril(x, -1)
    other = (lower.conj() if hermitian else lower).swapaxes(-1, -2)
    diagonal = np.eye(x.shape[-1]) * x
    return lower + other + (diagonal.real if hermitian else diagonal)


def _factored(x: Any, hermitian: bool = False, op: str = "") -> Any:
    """The reference, for matrices of which no rows are exchanged."""
    n, whole = x.shape[-1], _symmetric(x, hermitian)
    out, pivots = np.zeros_like(whole), np.broadcast_to(np.arange(1, n + 1, dtype=np.int32), x.shape[:-1])
    for a, ld in zip(whole.reshape(-1, n, n), out.reshape(-1, n, n), strict=True):
        a = a.copy()
        for k in range(n):
            ld[k, k] = a[k, k]
            ld[k + 1 :, k] = a[k + 1 :, k] / a[k, k]
            row = ld[k + 1 :, k].conj() if hermitian else ld[k + 1 :, k]
            a[k + 1 :, k + 1 :] -= np.outer(ld[k + 1 :, k] * a[k, k], row)
    return out, pivots, np.zeros(x.shape[:-2], np.int32)


def _heavy(make: Any, *shape: int) -> Tensor:
    """Matrices with so heavy a diagonal that no rows are exchanged."""
    return make(*shape) + tensor(np.eye(shape[-1]) * 9)


class LinalgLdlFactorEx(BatchedMatrices):
    """(L and D in one lower triangle, pivots, info), with ``hermitian`` for Hermitian matrices.

    ``op``: the function that raises an error where info is not 0, "" for none.
    """

    multiple_results, results = True, ("LD", "pivots", "info")
    samples = cases(lambda: (_heavy(draw, 3, 3),), lambda: (_heavy(draw_complex, 2, 3, 3), True))
    reference = _factored

    def plan(x_layout, hermitian=False, op=""):
        check_numbers("ldl_factor_kernel_cpu", x_layout)
        dtype, batch, n = x_layout.numpy_dtype, x_layout.shape[:-2], x_layout.shape[-1]
        layouts = [column_major(dtype, batch, n, n), row_major(np.int32, batch, n), row_major(np.int32, batch)]
        launch = (kernels.ldl_factor, Read("x"), Written(0), Written(1), Written(2), hermitian)
        return with_check(op, Launches([launch], layouts, 3))


def _factor(x: Tensor, hermitian: Any, op: str) -> tuple[Tensor, ...]:
    title = "torch.linalg.ldl_factor_ex"
    check_square(title, x._layout)
    check_floating(title, x._layout)
    ld, *others = LinalgLdlFactorEx.apply(x, as_flag(hermitian), op)
    return underived("linalg_ldl_factor_ex", ld, x), *others


@takes_out
def linalg_ldl_factor(input: Tensor, *, hermitian: bool = False) -> Any:
    """(L and D in one matrix, pivots) of symmetric, or Hermitian, matrices, of which the lower triangle is read.

    It has no gradient. RuntimeError where D is singular.
    """
    return return_types.linalg_ldl_factor(*_factor(input, hermitian, "torch.linalg.ldl_factor")[:2])


@takes_out
def linalg_ldl_factor_ex(input: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """(LD, pivots, info) as ``ldl_factor``, but where D is singular ``info`` is the place of the zero."""
    wanted = "torch.linalg.ldl_factor_ex" if as_flag(check_errors) else ""
    return return_types.linalg_ldl_factor_ex(*_factor(input, hermitian, wanted))


public(linalg_ldl_factor, module="linalg")
public(linalg_ldl_factor_ex, module="linalg")


def _no_pivot(found: Any) -> NoReturn:
    bound = "|pivot| >= 1" if found.item(1) == 0 else "|pivot| <= LD.size(-2)"
    raise RuntimeError(
        f"Pivots given to ldl_solve must all satisfy {bound}. Did you properly pass the result of ldl_factor?"
    )


def _solved(ld: Any, pivots: Any, b: Any, hermitian: bool = False) -> Any:
    """The reference, for factors of which no rows were exchanged."""
    n = ld.shape[-1]
    lower = np.tril(ld, -1) + np.eye(n)
    turned = (lower.conj() if hermitian else lower).swapaxes(-1, -2)
    return np.linalg.solve(lower @ (np.eye(n) * ld) @ turned, b)


class LinalgLdlSolve(BatchedMatrices):
    """X of A X = B for the LDL of A."""

    cores = {"pivots": 1}
    samples = cases(lambda: (_heavy(draw, 3, 3), tensor([1, 2, 3]).int(), draw(3, 2)))
    reference = _solved

    def plan(LD_layout, pivots_layout, b_layout, hermitian=False):
        check_numbers("ldl_solve_kernel_cpu", LD_layout)
        out = column_major(b_layout.numpy_dtype, b_layout.shape[:-2], *b_layout.shape[-2:])
        launch = (kernels.ldl_solve, Read("LD"), Read("pivots"), Read("b"), Written(0), hermitian)
        made = compiled(Launches([launch], [out]), {"LD": LD_layout, "pivots": pivots_layout, "b": b_layout})
        n = LD_layout.shape[-1]

        def run(LD: Tensor, pivots: Tensor, b: Tensor) -> Tensor:
            check_pivots(pivots, -n, n, _no_pivot)
            return made(LD, pivots, b)

        return run


@takes_out
def linalg_ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X of A X = B from what ``ldl_factor`` made of A; batches broadcast. It has no gradient."""
    title = "torch.linalg.ldl_solve"
    check_square(title, LD._layout)
    normalize_dim(-2, B.ndim)  # IndexError for a vector
    check_systems(title, B, LD)
    if pivots.dtype.is_floating_point or pivots.dtype.is_complex:
        raise RuntimeError(f"{title}: Expected pivots to be integers. Got {scalar_type(pivots.dtype)}")
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{title}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    check_floating(title, LD._layout)
    factors, b = broadcast_batches(LD, B)
    if factors is not LD:
        pivots = Expand.apply(pivots, factors.shape[:-1])
    return underived("linalg_ldl_solve", LinalgLdlSolve.apply(factors, pivots, b, as_flag(hermitian)), LD, B)


public(linalg_ldl_solve, module="linalg")
