"""Products with sparse matrices, made of those in row_products.py.

A product of two sparse matrices lists the pairs of elements whose products it sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import expected_scalar_type
from jitgrad.core.sparse import Pattern, SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.indexing.index_select import IndexSelect
from jitgrad.ops.indexing.nonzero import nonzero
from jitgrad.ops.indexing.scatter_reduce import scatter_reduce
from jitgrad.ops.linalg.matrix_products import Mm, conj
from jitgrad.ops.shape.join import cat, stack
from jitgrad.ops.shape.view import UnsafeView, reshape
from jitgrad.ops.sparse.convert import dense, to_compressed, to_coo
from jitgrad.ops.sparse.parts import (
    Coalesce,
    at_places,
    coalesced,
    named,
    ordered_values,
    settled,
    values_of,
    with_values,
)
from jitgrad.ops.sparse.places import (
    as_coo,
    coo_pattern,
    keys_of,
    keys_to_pattern,
    plain,
    rows_of,
)
from jitgrad.ops.sparse.row_products import RowsProduct

__all__ = ["mm"]


def _is_compressed(x: Any) -> bool:
    return isinstance(x, SparseTensor) and x._pattern.kind != "sparse_coo"


def _check(op: str, x: Tensor, y: Tensor) -> None:
    named_so = _is_compressed(x) or _is_compressed(y)
    for place, t in ((1, x), (2, y)):
        if t.ndim != 2:
            if named_so:
                raise RuntimeError(f"mat{place} must be a matrix, got {t.ndim}-D tensor")
            raise RuntimeError(f"{op}: Expected {t.ndim}-D argument mat{place} to be 2-D")
    if x.shape[1] != y.shape[0]:
        if isinstance(x, SparseTensor) and x._pattern.kind == "sparse_coo" and not isinstance(y, SparseTensor):
            raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {x.shape[1]}, got {y.shape[0]}")
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({x.shape[0]}x{x.shape[1]} and {y.shape[0]}x{y.shape[1]})"
        )
    if x.dtype is not y.dtype:
        if isinstance(x, SparseTensor) and isinstance(y, SparseTensor):
            raise RuntimeError(f"mat1 dtype {x.dtype.title} does not match mat2 dtype {y.dtype.title}")
        raise expected_scalar_type(x.dtype, y.dtype)
    for t in (x, y):
        if isinstance(t, SparseTensor) and t._pattern.kind == "sparse_coo" and t._pattern.sparse_dim != 2:
            raise RuntimeError(
                f"{op}: Expected tensors with two sparse dims, but got {t._pattern.sparse_dim} sparse dims"
            )


def _matrix(x: Any) -> Any:
    """A sparse matrix whose rows can be listed, with one value at a place."""
    return to_coo(x) if x._pattern.block else x


class SparseTimesDense(Structured, listed=False):
    """A sparse matrix times a dense one, with a dense gradient of the sparse one."""

    name, grad_name, linear, half, sparse = "_sparse_mm", "MmBackward0", ("x", "y"), True, True

    def forward(x, y, rows):
        return RowsProduct.apply(x._stored.detach(), y.detach(), rows)

    def grad_x(g, y):
        return Mm.apply(g, conj(y.t()))

    def grad_y(g, x, rows):
        return RowsProduct.apply(conj(values_of(x)), g, rows.transposed())


@sparse_form("mm")
def mm(input: Any, mat2: Any, masked: bool = False) -> Tensor:
    """The product of two matrices, of which at least one is sparse; sparse if both are.

    masked: whether the gradient of a sparse first one has its places only.
    """
    _check("mm", input, mat2)
    if isinstance(input, SparseTensor) and isinstance(mat2, SparseTensor):
        return _sparse_product(input, mat2)
    if isinstance(input, SparseTensor):
        x = settled(_matrix(input))
        if x._requires_grad and not masked:
            return SparseTimesDense.apply(x, mat2, rows_of(x._pattern))
        return named(RowsProduct.apply(values_of(x), mat2, rows_of(x._pattern)), "SparseAddmmBackward0")
    y = settled(_matrix(mat2))
    out = RowsProduct.apply(values_of(y), input.t(), rows_of(y._pattern).transposed())
    return out.t().contiguous()


def _sparse_product(x: Any, y: Any) -> Tensor:
    as_csr = x._pattern.kind != "sparse_coo"
    x, y = coalesced(to_coo(x)), coalesced(to_coo(y))
    a, b = rows_of(x._pattern), rows_of(y._pattern)
    count = np.zeros(1, np.int64)
    launch(kernels.count_pairs, a.cols, b.crow, count)
    at_x, at_y, keys = (np.empty(int(count[0]), np.int64) for _ in range(3))
    launch(kernels.pairs_of_products, a.rows, a.cols, b.crow, b.ordered_cols, b.shape[1], at_x, at_y, keys)
    left, right = values_of(x), ordered_values(values_of(y), b.order)
    products = IndexSelect.apply(left, 0, plain(at_x)) * IndexSelect.apply(right, 0, plain(at_y))
    pattern = keys_to_pattern(keys, (a.shape[0], b.shape[1]), 2, False)
    out = named(Coalesce.apply(with_values(products, pattern)), "SparseSparseMatmulBackward0")
    return to_compressed(out, "sparse_csr") if as_csr else out


@sparse_form("mv")
def mv(input: Any, vec: Any) -> Tensor:
    """A sparse matrix times a vector."""
    if not isinstance(input, SparseTensor) or (isinstance(vec, SparseTensor) and vec.ndim == 1):
        raise SparseOperand("mv")
    if _is_compressed(input):
        return named(addmv(vec.new_zeros(1), input, vec, beta=0), "MvBackward0")
    if input.ndim != 2 or vec.ndim > 1:
        raise RuntimeError(f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {input.ndim}, tensor Dim: "
                           f"{vec.ndim}")  # fmt: skip
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return UnsafeView.apply(mm(input, vec.unsqueeze(1)), (input.shape[0],))


@sparse_form("addmv")
def addmv(input: Tensor, mat: Any, vec: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha mat vec of a compressed matrix."""
    if not _is_compressed(mat) or isinstance(vec, SparseTensor) or isinstance(input, SparseTensor):
        raise SparseOperand("addmv")
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    m, n = mat.shape
    size = input.shape[0] if input.ndim and input.numel() != 1 else m
    if vec.shape[0] != n or size != m:
        raise RuntimeError(f"size mismatch, got input ({size}), mat ({m}x{n}), vec ({vec.shape[0]})")
    product = UnsafeView.apply(mm(mat, vec.unsqueeze(1)), (m,))
    return named(_added(product, input, beta, alpha), "AddmvBackward0")


