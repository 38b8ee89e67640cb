"""Indices alone: of COO as those of CSR, and back; and checks of them."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import int32, int64
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.sparse import Pattern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.rearrange import flip
from jitgrad.ops.sparse.construct import check_indices
from jitgrad.ops.sparse.parts import with_values
from jitgrad.ops.sparse.places import Rows, coo_pattern, indices_of, keys_of, plain

__all__ = ["compressed_with_dims"]


@takes_out
def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of ``size`` rows begins, (size + 1,), of the rows (nnz,) of places. RuntimeError for one outside."""
    if input.ndim != 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.ndim} dimensional tensor.")
    if input.dtype.category != 1:
        raise not_implemented_for("convert_indices_from_coo_to_csr_cpu", input.dtype)
    rows = keys_of(coo_pattern(input.detach().unsqueeze(0), (size,)))._data
    return cast(plain(Rows(rows, rows, (size, 1)).crow), int32 if out_int32 else int64)


@takes_out
def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The indices (batch dims + 2, nnz) of a batch of CSR matrices; transpose: with columns before rows.

    RuntimeError for indices that are not those of such matrices.
    """
    if crow_indices.dtype.category != 1:
        raise not_implemented_for("convert_indices_from_csr_to_coo_cpu", crow_indices.dtype)
    width = int(col_indices.max()) + 1 if col_indices.numel() else 0
    shape = (*crow_indices.shape[:-1], crow_indices.shape[-1] - 1, width)
    index = indices_of(Pattern("sparse_csr", (crow_indices.detach(), col_indices.detach()), shape, len(shape)))
    if transpose:
        index = cat((index[:-2], flip(index[-2:], (0,))))
    return cast(index, int32 if out_int32 else int64)


def _validate_compressed_sparse_indices(
    is_crow: bool, compressed_idx: Tensor, plain_idx: Tensor, cdim: int, dim: int, nnz: int
) -> None:  # fmt: skip
    """RuntimeError for indices that are not those of compressed matrices of ``cdim`` rows and ``dim`` columns."""
    kind, size = ("sparse_csr", (cdim, dim)) if is_crow else ("sparse_csc", (dim, cdim))
    batch = tuple(compressed_idx.shape[:-1])
    check_indices(Pattern(kind, (compressed_idx, plain_idx), (*batch, *size), len(batch) + 2))


for _function in (
    _convert_indices_from_coo_to_csr, _convert_indices_from_csr_to_coo, _validate_compressed_sparse_indices
):  # fmt: skip
    public(_function, method_too=False)


def compressed_with_dims(
    nnz: int, dense_dim: int, size: Any, blocksize: Any, index_dtype: Any, *, dtype: Any = None, layout: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Compressed matrices with room for ``nnz`` values each, which are zero, as all indices are.

    PyTorch's ``aten._sparse_compressed_tensor_with_dims``: what is made has to get its indices before it is used.
    """
    kind, size, d = layout.name, tuple(size), len(size) - dense_dim
    block, batch = tuple(blocksize), size[: d - 2]
    compressed = size[d - 1] if kind[-1] == "c" else size[d - 2]
    if block:
        compressed //= block[1] if kind[-1] == "c" else block[0]
    index = zeros(*batch, compressed + 1, dtype=index_dtype), zeros(*batch, nnz, dtype=index_dtype)
    values = zeros(*batch, nnz, *block, *size[d:], dtype=dtype, device=device)
    return with_values(values, Pattern(kind, index, size, d, block=block))
