"""What ops on the last two dims have in common, which are matrices for all dims before them: base, layouts, checks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from jitgrad.core.errors import LinAlgError, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, broadcast_shapes, cache, contiguous_strides, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import planned
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.loops import small_matrices
from jitgrad.kernels.loops.factorisations import first_failure, pivot_outside
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.shape.expand import Expand
from jitgrad.ops.shape.permute import Transpose

__all__ = [
    "BatchedMatrices", "adjoint", "as_rows", "broadcast_batches", "check_dtypes", "check_factors", "check_floating",
    "check_matrix", "check_numbers", "check_pivots", "check_square", "column_major", "is_small", "kept", "row_major",
    "transposed", "whole_batches", "with_check",
]  # fmt: skip


def whole_batches(call: BatchedCall, **others: int) -> Any:
    """The rule of vmap: every tensor gets the batch as its first dim, and all have as many dims before the matrix.

    others: of which tensors a matrix has another number of dims; see ``cores``.
    """
    given = call.op.cores | others
    cores = {name: given.get(name, 2) for name in call.tensors()}
    most = max([call.ndim(name) - core for name, core in cores.items()], default=0)
    changed = {}
    for name, core in cores.items():
        value = call.whole(name)
        missing = most - (call.ndim(name) - core)
        if missing > 0:
            value = value.reshape(call.size, *(1,) * missing, *call.shape(name))
        changed[name] = value
    return call.run(**changed)


class BatchedMatrices(Structured, abstract=True):
    """Base of ops of matrices: the last two dims of each tensor, for every index of the dims before them, the batch.

    ``cores`` names the tensors of which a matrix has another number of dims, as the 1 of a vector of pivots.
    """

    cores: ClassVar[dict[str, int]] = {}
    refuses_half = True
    batch: ClassVar[Any] = whole_batches


# -- layouts --------------------------------------------------------------------------------------------


def column_major(dtype: np.dtype[Any], batch: tuple[int, ...], rows: int, columns: int) -> Layout:
    """The layout of LAPACK's matrices: the elements of a column are neighbours, and matrices follow one another."""
    strides = (*contiguous_strides((*batch, columns, rows))[:-2], 1, max(rows, 1))
    return intern(dtype, (*batch, rows, columns), strides)


def row_major(dtype: Any, batch: tuple[int, ...], *sizes: int) -> Layout:
    """The layout of matrices, or of vectors or numbers, that follow one another in row-major order."""
    return intern(np.dtype(dtype), (*batch, *sizes))


def is_small(x: Layout, rows: int = 0, columns: int = 0) -> bool:
    """Whether matrices of the dtype of ``x`` are so small that kernels of loops are quicker than a call of LAPACK.

    rows, columns: the sizes to ask for, by default those of ``x``.
    """
    rows, columns = rows or x.shape[-2], columns or x.shape[-1]
    return x.device == "cpu" and x.numel > 0 and small_matrices.fits(x.numpy_dtype, rows, columns)


