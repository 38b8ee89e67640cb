"""Factors of positive-definite matrices, A = L L^H or A = U^H U, and what is solved by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written
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
    check_floating,
    check_numbers,
    check_square,
    column_major,
    is_small,
    row_major,
    with_check,
)  # fmt: skip
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.triangular import LinalgSolveTriangular, check_systems

__all__ = ["CholeskySolve", "LinalgCholeskyEx"]


def _factor(x: Any, upper: bool = False, op: str = "") -> Any:
    """The reference: the lower triangle is read, of the upper factor the upper one."""
    read = np.triu(x) if upper else np.tril(x).conj().swapaxes(-1, -2)
    whole = read + np.triu(read, 1).conj().swapaxes(-1, -2)
    lower = np.linalg.cholesky(whole)
    return lower.conj().swapaxes(-1, -2) if upper else lower, np.zeros(x.shape[:-2], np.int32)


def _definite() -> Tensor:
    """Two positive-definite matrices."""
    x = draw(2, 3, 3)._data
    return tensor(x @ x.swapaxes(-1, -2) + np.eye(3))


class LinalgCholeskyEx(BatchedMatrices):
    """(factor, info): lower, or upper, triangular; info is not 0 where a matrix is not positive-definite.

    ``op``: the function that raises an error then, "" for none.
    """

    multiple_results, results = True, ("L", "info")
    samples = cases(lambda: (_definite(),), lambda: (_definite(), True))
    reference = _factor

    def plan(x_layout, upper=False, op=""):
        check_numbers("cholesky_cpu", x_layout)
        batch, n = x_layout.shape[:-2], x_layout.shape[-1]
        layouts = [column_major(x_layout.numpy_dtype, batch, n, n), row_major(np.int32, batch)]
        launch = kernels.cholesky, Read("x"), Written(0), Written(1), upper
        if is_small(x_layout):
            info = Written(1, (math.prod(batch),))
            launch = small_matrices.cholesky, as_rows("x", x_layout), Written(0, "columns"), info, upper
        return with_check(op, Launches([launch], layouts, 2))

    def grad_x(g, L, upper):
        lower, g = (adjoint(L), adjoint(g[0])) if upper else (L, g[0])
        inner = Tril.apply(matmul(adjoint(lower), g))
        inner = (inner + adjoint(Tril.apply(inner, -1))) * 0.5
        left = LinalgSolveTriangular.apply(adjoint(lower), inner, True)
        return LinalgSolveTriangular.apply(lower, left, False, False)


def _checked_factor(op: str, x: Tensor, upper: Any, wanted: str, floating: bool = True) -> Any:
    """LinalgCholeskyEx of checked matrices; ``op`` is what errors call it, ``wanted`` if it is to look at info."""
    check_square(op, x._layout)
    if floating:
        check_floating(op, x._layout)
    return LinalgCholeskyEx.apply(x, as_flag(upper), wanted)


@takes_out
def linalg_cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L of A = L L^H, or the upper triangular U of A = U^H U; one triangle of A is read.

    LinAlgError where a matrix is not positive-definite.
    """
    return _checked_factor("linalg.cholesky", input, upper, "linalg.cholesky")[0]


@takes_out
def linalg_cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(factor, info) as ``cholesky``, but where a matrix is not positive-definite ``info`` is not 0.

    With ``check_errors`` LinAlgError is raised there.
    """
    wanted = "linalg.cholesky_ex" if as_flag(check_errors) else ""
    return return_types.linalg_cholesky_ex(*_checked_factor("linalg.cholesky", input, upper, wanted))


public(linalg_cholesky, module="linalg")
public(linalg_cholesky_ex, module="linalg")


class Cholesky(BatchedMatrices):
    """The factor alone, under the name of the elder function."""

    samples = LinalgCholeskyEx.samples
    reference = lambda x, upper=False, op="": _factor(x, upper)[0]

    def plan(x_layout, upper=False, op=""):
        made = LinalgCholeskyEx.plan(x_layout, upper)
        return with_check(op, made._replace(results=lambda L, info: L))

    def grad_x(g, out, upper):
        return LinalgCholeskyEx.grad_x((g, None), out, upper)


@public
@takes_out
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The lower, or upper, triangular factor of positive-definite matrices; LinAlgError for others."""
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch "
        "release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
        "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis transform "
        "will produce equivalent results for all valid (symmetric positive definite) inputs."
    )
    check_square("cholesky", input._layout)
    return Cholesky.apply(input, as_flag(upper), "cholesky")


