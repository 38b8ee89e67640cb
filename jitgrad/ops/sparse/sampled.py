"""Elements of a product of dense matrices at the places of a sparse one."""

from __future__ import annotations

from typing import Any

from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public
from jitgrad.ops.shape.view import reshape
from jitgrad.ops.sparse.attributes import title
from jitgrad.ops.sparse.parts import named, values_of, with_values
from jitgrad.ops.sparse.places import rows_of, values_shape
from jitgrad.ops.sparse.row_products import SampledProduct

__all__: list[str] = []


def _check_sampled(x: Any, mat1: Tensor, mat2: Tensor) -> None:
    """RuntimeError for operands that are not (batches of) a CSR matrix and two dense ones that fit."""
    if not isinstance(x, SparseTensor):
        raise SparseOperand("sparse_sampled_addmm", "CPU")
    if x._pattern.kind != "sparse_csr":
        raise RuntimeError(f"sampled_addmm: Expected result to have sparse csr layout, but got {title(x)}")
    for name, mat in (("mat1", mat1), ("mat2", mat2)):
        if isinstance(mat, SparseTensor):
            raise RuntimeError(f"sampled_addmm: Expected {name} to have strided layout, but got {title(mat)}")
        if mat.ndim < 2:
            raise RuntimeError(f"sampled_addmm: Expected {name} to be a matrix, got {mat.ndim}-D tensor")
    if mat1.dtype is not mat2.dtype or mat1.dtype is not x.dtype:
        one, other = ("mat1", "mat2") if mat1.dtype is not mat2.dtype else ("self", "mat1")
        first, second = (mat1, mat2) if one == "mat1" else (x, mat1)
        raise RuntimeError(
            f"sampled_addmm: Expected {one} and {other} to have the same dtype, but got {first.dtype.title} and "
            f"{second.dtype.title}"
        )
    batches = [list(t.shape[:-2]) for t in (x, mat1, mat2)]
    if batches[1] != batches[2]:
        raise RuntimeError(
            f"sampled_addmm: Expected mat1 and mat2 to have the same batch size, but got {batches[1]} and {batches[2]}"
        )
    if batches[0] and batches[0] != batches[1]:
        raise RuntimeError(
            f"sampled_addmm: Expected self and mat1 to have the same batch size, but got {batches[0]} and {batches[1]}"
        )
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[-2]}x{mat1.shape[-1]} and "
            f"{mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    for d, name, mat in ((-2, "mat1", mat1), (-1, "mat2", mat2)):
        if x.shape[d] != mat.shape[d]:
            raise RuntimeError(f"sampled_addmm: self.shape[{d}] must match {name}.shape[{d}]")


def _repeated(x: Any, batch: tuple[int, ...]) -> Any:
    """A CSR matrix as a batch of it."""
    pattern, values = x._pattern, values_of(x)
    index = tuple([i.expand(*batch, *i.shape).contiguous() for i in pattern.indices])
    made = pattern.like(indices=index, shape=(*batch, *pattern.shape), sparse_dim=len(batch) + 2)
    return with_values(values.expand(*batch, *values.shape).contiguous(), made)


def sampled_addmm(input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Tensor:
    """beta input + alpha (mat1 mat2), computed at the places of ``input``, a CSR matrix, alone; batches go one by one.

    A matrix without batch counts for all of the batch. RuntimeError for shapes that don't fit.
    """
    _check_sampled(input, mat1, mat2)
    batch = tuple(mat1.shape[:-2])
    x = _repeated(input, batch) if batch and input.ndim == 2 else input
    rows, inner = rows_of(x._pattern), mat1.shape[-1]
    left, right = reshape(mat1, (rows.shape[0], inner)), reshape(mat2.mT, (rows.shape[1], inner))
    products = reshape(SampledProduct.apply(left, right, rows), values_shape(x._pattern)) * alpha
    values = products if beta == 0 else values_of(x) * beta + products
    found = named(with_values(values, x._pattern), "SparseSampledAddmmBackward0")
    if out is not None:
        if not isinstance(out, SparseTensor) or out._pattern.kind != "sparse_csr":
            raise RuntimeError(f"sampled_addmm: Expected result to have sparse csr layout, but got {title(out)}")
        out.become(found)
        return out
    return found


public(sampled_addmm, "sampled_addmm", module="sparse")
