"""Norms of matrices and vectors under ``linalg``, condition numbers, ranks."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch import table
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public, published
from jitgrad.dispatch.sizes import as_flag, dims_argument, float_argument, number_argument
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.linalg.batched_matrices import check_floating, check_matrix, check_square
from jitgrad.ops.linalg.eigen import linalg_eigvalsh
from jitgrad.ops.linalg.pseudo_inverse import check_tolerances, threshold
from jitgrad.ops.linalg.svd import linalg_svdvals
from jitgrad.ops.reduction.vector_norm import VectorNorm, norm

__all__: list[str] = []


def _check_dtype(op: str, x: Layout, dtype: Any) -> Any:
    """The dtype in which a norm is taken, None: that of ``x``; RuntimeError if it is none for ``x``."""
    wanted = as_dtype(op, dtype)
    if wanted is None:
        return None
    title = f"linalg.{op.removeprefix('linalg_')}"
    if wanted.category < 2:
        raise RuntimeError(f"{title}: dtype should be floating point or complex, but got {scalar_type(wanted)}")
    if wanted.is_complex is not x.dtype.is_complex:
        kind = "complex" if x.dtype.is_complex else "real"
        raise RuntimeError(f"{title}: dtype should be {kind} for {kind} inputs, but got {scalar_type(wanted)}")
    if wanted.itemsize < x.dtype.itemsize:
        raise RuntimeError(
            f"{title}: the dtype of the input ({scalar_type(x.dtype)}) should be convertible without narrowing to the "
            f"specified dtype ({scalar_type(wanted)})"
        )
    return wanted


def _order(op: str, order: Any) -> float:
    """The order of a norm; RuntimeError for a complex one."""
    if type(order) not in (int, float):
        order = number_argument(op, "ord", 2, order)
        if isinstance(order, complex):
            title = op.replace("_", ".", 1)
            raise RuntimeError(f"{title}: Expected a non-complex scalar as the order of norm.")
    return float(order)


@partial(public, module="linalg")
@takes_out
def linalg_vector_norm(
    x: Tensor, ord: complex = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """(sum |x|**ord) ** (1 / ord) over ``dim``, by default of all elements, taken in ``dtype``.

    ord inf, -inf: the largest, smallest |x|; 0: how many are not 0. RuntimeError for whole numbers.
    """
    order = _order("linalg_vector_norm", ord)
    check_floating("linalg.vector_norm", x._layout)
    wanted = _check_dtype("linalg_vector_norm", x._layout, dtype)
    return VectorNorm.apply(x, order, dims_argument(dim), as_flag(keepdim), wanted)


# -- matrices --------------------------------------------------------------------------------------------


def _two_dims(x: Layout, dim: Any) -> tuple[int, int]:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    first, second = (normalize_dim(d, x.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({first}, {second})")
    return first, second


def _extreme(values: Tensor, dim: int, keepdim: bool, order: Any) -> Tensor:
    """The largest of the values, 0 if there are none, or the smallest if the order is negative."""
    if order < 0:
        return values.amin(dim, keepdim)
    return values.amax(dim, keepdim) if values._layout.shape[dim] else values.sum(dim, keepdim)


def _of_singular_values(x: Tensor, dims: tuple[int, int], keepdim: bool, order: Any) -> Tensor:
    """The largest, smallest, or the sum ("nuc") of the singular values of matrices in two dims."""
    others = [d for d in range(x._layout.ndim) if d not in dims]
    values = linalg_svdvals(x.permute(*others, *dims))
    if order == "nuc":
        found = values.sum(-1, keepdim)
    else:
        found = _extreme(values, -1, keepdim, order)
    if not keepdim:
        return found
    places = [*others, *dims]
    return found.unsqueeze(-1).permute([places.index(d) for d in range(x._layout.ndim)])


@partial(public, module="linalg")
@takes_out
def linalg_matrix_norm(
    A: Tensor, ord: complex | str = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norms of the matrices in two dims.

    ord "fro": the root of the sum of squares; "nuc": the sum of the singular values; 2, -2: the largest, the smallest
    of these; 1, -1: the largest, smallest sum of magnitudes in a column; inf, -inf: in a row.
    """
    x, keepdim = A, as_flag(keepdim)
    if not isinstance(ord, str):
        ord = _order("linalg_matrix_norm", ord)
    if ord not in ("fro", "nuc") and (isinstance(ord, str) or abs(ord) not in (1, 2, math.inf)):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord if isinstance(ord, str) else f'{ord:g}'} not supported.")
    check_matrix("linalg.matrix_norm", x._layout)
    check_floating("linalg.matrix_norm", x._layout)
    dims = _two_dims(x._layout, dim)
    wanted = _check_dtype("linalg_matrix_norm", x._layout, dtype)
    if ord == "fro":
        return VectorNorm.apply(x, 2.0, dims, keepdim, wanted)
    if ord == "nuc" or abs(ord) == 2:  # type: ignore[arg-type]
        check_floating("linalg.matrix_norm", x._layout, half=False)
        return _of_singular_values(x if wanted is None else x.to(wanted), dims, keepdim, ord)
    first, second = dims if abs(ord) == 1 else dims[::-1]  # type: ignore[arg-type]
    sums = VectorNorm.apply(x, 1.0, (first,), keepdim, wanted)
    second -= first < second and not keepdim
    return _extreme(sums, second, keepdim, ord)


