"""QR, and products of reflectors, as which LAPACK keeps Q."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.planned import row_major as in_rows
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.loops import reflectors as kernels
from jitgrad.kernels.loops import small_matrices
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.creation.fill import DiagEmbed, Tril, Triu
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    as_rows,
    check_floating,
    check_matrix,
    check_numbers,
    column_major,
    is_small,
    row_major,
)  # fmt: skip
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.triangular import LinalgSolveTriangular
from jitgrad.ops.shape.expand import Unsqueeze
from jitgrad.ops.shape.join import cat

__all__ = ["LinalgQr"]


# -- QR -------------------------------------------------------------------------------------------------


def _qr_reference(x: Any, mode: Any) -> Any:
    return (np.zeros(0, x.dtype), np.linalg.qr(x, "r")) if mode == "r" else tuple(np.linalg.qr(x, mode))


class LinalgQr(BatchedMatrices):
    """(Q, R) with orthonormal columns and an upper triangle; mode "complete" has a square Q, "r" an empty one."""

    multiple_results, results = True, ("Q", "R")
    samples = cases(
        lambda: (draw(3, 3), "reduced"), lambda: (draw(2, 4, 2), "reduced"), lambda: (draw(2, 4), "complete"),
        lambda: (draw_complex(3, 2), "reduced"), lambda: (draw_complex(2, 3), "reduced"),
    )  # fmt: skip
    reference = _qr_reference

    def plan(x_layout, mode):
        check_numbers("geqrf_cpu", x_layout)
        dtype, batch, (m, n) = x_layout.numpy_dtype, x_layout.shape[:-2], x_layout.shape[-2:]
        k, tall = min(m, n), m if mode == "complete" else min(m, n)
        factors, tau = column_major(dtype, batch, m, n), row_major(dtype, batch, k)
        r = column_major(dtype, batch, tall, n)
        nothing = row_major(dtype, (), 0)
        q = nothing if mode == "r" else column_major(dtype, batch, m, tall)
        if is_small(x_layout, m, max(n, tall)):
            return _small(x_layout, [q, r, factors, tau], mode != "r")
        launches = [(kernels.geqrf, Read("x"), Written(2), Written(3)), (kernels.upper, Written(2), Written(1))]
        if mode != "r":
            launches.append((kernels.orgqr, Written(2), Written(3), Written(0)))
        return Launches(launches, [q, r, factors, tau], 2)

    def grad_x(g, Q, R, mode):
        (m, n), (of_q, of_r) = (Q.shape[-2] if Q.ndim > 1 else 0, R.shape[-1]), g
        _check_derivable(mode, m, n)
        if m < n:  # what follows the square part is Q^H times further columns, whose gradient reaches Q as well
            wide, further = of_r, None
            if wide is not None:
                of_r, further = wide.narrow(-1, 0, m), wide.narrow(-1, m, n - m)
                through = matmul(Q, matmul(R.narrow(-1, m, n - m), adjoint(further)))
                of_q = through if of_q is None else of_q + through
            first = _of_square(of_q, of_r, Q, R.narrow(-1, 0, m))
            if further is None:
                return cat([first, zeros(*first.shape[:-1], n - m, dtype=first.dtype)], -1)
            return cat([first, matmul(Q, further)], -1)
        return _of_square(of_q, of_r, Q, R)


def _small(x: Layout, layouts: list[Layout], with_q: bool) -> Launches:
    """The plan for matrices that are left to loops. layouts: of Q, R, the factors of Q, and their coefficients."""
    count, k = math.prod(x.shape[:-2]), layouts[3].shape[-1]
    q, r, factors, tau = Written(0, "columns"), Written(1, "columns"), Written(2, "columns"), Written(3, (count, k))
    launches = (small_matrices.reflectors, as_rows("x", x), factors, tau), (small_matrices.upper, factors, r)
    of_q = [(small_matrices.columns_of_q, factors, tau, q)] if with_q else []
    return Launches([*launches, *of_q], layouts, 2)


def _check_derivable(mode: str, m: int, n: int) -> None:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )


def _of_square(of_q: Tensor | None, of_r: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    """[gQ + Q (M + M^H - diag M)] R^-H with M = triu(gR R^H - Q^H gQ), for a square R."""
    inner = None if of_r is None else matmul(of_r, adjoint(r))
    if of_q is not None:
        of_basis = matmul(adjoint(q), of_q)
        inner = -of_basis if inner is None else inner - of_basis
    upper = Triu.apply(inner)
    # The diagonal of R is real, so that of M counts with its real part.
    whole = Triu.apply(upper, 1)
    diagonal = upper.diagonal(0, -2, -1)
    diagonal = diagonal.real.to(diagonal.dtype) if diagonal.dtype.is_complex else diagonal
    inner = matmul(q, whole + adjoint(whole) + DiagEmbed.apply(diagonal))
    return LinalgSolveTriangular.apply(adjoint(r), inner if of_q is None else inner + of_q, False, False)


@takes_out
def linalg_qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) of A = Q R: the columns of Q are orthonormal, R is upper triangular.

    Of (m, n) matrices Q has min(m, n) columns; mode "complete" all m, and in "r" it is empty.
    """
    check_matrix("linalg.qr", A._layout)
    check_floating("linalg.qr", A._layout)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return return_types.linalg_qr(*LinalgQr.apply(A, mode))