def _added(product: Any, input: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta input + alpha product; of beta 0 the input does not count, not even its NaN."""
    product = product if alpha == 1 and not isinstance(alpha, float) else product * alpha
    if isinstance(product, SparseTensor) and not isinstance(input, SparseTensor):
        product = dense(product)
    elif isinstance(input, SparseTensor) and not isinstance(product, SparseTensor):
        raise SparseOperand("addmm")
    if isinstance(input, SparseTensor) and input._pattern.kind != product._pattern.kind:
        product = product.to_sparse(layout=input.layout)
    if beta == 0:
        return product
    if not isinstance(input, SparseTensor):
        input = input.expand(product.shape)
    return (input if beta == 1 else input * beta) + product


@sparse_form("addmm", "_sparse_addmm")
def addmm(input: Tensor, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1, masked: bool = False) -> Tensor:
    """beta input + alpha mat1 mat2."""
    return _added(mm(mat1, mat2, masked), input, beta, alpha)


sparse_form("addmm_")(lambda self, mat1, mat2, beta=1, alpha=1: self.copy_(
    addmm(self, mat1, mat2, beta=beta, alpha=alpha)))  # fmt: skip


@sparse_form("bmm")
def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of stacks of matrices, the first of them sparse: one product of a matrix with these on its diagonal."""
    if not isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        raise SparseOperand("bmm")
    if input.ndim != 3 and _is_compressed(input):
        raise RuntimeError("batch1 must be a 3D tensor")
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"bmm: expected stacks of matrices that fit, but got sizes {list(input.shape)} and {list(mat2.shape)}"
        )
    b, m, k = input.shape
    x = settled(to_coo(input))
    sample, row, col = keys_and_dims(x._pattern).unbind(0)
    index = stack((sample * m + row, sample * k + col))
    where = coo_pattern(index, (b * m, b * k), x._pattern.coalesced)
    out = RowsProduct.apply(values_of(x), reshape(mat2, (b * k, mat2.shape[2])), rows_of(where))
    return UnsafeView.apply(out, (b, m, mat2.shape[2]))