@partial(public, module="linalg")
@takes_out
def linalg_norm(
    A: Tensor, ord: complex | str | None = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of a vector, or of a matrix if ``ord`` is given and ``dim`` names two dims, or A has two.

    Without ``ord`` the root of the sum of squares of all elements, or over ``dim``.
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if dims is None and ord is not None and A._layout.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A._layout.ndim}D."
        )
    of_matrix = isinstance(ord, str) or len(dims if dims is not None else A._layout.shape) == 2
    if ord is not None and of_matrix:
        return linalg_matrix_norm(A, ord, (0, 1) if dims is None else dims, keepdim, dtype=dtype)
    order: Any = 2 if ord is None else ord
    return linalg_vector_norm(A, order, dims, keepdim, dtype=dtype)


def _warn_old(name: str, instead: str) -> None:
    warnings.warn(
        f"at::{name} is deprecated and it is just left for JIT compatibility. It will be removed in a future PyTorch "
        f"release. Please use `linalg.{instead}` instead",
        UserWarning, stacklevel=user_level() + 1,
    )  # fmt: skip


@partial(public, method_too=False)
@takes_out
def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over at most two dims, of all elements for ()."""
    _warn_old("frobenius_norm", "vector_norm(A, 2., dim, keepdim)")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    if input._layout.dtype.category < 2:
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{scalar_type(input.dtype)} instead."
        )
    return norm(input, 2, dims, keepdim)


@partial(public, method_too=False)
@takes_out
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of the matrices in two dims."""
    _warn_old("nuclear_norm", "matrix_norm(A, 'nuc', dim, keepdim)")
    if isinstance(dim, bool):  # nuclear_norm(x, keepdim)
        dim, keepdim = (-2, -1), dim
    return linalg_matrix_norm(input, "nuc", (dim, dim) if isinstance(dim, int) else dim, keepdim)


# -- condition, rank -------------------------------------------------------------------------------------


@partial(public, module="linalg")
@takes_out
def linalg_cond(input: Tensor, p: float | str | None = None) -> Tensor:
    """The condition numbers of matrices: the norm of order ``p`` times that of the inverse, infinite without one.

    p None or 2: the largest singular value over the smallest, for any sizes; -2: the reverse. RuntimeError for other
    orders of what is not square.
    """
    order = 2.0 if p is None else p if isinstance(p, str) else float_argument("linalg_cond", "p", 2, p)
    title = order if isinstance(order, str) else f"{order:g}"
    if isinstance(order, str):
        check_square(f"linalg.cond(ord={title})", input._layout)
    elif input._layout.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if order not in ("fro", "nuc") and (isinstance(order, str) or abs(order) not in (1, 2, math.inf)):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {title}")
    if not input._layout.numel:
        return input.new_zeros(input._layout.shape[:-2], dtype=input.dtype.to_real())
    if order in (2, -2):
        values = linalg_svdvals(input)
        bounds = values.narrow(-1, 0, 1), values.narrow(-1, -1, 1)
        return (bounds[0] / bounds[1] if order == 2 else bounds[1] / bounds[0]).squeeze(-1)
    check_square(f"linalg.cond(ord={title})", input._layout)
    inverse_of: Any = published("linalg.inv_ex")
    inverse, info = inverse_of(input)
    if order == "nuc":
        # The singular values of the inverse are those of the matrix, inverted.
        values = linalg_svdvals(input)
        return values.sum(-1) * table.where(info > 0, math.inf, values.reciprocal().sum(-1))
    return (linalg_matrix_norm(input, order) * linalg_matrix_norm(inverse, order)).masked_fill(info > 0, math.inf)


@partial(public, module="linalg")
@takes_out
def linalg_matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values, or magnitudes of eigenvalues if ``hermitian``, are above max(atol, rtol * the largest).

    ``tol`` is ``atol`` without ``rtol``; ``rtol`` is the dtype's rounding times the longer side by default, 0 if
    ``atol`` is given.
    """
    check_matrix("torch.linalg.matrix_rank", A._layout, "input")
    *batch, m, n = A._layout.shape
    absolute, relative = (atol, rtol) if tol is None else (tol, 0.0)
    check_tolerances("torch.linalg.matrix_rank", atol=absolute, rtol=relative)
    if A._layout.numpy_dtype.char not in "fdFD":
        raise RuntimeError("This function doesn't handle types other than float and double")
    if not A._layout.numel:
        return A.new_zeros(tuple(batch), dtype=int64)
    values = linalg_eigvalsh(A).abs() if as_flag(hermitian) else linalg_svdvals(A)
    return (values > threshold(values.amax(-1, True), (m, n), absolute, relative)).sum(-1)