public(linalg_qr, module="linalg")


@public
@takes_out
def qr(input: Tensor, some: bool = True) -> Any:
    """(Q, R) as ``linalg.qr``; without ``some`` Q is square."""
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
        "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\n"
        "should be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return return_types.qr(*linalg_qr(input, "reduced" if as_flag(some) else "complete"))


# -- reflectors -----------------------------------------------------------------------------------------


class Geqrf(BatchedMatrices):
    """(reflectors below R, their factors), as LAPACK keeps them."""

    multiple_results, results = True, ("a", "tau")
    samples = cases(lambda: (draw(3, 2),), lambda: (draw(2, 2, 3),))

    def reference(x):
        h, tau = np.linalg.qr(x, "raw")
        return h.swapaxes(-1, -2), tau

    def plan(x_layout):
        if x_layout.ndim < 2:
            raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
        check_numbers("geqrf_cpu", x_layout)
        dtype, batch, (m, n) = x_layout.numpy_dtype, x_layout.shape[:-2], x_layout.shape[-2:]
        layouts = [column_major(dtype, batch, m, n), row_major(dtype, batch, min(m, n))]
        launch = kernels.geqrf, Read("x"), Written(0), Written(1)
        if is_small(x_layout):
            tau = Written(1, (math.prod(batch), min(m, n)))
            launch = small_matrices.reflectors, as_rows("x", x_layout), Written(0, "columns"), tau
        return Launches([launch], layouts, 2)


@public
@takes_out
def geqrf(input: Tensor) -> Any:
    """(a, tau): R and, below it, the reflectors whose product is Q, with their factors. It has no gradient."""
    return return_types.geqrf(*[underived("geqrf", found, input) for found in Geqrf.apply(input)])