def keys_and_dims(pattern: Pattern) -> Any:
    """The indices of each sparse dim, which were checked."""
    keys_of(pattern)
    return as_coo(pattern).indices[0]


@sparse_form("matmul", "__matmul__")
def matmul(input: Any, other: Any) -> Tensor:
    """A product as ``matmul`` has it, of at most two dims, or of stacks of three."""
    ranks = input.ndim, other.ndim
    if ranks == (2, 2):
        return mm(input, other)
    if ranks == (2, 1):
        return mv(input, other)
    if ranks == (1, 2):
        return mm(input.unsqueeze(0), other).squeeze(0)
    if ranks == (3, 3):
        return bmm(input, other)
    raise SparseOperand("matmul")


@sparse_form("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """input weight^T + bias, one of the matrices sparse."""
    out = mm(input, weight.t())
    return out if bias is None else out + bias


# -- functions of their own ------------------------------------------------------------------------------------


def _mm_reduced(mat1: Any, mat2: Tensor, reduce: str) -> Tensor:
    """The product of CSR and dense with another reduction in the place of the sum."""
    if mat1._pattern.kind != "sparse_csr":
        raise RuntimeError(f"torch.sparse.mm: {reduce} reduction is only supported for the layout sparse_csr")
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, mean, amax or amin.")
    rows = rows_of(mat1._pattern)
    values, height, width = values_of(mat1), rows.shape[0], mat2.shape[1]
    products = values.unsqueeze(1) * IndexSelect.apply(mat2, 0, plain(rows.cols))
    zeros = values.new_zeros((height, width))
    if not len(rows.rows):
        return zeros
    index = plain(rows.rows).unsqueeze(1).expand(-1, width)
    return scatter_reduce(zeros, 0, index, products, reduce, include_self=False)


def sparse_mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Tensor:
    """The product of two matrices, of which one is sparse, both with gradients; sparse if both are.

    ``reduce``: of CSR and a dense matrix also "mean", "amax" or "amin" of the products. The gradient of a sparse matrix
    has its places only.
    """
    if reduce != "sum":
        return _mm_reduced(mat1, mat2, reduce)
    return mm(mat1, mat2, True)


def sparse_addmm(mat: Tensor, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta mat + alpha mat1 mat2, with gradients of the sparse ``mat1`` too."""
    return addmm(mat, mat1, mat2, beta, alpha, True)


for _function in (sparse_mm, sparse_addmm):
    public(_function, _function.__name__, module="sparse")


def spmm(input: Any, mat2: Any) -> Tensor:
    """``mm``, by its old name."""
    return input.mm(mat2)


public(spmm, method_too=False)


@public
def smm(input: Any, mat: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse tensor."""
    return to_coo(mm(input, mat))


@public
def sspaddmm(input: Any, mat1: Any, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta input + alpha mat1 mat2 of a sparse ``input`` and ``mat1``, as a sparse tensor."""
    if not (input.is_sparse and mat1.is_sparse):
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    product = mm(mat1, mat2)
    rows = keys_and_dims(mat1._pattern)[0]
    there = product.new_zeros(product.shape[0], dtype=bool_).index_fill(0, rows, True)
    there = there.unsqueeze(1).expand(product.shape)
    places = nonzero(there).t().contiguous()
    pattern = coo_pattern(places, product.shape)
    parts = input * beta, with_values(at_places(product, pattern), pattern) * alpha
    index = cat([keys_and_dims(p._pattern) for p in parts], 1)
    values = cat([values_of(p) for p in parts])
    return with_values(values, coo_pattern(index, input.shape))


def hspmm(mat1: Any, mat2: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a tensor whose rows are sparse and columns dense."""
    return to_coo(mm(mat1, mat2), 1)


public(hspmm, method_too=False)


def dsmm(input: Any, mat2: Any) -> Tensor:
    """``mm``, by its old name."""
    return input.mm(mat2)


def hsmm(mat1: Any, mat2: Tensor) -> Tensor:
    """``hspmm``, by its old name."""
    return hspmm(mat1, mat2)


def saddmm(input: Any, mat1: Any, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``sspaddmm``, by its old name."""
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


for _old in (dsmm, hsmm, saddmm):
    public(_old, method_too=False)
