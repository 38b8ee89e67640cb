"""Least squares: X of the smallest |A X - B|, and among those the smallest."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.registry import public
from jitgrad.kernels.loops import least_squares as kernels
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    broadcast_batches,
    column_major,
    row_major,
    whole_batches,
    with_check,
)
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.shape.expand import Unsqueeze

__all__: list[str] = []


def _reference(a: Any, b: Any, rcond: Any, driver: str) -> Any:
    x, (m, n) = np.linalg.pinv(a) @ b, a.shape[-2:]
    nothing, whole = np.zeros(0, np.zeros(0, a.dtype).real.dtype), np.zeros(0, np.int64)
    ranks = np.full(a.shape[:-2], min(m, n)) if driver != "gels" else whole
    values = np.linalg.svd(a, compute_uv=False) if driver in ("gelsd", "gelss") else nothing
    rest = (np.abs(a @ x - b) ** 2).sum(-2) if m > n and driver != "gelsy" else nothing
    return x, rest, ranks, values, np.zeros(a.shape[:-2], np.int32)


def _batched(call: BatchedCall) -> tuple[Tensor, ...]:
    """``whole_batches``; what the driver does not find is empty whatever the batch is, and gets one for that."""
    return tuple([t.expand(call.size, 0) if t.shape == (0,) else t for t in whole_batches(call)])


class LinalgLstsq(BatchedMatrices):
    """(X, squares of the residuals, ranks, singular values, info): those are empty that the driver does not find.

    With the pseudo-inverse A+ the gradient of B is A+^H gX. That of A is -gB X^H, and for tall A, where something is
    left over, (B - A X) (A+ gB)^H, for wide A, where many X fit, (A+^H X) (gX - A^H gB)^H more.
    """

    multiple_results, batch = True, _batched
    results = "solution", "residuals", "rank", "singular_values", "info"
    constants = ("singular_values",)
    samples = cases(
        lambda: (draw(4, 2), draw(4, 1), None, "gelsd"), lambda: (draw(2, 2, 3), draw(2, 2, 1), None, "gelsy"),
        lambda: (draw_complex(3, 2), draw_complex(3, 2), None, "gels"), lambda: (draw(2, 2), draw(2, 1), 1e-6, "gelss"),
    )  # fmt: skip
    reference = _reference

    def plan(A_layout, B_layout, rcond, driver):
        dtype, batch = A_layout.numpy_dtype, A_layout.shape[:-2]
        (m, n), k, real = A_layout.shape[-2:], B_layout.shape[-1], np.zeros(0, dtype).real.dtype
        rows = column_major(dtype, batch, max(m, n), k)  # where LAPACK finds B, and writes X and what is left over
        solution, nothing = intern(dtype, (*batch, n, k), rows.strides), row_major(real, (), 0)
        layouts = [
            rows,
            row_major(real, batch, k) if m > n and driver != "gelsy" else nothing,
            row_major(np.int64, batch) if driver != "gels" else row_major(np.int64, (), 0),
            row_major(real, batch, min(m, n)) if driver in ("gelsd", "gelss") else nothing,
            row_major(np.int32, batch),
        ]
        rcond = float(np.finfo(real).eps * max(m, n) if rcond is None else rcond)
        launch = (kernels.least_squares, Read("A"), Read("B"), *map(Written, range(5)), rcond, driver)

        def results(both: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
            return both if m <= n else wrap(both._data[..., :n, :], solution), *others

        return with_check("torch.linalg.lstsq", Launches([launch], layouts, 5, results))

    def grad_A(g, A, B, solution, rcond, driver):
        of_b, found = _of_b(g[0], A, rcond, driver), []
        left = B - matmul(A, solution)
        if of_b is not None:
            found.append(-matmul(of_b, adjoint(solution)))
            m, n = A.shape[-2:]
            if m > n:
                found.append(matmul(left, adjoint(_least(A, of_b, rcond, driver))))
            if m < n:
                dual = _least(adjoint(A), solution, rcond, driver)
                found.append(matmul(dual, adjoint(g[0] - matmul(adjoint(A), of_b))))
        if g[1] is not None and g[1]._layout.numel:
            found.append(matmul(left * (-2 * Unsqueeze.apply(g[1], -2)), adjoint(solution)))
        return sum(found[1:], found[0]) if found else None

    def grad_B(g, A, B, solution, rcond, driver):
        found = [] if g[0] is None else [_of_b(g[0], A, rcond, driver)]
        if g[1] is not None and g[1]._layout.numel:
            found.append((B - matmul(A, solution)) * (2 * Unsqueeze.apply(g[1], -2)))
        return sum(found[1:], found[0]) if found else None


def _least(a: Tensor, b: Tensor, rcond: Any, driver: str) -> Tensor:
    return LinalgLstsq.apply(a, b, rcond, driver)[0]


def _of_b(g: Tensor | None, a: Tensor, rcond: Any, driver: str) -> Tensor | None:
    return None if g is None else _least(adjoint(a), g, rcond, driver)


_DRIVERS = "gels", "gelsy", "gelsd", "gelss"


def _check(a: Tensor, b: Tensor, driver: Any) -> bool:
    """Whether the right-hand sides are vectors; RuntimeError for arguments that do not fit."""
    op, x, y = "torch.linalg.lstsq", a._layout, b._layout
    if x.ndim < 2:
        raise RuntimeError(f"{op}: input must have at least 2 dimensions.")
    if y.ndim < 1:
        raise RuntimeError(f"{op}: other must have at least 1 dimension.")
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"{op}: Expected input and other to have the same dtype, but got input's dtype {scalar_type(x.dtype)} and "
            f"other's dtype {scalar_type(y.dtype)}"
        )
    if not 0 <= x.ndim - y.ndim <= 1:
        raise RuntimeError(
            f"{op}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    vectors = x.ndim - 1 == y.ndim and (y.ndim == 1 or y.shape == x.shape[:-1])
    if not vectors and x.shape[-2] != y.shape[-2]:
        raise RuntimeError(f"{op}: input.size(-2) should match other.size(-2)")
    if vectors and x.shape[-2] != y.shape[-1]:
        raise RuntimeError(f"{op}: input.size(-2) should match other.size(-1)")
    if x.numpy_dtype.char not in "fdFD":
        raise RuntimeError("This function doesn't handle types other than float and double")
    if driver not in (None, *_DRIVERS):
        raise RuntimeError(f"{op}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    return vectors


@takes_out
def linalg_lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values) of the X for which |A X - B| is smallest; batches broadcast.

    driver: LAPACK's routine: "gelsy" (the default), "gelsd" and "gelss", which take singular values below ``rcond``
    times the largest for zeros, or "gels", for matrices of full rank. What it does not find is empty.
    """
    vectors = _check(input, b, driver)
    driver = driver or "gelsy"
    columns = Unsqueeze.apply(b, -1) if vectors else b
    x, y = broadcast_batches(input, columns)
    x, left, *found, _ = LinalgLstsq.apply(x, y, rcond, driver)
    return return_types.linalg_lstsq(x.squeeze(-1) if vectors else x, left, *found)


public(linalg_lstsq, module="linalg")