def _of_reflectors(g: Tensor, x: Tensor, tau: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of reflectors v_i and their factors by that of the first columns of H_1 H_2 ... H_k.

    H_i = I - tau_i v_i v_i^H, and their product is I - V T V^H with T = (I + D S)^-1 D, where D has the factors on its
    diagonal and S is what V^H V has above it. So no product of single reflectors is needed.
    """
    k, columns = tau.shape[-1], g.shape[-1]
    if not (x._layout.numel and k):  # as PyTorch's: no gradients
        return None, None
    v, t, s, m = _compact(x.narrow(-1, 0, k), tau)
    first = v.narrow(-2, 0, columns)  # the product's columns are those of I - V T first^H
    gv = -matmul(g, matmul(first, adjoint(t)))
    of_first = -matmul(adjoint(g), matmul(v, t))
    of_t = -matmul(adjoint(v), matmul(g, first))
    of_d = LinalgSolveTriangular.apply(adjoint(m), of_t, False, True, True)
    of_m = -matmul(of_d, adjoint(t))
    of_tau = (of_d + matmul(of_m, adjoint(s))).diagonal(0, -2, -1)
    of_s = Triu.apply(Unsqueeze.apply(tau.conj().resolve_conj() if tau.dtype.is_complex else tau, -1) * of_m, 1)
    gv = gv + matmul(v, of_s + adjoint(of_s))
    if columns < v.shape[-2]:
        of_first = cat([of_first, zeros(*gv.shape[:-2], gv.shape[-2] - columns, k, dtype=gv.dtype)], -2)
    gv = Tril.apply(gv + of_first, -1)
    if k < x.shape[-1]:
        gv = cat([gv, zeros(*gv.shape[:-1], x.shape[-1] - k, dtype=gv.dtype)], -1)
    return gv, of_tau


def _compact(x: Tensor, tau: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(V, T, S, I + D S) of the product of reflectors."""
    below = Tril.apply(x, -1)
    ones = DiagEmbed.apply(tau.detach() * 0 + 1)
    n = x.shape[-2] - ones.shape[-2]
    if n > 0:
        ones = cat([ones, zeros(*ones.shape[:-2], n, ones.shape[-1], dtype=x.dtype)], -2)
    v = below + ones
    s = Triu.apply(matmul(adjoint(v), v), 1)
    m = Unsqueeze.apply(tau, -1) * s
    return v, LinalgSolveTriangular.apply(m, DiagEmbed.apply(tau), True, True, True), s, m


def _product(x: Any, tau: Any, size: int) -> Any:
    """The product of reflectors, one after the other."""
    m, out = x.shape[-2], np.eye(x.shape[-2], dtype=x.dtype)
    for k in range(tau.shape[-1]):
        v = np.where(np.arange(m) > k, x[..., :, k], np.arange(m) == k)
        out = out - (out @ v[..., None]) * tau[..., k, None, None] @ v.conj()[..., None, :]
    return out[..., :size]


class LinalgHouseholderProduct(BatchedMatrices):
    """The first columns of a product of reflectors, as many as there are in ``x``."""

    cores = {"tau": 1}
    samples = cases(lambda: (draw(3, 2), draw(2)), lambda: (draw(2, 3, 3), draw(2, 2)),
                    lambda: (draw_complex(3, 2), draw_complex(2)))  # fmt: skip
    reference = lambda x, tau: _product(x, tau, x.shape[-1])

    def plan(x_layout, tau_layout):
        check_numbers("orgqr_cpu", x_layout)
        out = column_major(x_layout.numpy_dtype, x_layout.shape[:-2], *x_layout.shape[-2:])
        launch = kernels.orgqr, Read("x"), Read("tau"), Written(0)
        if is_small(x_layout) and tau_layout.numel:
            tau = in_rows("tau", tau_layout, (math.prod(tau_layout.shape[:-1]), tau_layout.shape[-1]))
            launch = small_matrices.columns_of_q, Read("x", "columns"), tau, Written(0, "columns")
        return Launches([launch], [out])

    def grad_x(g, x, tau):
        return _of_reflectors(g, x, tau)[0]

    def grad_tau(g, x, tau):
        return _of_reflectors(g, x, tau)[1]

    def kernels(wants, g, x, tau):
        return dict(zip(("x", "tau"), _of_reflectors(g, x, tau), strict=True))


def _check_tau(op: str, x: Tensor, tau: Tensor) -> None:
    if x._layout.ndim - tau._layout.ndim != 1:
        raise RuntimeError(
            f"{op}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and "
            f"input.ndim is equal to {x.ndim}"
        )
    if x.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{op}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape[:-1])}"
        )


