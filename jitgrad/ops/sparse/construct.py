"""Sparse tensors of indices and values, and what has to hold of these.

As in PyTorch, indices are looked at only where ``check_invariants`` says so; the first op that uses them looks anyway
(places.py). Sizes are always checked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int64
from jitgrad.core.errors import must_be, scalar_type
from jitgrad.core.sparse import Pattern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.parameter_types import mark_explaining
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import is_int, size_argument
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.creation.constants import as_dtype, finished, zeros
from jitgrad.ops.creation.from_data import as_tensor
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.sparse.invariants import enabled
from jitgrad.ops.sparse.parts import with_values
from jitgrad.ops.sparse.places import (
    as_int64,
    check_compressed,
    coo_pattern,
    grid_of,
    is_across,
    keys_of,
    values_shape,
)

__all__ = ["KINDS", "empty_sparse", "sparse_compressed_tensor", "sparse_coo_tensor"]

KINDS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _values(op: str, data: Any, dtype: Any, device: Any) -> Tensor:
    return as_tensor(data, dtype=as_dtype(op, dtype), device=device)


def _finished(op: str, values: Tensor, pattern: Pattern, requires_grad: bool) -> Tensor:
    result = with_values(values, pattern)
    return finished(op, result, requires_grad) if requires_grad and not result._requires_grad else result


# -- COO ---------------------------------------------------------------------------------------------------


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:  # fmt: skip
    """The tensor that has ``values`` (nnz, *dense dims) at ``indices`` (sparse dims, nnz) and is zero elsewhere.

    Values at equal places add up. Without ``size`` it is as small as the indices allow; given a size alone, nothing is
    stored. RuntimeError for sizes that do not fit; for indices outside if ``check_invariants``, or at their first use.
    """
    if values is None:
        return _only_size(indices if size is None else size, dtype, device, requires_grad)
    values = _values("sparse_coo_tensor", values, dtype, device)
    index = cast(as_tensor(indices, device=device), int64)
    shape = None if size is None else size_argument("sparse_coo_tensor", (size,))
    values = values.unsqueeze(0) if values.ndim == 0 else values
    checks = enabled(check_invariants)
    if index.ndim != 2 and (size is None or checks):
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(index.shape)}")
    if shape is None:
        shape = _least_size(index, values)
    _check_sizes(index, values, shape)
    sole = is_coalesced is None and index.shape[1] < 2
    pattern = coo_pattern(index.detach(), shape, bool(is_coalesced) or sole)
    if checks:
        check_coo(pattern, bool(is_coalesced))
    return _finished("sparse_coo_tensor", values, pattern, requires_grad)


def _only_size(size: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if size is None:
        raise TypeError(
            "sparse_coo_tensor() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (object indices, object values, *)\n * (object indices, object values, tuple of ints size, *)\n"
            " * (tuple of ints size, *)\n"
        )
    if isinstance(size, Tensor) or not (is_int(size) or all(map(is_int, size))):
        raise must_be("sparse_coo_tensor", "size", 1, "tuple of ints", size)
    made = empty_sparse(size_argument("sparse_coo_tensor", (size,)), "sparse_coo", dtype, device)
    return finished("sparse_coo_tensor", made, requires_grad)


def empty_sparse(shape: Any, kind: str, dtype: Any = None, device: Any = None, sparse_dim: int | None = None) -> Any:
    """A sparse tensor of zeros: nothing is stored."""
    shape = tuple(shape)
    if kind != "sparse_coo":
        if len(shape) < 2:
            raise RuntimeError(
                f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {shape}"
            )
        batch, height = shape[:-2], shape[-1 if is_across(kind) else -2]
        index = zeros(*batch, height + 1, dtype=int64), zeros(*batch, 0, dtype=int64)
        return with_values(zeros(*batch, 0, dtype=dtype, device=device), Pattern(kind, index, shape, len(shape)))
    d = len(shape) if sparse_dim is None else sparse_dim
    pattern = coo_pattern(zeros(d, 0, dtype=int64), shape, True)
    return with_values(zeros(0, *shape[d:], dtype=dtype, device=device), pattern)


def _least_size(index: Tensor, values: Tensor) -> tuple[int, ...]:
    """The smallest size that holds all indices; RuntimeError for a negative one."""
    if not index.numel():
        return (*[0] * index.shape[0], *values.shape[1:])
    lowest = np.asarray(index.detach().amin(1).tolist())
    if (lowest < 0).any():
        dim = int(np.flatnonzero(lowest < 0)[0])
        raise RuntimeError(f"found negative index {lowest[dim]} for dim {dim}")
    return (*[n + 1 for n in index.detach().amax(1).tolist()], *values.shape[1:])


def _check_sizes(index: Tensor, values: Tensor, shape: tuple[int, ...]) -> None:
    sparse_dim, dense_dim = index.shape[0] if index.ndim else 0, values.ndim - 1
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if index.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(index.shape)}")
    if index.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {index.shape[1]}, nnz from values: "
            f"{values.shape[0]}"
        )
    wanted = [index.shape[1], *shape[sparse_dim:]]
    if list(values.shape) != wanted:
        raise RuntimeError(f"values has incorrect size, expected {wanted}, got {list(values.shape)}")
    if any(n < 0 for n in shape) or math.prod(shape) >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")


def check_coo(pattern: Pattern, is_coalesced: bool) -> None:
    """RuntimeError for indices outside, and for a pattern that is called coalesced and isn't."""
    keys = keys_of(pattern)
    if is_coalesced:
        ordered = np.zeros(1, np.int64)
        launch(kernels.in_order, keys._data, ordered)
        if not ordered[0]:
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