def _product(factor: Any, upper: bool) -> Any:
    """The matrix of a factor, of which the other triangle is not read."""
    lower = np.triu(factor).conj().swapaxes(-1, -2) if upper else np.tril(factor)
    return lower @ lower.conj().swapaxes(-1, -2)


class CholeskySolve(BatchedMatrices):
    """X of A X = B, for the lower, or upper, factor of A."""

    linear = ("b",)
    samples = cases(lambda: (draw(3, 2), _sample(3, 3), False), lambda: (draw(2, 3, 1), _sample(2, 3, 3), True))
    reference = lambda b, factor, upper: np.linalg.solve(_product(factor, upper), b)

    def plan(b_layout, factor_layout, upper):
        check_numbers("cholesky_solve_cpu", b_layout)
        out = column_major(b_layout.numpy_dtype, b_layout.shape[:-2], *b_layout.shape[-2:])
        launch = kernels.cholesky_solve, Read("b"), Read("factor"), Written(0), upper
        if is_small(factor_layout) and out.numel:
            sides = as_rows("factor", factor_layout), as_rows("b", b_layout)
            launch = small_matrices.cholesky_solve, *sides, Written(0, "columns"), upper
        return Launches([launch], [out])

    def grad_b(g, factor, upper):
        return CholeskySolve.apply(g, factor, upper)

    def grad_factor(g, factor, out, upper):
        product = matmul(CholeskySolve.apply(g, factor, upper), adjoint(out))
        return _times(factor, product + adjoint(product), upper)


def _sample(*shape: int) -> Tensor:
    """A triangular factor, lower and upper at once."""
    return Tril.apply(Triu.apply(draw(*shape, low=1.0, high=2.0)))


def _times(factor: Tensor, common: Tensor, upper: bool) -> Tensor:
    return -matmul(factor, common) if upper else -matmul(common, factor)


@public
@takes_out
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X of A X = B for a factor ``input2`` of A, lower triangular unless ``upper``; batches broadcast."""
    for name, x in (("b", input), ("u", input2)):
        if x._layout.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    check_systems("cholesky_solve", input, input2)
    b, factor = broadcast_batches(input, input2)
    return CholeskySolve.apply(b, factor, as_flag(upper))


class CholeskyInverse(BatchedMatrices):
    """The inverse of A, for the lower, or upper, factor of A; ``op``: what refuses a factor that has none, "": none."""

    samples = cases(lambda: (_sample(3, 3),), lambda: (_sample(2, 3, 3), True))
    reference = lambda x, upper=False, op="": np.linalg.inv(_product(x, upper))

    def plan(x_layout, upper=False, op=""):
        check_square("cholesky_inverse", x_layout)
        check_numbers("cholesky_inverse_out_cpu", x_layout)
        out = column_major(x_layout.numpy_dtype, x_layout.shape[:-2], *x_layout.shape[-2:])
        layouts = [out, row_major(np.int32, x_layout.shape[:-2])]
        launch = kernels.cholesky_inverse, Read("x"), Written(0), Written(1), upper
        if is_small(x_layout):
            info = Written(1, (layouts[1].numel,))
            launch = small_matrices.cholesky_inverse, as_rows("x", x_layout), Written(0, "columns"), info, upper
        return with_check(op, Launches([launch], layouts, 2, lambda inverse, info: inverse))

    def grad_x(g, x, out, upper):
        return _times(x, matmul(out, matmul(g + adjoint(g), out)), upper)


@public
@takes_out
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A for a factor of A, lower triangular unless ``upper``.

    LinAlgError where an element of the factor's diagonal is 0.
    """
    return CholeskyInverse.apply(input, as_flag(upper), "cholesky_inverse")