def as_rows(name: str, x: Layout, *, vectors: bool = False) -> Read:
    """Tensor ``name`` as a kernel's row-major array (count, rows, columns), its batch dims taken as one.

    vectors: its last dim are vectors, which become matrices of one column.
    """
    sizes = (x.shape[-1], 1) if vectors else x.shape[-2:]
    return planned.row_major(name, x, (x.numel // math.prod(sizes), *sizes))


def transposed(x: Tensor) -> Tensor:
    """Each matrix transposed, as part of the graph."""
    return Transpose.apply(x, -2, -1)


def adjoint(x: Tensor) -> Tensor:
    """The conjugated transpose of each matrix, as part of the graph."""
    return conj(Transpose.apply(x, -2, -1))


def broadcast_batches(*matrices: Tensor) -> tuple[Tensor, ...]:
    """The matrices with their batches expanded to the shape that these broadcast to."""
    batches = [x._layout.shape[:-2] for x in matrices]
    if batches.count(batches[0]) == len(batches):
        return matrices
    shape = broadcast_shapes(*batches)
    return tuple([
        x if b == shape else Expand.apply(x, (*shape, *x.shape[-2:])) for x, b in zip(matrices, batches, strict=True)
    ])  # fmt: skip


# -- checks ---------------------------------------------------------------------------------------------


def kept(check: Callable[..., Any]) -> Callable[..., Any]:
    """``check`` of layouts and other arguments, called once for such as are equal; its errors are not kept."""
    known = cache()

    @functools.wraps(check)
    def find(*key: Any) -> Any:
        try:
            return known[key]
        except KeyError:
            known[key] = found = check(*key)
            return found

    return find


def check_matrix(op: str, x: Layout, name: str = "A") -> None:
    """RuntimeError for a tensor of less than two dims; ``op`` is what the error speaks of."""
    if x.ndim < 2:
        raise RuntimeError(f"{op}: The input tensor {name} must have at least 2 dimensions.")


@kept
def check_square(op: str, x: Layout, name: str = "A") -> None:
    """RuntimeError for what is no batch of square matrices."""
    check_matrix(op, x, name)
    rows, columns = x.shape[-2:]
    if rows != columns:
        title = f"{op}: " if op else ""
        raise RuntimeError(
            f"{title}{name} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def check_floating(op: str, x: Layout, half: bool = True) -> None:
    """RuntimeError for whole numbers, and, unless ``half``, for floats of 16 bits."""
    if x.dtype.is_half and not half:
        raise RuntimeError(f"{op}: Low precision dtypes not supported. Got {scalar_type(x.dtype)}")
    if x.dtype.category < 2:
        raise RuntimeError(
            f"{op}: Expected a floating point or complex tensor as input. Got {scalar_type(x.dtype)}"
        )


_ASKED_WITHOUT_ELEMENTS = {
    "cholesky_inverse_out_cpu", "cholesky_solve_cpu", "geqrf_cpu", "linalg_eig_out_cpu", "orgqr_cpu", "ormqr_cpu",
    "triangular_solve_cpu",
}  # fmt: skip


def check_numbers(kernel: str, x: Layout) -> None:
    """NotImplementedError for dtypes of which LAPACK has no routine; ``kernel`` is PyTorch's name of its own.

    Matrices without elements need none, but for a few of PyTorch's kernels, which are asked all the same.
    """
    if x.numpy_dtype.char not in "fdFD" and (x.numel or kernel in _ASKED_WITHOUT_ELEMENTS):
        raise not_implemented_for(kernel, x.dtype)


@kept
def check_dtypes(op: str, x: Layout, y: Layout, names: str = "A B") -> None:
    """RuntimeError for two tensors of different dtypes."""
    if x.dtype is not y.dtype:
        first, second = names.split()
        raise RuntimeError(
            f"{op}: Expected {first} and {second} to have the same dtype, but found {first} of type "
            f"{scalar_type(x.dtype)} and {second} of type {scalar_type(y.dtype)} instead"
        )


@kept
def check_factors(op: str, a: Layout, b: Layout, left: bool = True) -> None:
    """RuntimeError unless a matrix ``b`` has as many rows, or for X A = B columns, as a square one ``a``."""
    if a.shape[-2] != b.shape[-2 if left else -1]:
        sizes = [f"{x.shape[-2]}x{x.shape[-1]}" for x in (a, b)]
        raise RuntimeError(
            f"{op}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({sizes[0]} and {sizes[1]})"
        )


# -- what LAPACK says of its work -----------------------------------------------------------------------

# What PyTorch says where LAPACK's ``info`` is not zero, by the words that an op's name contains; the first fits.
_SENTENCES = (
    ("inv", "The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
     "singular."),
    ("solve", "The solver failed because the input matrix is singular."),
    ("cholesky", "The factorization could not be completed because the input is not positive-definite (the leading "
     "minor of order {} is not positive-definite)."),
    ("eig", "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
     "eigenvalues (error code: {})."),
    ("svd", "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
     "singular values (error code: {})."),
    ("lstsq", "The least squares solution could not be computed because the input matrix does not have full rank "
     "(error code: {})."),
)  # fmt: skip


def _fail(found: Any, op: str, several: bool) -> None:
    """Raise what PyTorch says of the first matrix at which LAPACK failed; ``found``: its number + 1 and its info."""
    place = f"(Batch element {found.item(0) - 1}): " if several else ""
    info = found.item(1)
    if "lu_factor" in op:
        raise RuntimeError(
            f"{op}: {place}U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If "
            "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)"
        )
    sentence = next((text for word, text in _SENTENCES if word in op), "Unknown error code: {}.").format(info)
    raise LinAlgError(f"{op}: {place}{sentence}")


def check_pivots(pivots: Tensor, least: int, most: int, fail: Any) -> None:
    """Call ``fail``, which raises, with a pivot that is 0 or not between ``least`` and ``most``, if there is one."""
    found = np.zeros(2, np.int64)
    launch(pivot_outside, pivots._data.reshape(-1), found, least, most)
    check(found, fail)


def with_check(op: str, made: Launches) -> Launches:
    """The plan ``made``, whose last result is LAPACK's info of each matrix, with a check of it behind its launches.

    It raises LinAlgError, in which the function is called ``op``, for the first matrix whose info is not zero. With ""
    as ``op`` nothing is checked.
    """
    if not op:
        return made
    place, results = made.returned - 1, made.results
    info = made.layouts[place]
    found = len(made.layouts)
    look = first_failure, Written(place, (info.numel,)), Written(found)

    def checked(*tensors: Tensor) -> Any:
        check(tensors[found]._data, _fail, op, info.ndim > 0)
        tensors = tensors[: place + 1]
        return tensors if results is None else results(*tensors)

    layouts = [*made.layouts, row_major(np.int64, (), 2)]
    return Launches([*made.launches, look], layouts, len(layouts), checked)