# -- compressed ---------------------------------------------------------------------------------------------


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A matrix whose rows (CSR, BSR) or columns (CSC, BSC), as ``layout`` says, begin at ``compressed_indices``.

    ``plain_indices``: the other index of each of ``values``. RuntimeError for what does not fit, as for COO.
    """
    kind = getattr(layout, "name", "none")
    if kind not in KINDS[1:]:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {kind}")
    values = _values("sparse_compressed_tensor", values, dtype, device)
    index = tuple([as_tensor(i, device=device) for i in (compressed_indices, plain_indices)])
    blocked = kind in ("sparse_bsr", "sparse_bsc")
    lead = index[0].ndim
    block = tuple(values.shape[lead : lead + 2]) if blocked else ()
    _check_ranks(kind, index, values)
    if size is None:
        shape = _least_matrix(kind, index, values, block)
    else:
        shape = size_argument("sparse_compressed_tensor", (size,))
    pattern = Pattern(kind, tuple([i.detach() for i in index]), tuple(shape), lead + 1, block=block)
    if enabled(check_invariants):
        check_matrix(pattern, values)
    elif tuple(values.shape) != values_shape(pattern):
        _check_shapes(pattern, values)  # as many values as indices, always: no op looks at their number
    return _finished("sparse_compressed_tensor", values, pattern, requires_grad)


def _least_matrix(kind: str, index: tuple[Tensor, ...], values: Tensor, block: tuple[int, ...]) -> tuple[int, ...]:
    rows, cols = index[0].shape[-1] - 1, int(index[1].max()) + 1 if index[1].numel() else 0
    down, along = block or (1, 1)
    pair = (rows * down, cols * along) if kind in ("sparse_csr", "sparse_bsr") else (cols * down, rows * along)
    lead = index[0].ndim
    return (*index[0].shape[:-1], *pair, *values.shape[lead + len(block) :])


def _names(kind: str) -> tuple[str, str]:
    return ("ccol_indices", "row_indices") if is_across(kind) else ("crow_indices", "col_indices")


def _check_ranks(kind: str, index: tuple[Tensor, ...], values: Tensor) -> None:
    """RuntimeError for numbers of dims of indices and values that make no compressed matrix."""
    (first, second), (crow, cols) = _names(kind), index
    if not crow.ndim:
        raise RuntimeError(f"{first} must have dimensionality >= 1 but got 0")
    if crow.ndim != cols.ndim:
        raise RuntimeError(
            f"{first} and {second} dimensionalities must be equal but got {crow.ndim} and {cols.ndim}, respectively"
        )
    batch, blocks = crow.ndim - 1, 2 if kind in ("sparse_bsr", "sparse_bsc") else 0
    if values.ndim <= batch + blocks:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + {blocks}) but got "
            f"{values.ndim}"
        )


def _check_shapes(pattern: Pattern, values: Tensor) -> None:
    """RuntimeError for sizes of indices and values that are not those of a compressed matrix of the pattern's."""
    crow, cols = pattern.indices
    first, second = _names(pattern.kind)
    batch, block = crow.ndim - 1, pattern.block
    dense = values.ndim - batch - 1 - len(block)
    if len(pattern.shape) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
            f"(={batch} + 2 + {dense}) but got {len(pattern.shape)}"
        )
    batches = [list(part.shape[:batch]) for part in (crow, cols, values)]
    wanted = list(pattern.shape[:batch])
    if any(b != wanted for b in batches):
        raise RuntimeError(
            f"all batch dimensions of {first} (={batches[0]}), {second} (={batches[1]}), and values (={batches[2]}) "
            f"must be equal to tensor batch dimensions (={wanted})"
        )
    for k, (n, m) in enumerate(zip(pattern.shape[batch : batch + 2], block, strict=False)):
        if n and n % m if m else n:
            raise RuntimeError(
                f"tensor shape[{batch + k}] (={n}) must be divisible with blocksize[{k}] (={m}) as defined by values "
                "shape"
            )
    across = is_across(pattern.kind)
    height = grid_of(pattern)[1 if across else 0]
    if crow.shape[-1] != height + 1:
        what = f"{'column' if across else 'row'}{' block' * bool(block)}s"
        raise RuntimeError(
            f"{first}.shape[-1] must be equal to the number of {what} + 1 (={height + 1}), but got {crow.shape[-1]}"
        )
    nnz = values.shape[batch]
    if cols.shape[-1] != nnz:
        raise RuntimeError(
            f"{second}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch}], but got "
            f"{cols.shape[-1]}"
        )
    if list(values.shape[batch + 1 + len(block) :]) != list(pattern.shape[batch + 2 :]):
        raise RuntimeError(
            f"values has dense dims {list(values.shape[batch + 1 + len(block) :])}, but the tensor has "
            f"{list(pattern.shape[batch + 2 :])}"
        )