def _householder_product(x: Tensor, tau: Tensor) -> Tensor:
    op = "torch.linalg.householder_product"
    if x._layout.ndim < 2:
        raise RuntimeError(f"{op}: input must have at least 2 dimensions.")
    if x.shape[-2] < x.shape[-1]:
        raise RuntimeError(f"{op}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if x.shape[-1] < tau.shape[-1]:
        raise RuntimeError(f"{op}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_tau(op, x, tau)
    if x.dtype is not tau.dtype:
        names = scalar_type(tau.dtype), scalar_type(x.dtype)
        raise RuntimeError(f"{op}: tau dtype {names[0]} does not match input dtype {names[1]}")
    return LinalgHouseholderProduct.apply(x, tau)


@takes_out
def linalg_householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of H_1 H_2 ... H_k, as many as ``input`` has, with H_i = I - tau_i v_i v_i^H.

    Of v_i the elements below the diagonal are column i of ``input``; that on it is 1.
    """
    return _householder_product(input, tau)


public(linalg_householder_product, module="linalg")


@public
@takes_out
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """``linalg.householder_product``."""
    return _householder_product(input, input2)


class Ormqr(BatchedMatrices):
    """Q C or, not ``left``, C Q, with the product Q of all reflectors; ``transpose``: Q^H in the place of Q."""

    cores = {"tau": 1}
    linear = ("other",)
    samples = cases(
        lambda: (draw(3, 2), draw(2), draw(3, 2), True, False),
        lambda: (draw(2, 3, 2), draw(2, 2), draw(2, 1, 3), False, True),
        lambda: (draw_complex(3, 1), draw_complex(1), draw_complex(3, 1), True, True),
    )  # fmt: skip

    def reference(x, tau, other, left, transpose):
        q = _product(x, tau, x.shape[-2])
        q = q.conj().swapaxes(-1, -2) if transpose else q
        return q @ other if left else other @ q

    def plan(x_layout, tau_layout, other_layout, left, transpose):
        check_numbers("ormqr_cpu", x_layout)
        out = column_major(x_layout.numpy_dtype, other_layout.shape[:-2], *other_layout.shape[-2:])
        return Launches([(kernels.ormqr, *map(Read, ("x", "tau", "other")), Written(0), left, transpose)], [out])

    def grad_x(g, x, tau, other, left, transpose):
        return _of_reflectors(_of_product(g, other, left, transpose), x, tau)[0]

    def grad_tau(g, x, tau, other, left, transpose):
        return _of_reflectors(_of_product(g, other, left, transpose), x, tau)[1]

    def grad_other(g, x, tau, left, transpose):
        return Ormqr.apply(x, tau, g, left, not transpose)


def _of_product(g: Tensor, other: Tensor, left: bool, turned: bool) -> Tensor:
    """The gradient of Q by that of Q C, C Q, Q^H C or C Q^H."""
    if left:
        return matmul(other, adjoint(g)) if turned else matmul(g, adjoint(other))
    return matmul(adjoint(g), other) if turned else matmul(adjoint(other), g)


@public
@takes_out
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q ``input3``, or ``input3`` Q if not ``left``, for Q as ``geqrf`` returns it; ``transpose``: with Q^H.

    RuntimeError where sizes or dtypes do not fit.
    """
    op, left = "torch.ormqr", as_flag(left)
    x, tau, other = input, input2, input3
    for name, y in (("input", x), ("other", other)):
        if y._layout.ndim < 2:
            raise RuntimeError(f"{op}: {name} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(f"{op}: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if other.shape[side] != x.shape[-2]:
        raise RuntimeError(f"{op}: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] != min(x.shape[-2:]):
        raise RuntimeError(f"{op}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    _check_tau(op, x, tau)
    if x.shape[:-2] != other.shape[:-2]:
        raise RuntimeError(
            f"{op}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
            f"{list(other.shape[:-2])}"
        )
    for name, y in (("tau", tau), ("other", other)):
        if y.dtype is not x.dtype:
            raise RuntimeError(
                f"{op}: Expected input and {name} to have the same dtype, but input has dtype{scalar_type(x.dtype)} "
                f"and {name} has dtype {scalar_type(y.dtype)}"
            )
    return Ormqr.apply(x, tau, other, left, as_flag(transpose))