def check_matrix(pattern: Pattern, values: Tensor) -> None:
    """RuntimeError for indices, values and a size that do not make a compressed matrix."""
    _check_shapes(pattern, values)
    check_indices(pattern)


def check_indices(pattern: Pattern) -> None:
    """RuntimeError for indices that do not make a compressed matrix."""
    crow, cols = pattern.indices
    first, second = _names(pattern.kind)
    for name, index in ((first, crow), (second, cols)):
        if index.shape[-1] > 1 and index.stride(-1) != 1:
            raise RuntimeError(f"expected {name} to be a contiguous tensor per batch")
    if crow.dtype is not cols.dtype:
        raise RuntimeError(
            f"{first} and {second} must have the same dtype, bot got {scalar_type(crow.dtype)} and "
            f"{scalar_type(cols.dtype)}, respectively"
        )
    if crow.dtype.name not in ("int32", "int64"):
        raise RuntimeError(f"{first} and {second} dtype must be Int or Long, but got {scalar_type(crow.dtype)}")
    check_compressed(pattern, True)


def _of_kind(kind: str, first: str, second: str) -> Any:
    def make(
        compressed_indices: Any = None, plain_indices: Any = None, values: Any = None, size: Any = None, *,
        dtype: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
        check_invariants: bool | None = None, **named: Any,
    ) -> Tensor:  # fmt: skip
        compressed_indices = named.pop(first, compressed_indices)
        plain_indices = named.pop(second, plain_indices)
        for name, value in ((first, compressed_indices), (second, plain_indices), ("values", values)):
            if value is None:
                raise TypeError(f'{kind}_tensor() missing 1 required positional arguments: "{name}"')
        if named:
            raise TypeError(f"{kind}_tensor() got an unexpected keyword argument '{next(iter(named))}'")
        return sparse_compressed_tensor(
            compressed_indices, plain_indices, values, size, dtype=dtype, layout=_Kind(kind), device=device,
            requires_grad=requires_grad, check_invariants=check_invariants,
        )  # fmt: skip

    make.__name__ = make.__qualname__ = f"{kind}_tensor"
    make.__doc__ = f"``sparse_compressed_tensor`` of the layout {kind}; its indices are ``{first}`` and ``{second}``."
    mark_explaining(make)
    return public(make, method_too=False)


class _Kind:
    def __init__(self, name: str):
        self.name = name


for _kind in KINDS[1:]:
    _of_kind(_kind, *(("crow_indices", "col_indices") if _kind[-1] == "r" else ("ccol_indices", "row_indices")))


# -- checks that users call ---------------------------------------------------------------------------------


def _validate_sparse_coo_tensor_args(
    indices: Tensor, values: Tensor, size: Any, is_coalesced: bool | None = None, check_pinning: bool | None = None
) -> None:  # fmt: skip
    """RuntimeError for what ``sparse_coo_tensor`` refuses with ``check_invariants``."""
    _check_sizes(indices, values, tuple(size))
    check_coo(coo_pattern(as_int64(indices), tuple(size)), bool(is_coalesced))


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Any, layout: Any,
    check_pinning: bool | None = None,
) -> None:  # fmt: skip
    """RuntimeError for what ``sparse_compressed_tensor`` refuses with ``check_invariants``."""
    sparse_compressed_tensor(
        compressed_indices, plain_indices, values.detach(), size, layout=layout, check_invariants=True
    )


for _function in (
    sparse_coo_tensor, sparse_compressed_tensor, _validate_sparse_coo_tensor_args,
    _validate_sparse_compressed_tensor_args,
):  # fmt: skip
    mark_explaining(_function)
    public(_function, method_too=False)


def _validating(kind: str) -> None:
    def validate(first: Tensor, second: Tensor, values: Tensor, size: Any, check_pinning: bool | None = None) -> None:
        _validate_sparse_compressed_tensor_args(first, second, values, size, _Kind(f"sparse_{kind}"))

    validate.__name__ = validate.__qualname__ = f"_validate_sparse_{kind}_tensor_args"
    validate.__doc__ = f"RuntimeError for what ``sparse_{kind}_tensor`` refuses with ``check_invariants``."
    public(validate, method_too=False)


for _kind in ("csr", "csc", "bsr", "bsc"):
    _validating(_kind)
