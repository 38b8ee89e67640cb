"""Products made of others: addbmm, addr, kron, vecdot, powers in a Vandermonde matrix, and names in ``linalg``."""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import CAPACITY, Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.older_order import older_order
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.overriding import is_overriding
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.ops.linalg.added_products import Addmm
from jitgrad.ops.linalg.batched_matrices import check_floating
from jitgrad.ops.linalg.matmul import matmul, outer, vdot
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.slicing import Diagonal
from jitgrad.ops.shape.view import UnsafeView, reshaped

__all__: list[str] = []


def _joined_sizes(batch1: Tensor, batch2: Tensor) -> tuple[int, ...]:
    """(rows, inner size, columns) of the sum of a stack of products, as one product; RuntimeError if there is none."""
    for name, batch in (("batch1", batch1), ("batch2", batch2)):
        if batch._layout.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    (b, n, k), (other, rows, m) = batch1._layout.shape, batch2._layout.shape
    if b != other:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {b} and {other}")
    if k != rows:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({n}x{k} and {rows}x{m})")
    return n, b * k, m


@public
@takes_out
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *older: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * the sum of the products of two stacks of matrices, (b, n, k) and (b, k, m) to (n, m).

    RuntimeError where sizes or dtypes differ.
    """
    if older:
        given = input, batch1, batch2, *older
        tensors = ("input", "batch1", "batch2")
        input, batch1, batch2, beta, alpha = older_order("addbmm", tensors, ("beta", "alpha"), given)
    # Side by side the matrices are one product, whose inner sums are over the stack, too.
    n, inner, m = _joined_sizes(batch1, batch2)
    left, right = batch1.transpose(0, 1).reshape(n, inner), batch2.reshape(inner, m)
    return Addmm.apply(input, left, right, beta, alpha)


@public
@takes_out
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *older: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * vec1[:, None] * vec2, (n) and (m) to (n, m); ``input`` broadcasts.

    It is not read if beta is 0.
    """
    if older:
        given = input, vec1, vec2, *older
        input, vec1, vec2, beta, alpha = older_order("addr", ("input", "vec1", "vec2"), ("beta", "alpha"), given)
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if x._layout.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x._layout.ndim}-D")
    shape = vec1._layout.shape[0], vec2._layout.shape[0]
    if input._layout.shape != shape:
        input = input.expand(shape)
    dtype = input._layout.dtype
    if dtype is vec1._layout.dtype is vec2._layout.dtype and dtype.category > 1 and not dtype.is_half:
        if type(beta) is int and beta == 1 and type(alpha) in (int, float):  # one pass
            return table.addcmul(input, reshaped(vec1, (shape[0], 1)), vec2, alpha)
    dtypes = {x._layout.dtype for x in (input, vec1, vec2)}
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, bool) and any(d.category for d in dtypes):
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if input._layout.dtype.category < 2 and isinstance(factor, (float, complex)):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    if len(dtypes) == 1 and input._layout.dtype.category > 1:
        if not input._layout.dtype.is_half:
            column = vec1.unsqueeze(1)
            if type(beta) is int and beta == 1:
                return table.addcmul(input, column, vec2, alpha)
            if beta and not input._layout.contiguous:  # whose order of dims the result has
                return table.addcmul(input * beta, column, vec2, alpha)
            return Addmm.apply(input, column, vec2.unsqueeze(0), beta, alpha)
        # PyTorch rounds the factors, and what each operation gives.
        vec1, alpha, beta = vec1 * input.new_tensor(alpha), 1, beta and input.new_tensor(beta)
    product = outer(vec1, vec2)
    if product.dtype is input.dtype and not product._layout.dtype.category:
        product = product if alpha else product.new_zeros(()).expand(shape)
        # The result has the order of the input's dims even where it isn't read.
        return (input if beta else input.logical_and(input.new_zeros(()))).logical_or(product)
    if type(alpha) is not int or alpha != 1:
        product = product * alpha
    if not isinstance(beta, Tensor) and not beta:  # what is added must not be read, but its dtype counts
        return product + input.new_zeros(())
    return (input if type(beta) is int and beta == 1 else input * beta) + product


for _function in (addbmm, addr):
    public(inplace_form(_function), function_too=False)


@functools.lru_cache(CAPACITY)
def _kron_shapes(x: Layout, y: Layout) -> tuple[tuple[int, ...], ...]:
    """The shapes in which the two broadcast to all products, and that of the result."""
    n = max(x.ndim, y.ndim)
    a, b = [(1,) * (n - t.ndim) + t.shape for t in (x, y)]
    first, second = tuple([s for i in a for s in (i, 1)]), tuple([s for j in b for s in (1, j)])
    return first, second, tuple([i * j for i, j in zip(a, b, strict=True)])


@public
@takes_out
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of ``input`` times all of ``other``; sizes are multiplied.

    The tensor with fewer dims gets ones in front.
    """
    first, second, shape = _kron_shapes(input._layout, other._layout)
    return UnsafeView.apply(reshaped(input, first) * reshaped(other, second), shape)


@partial(public, module="linalg")
@takes_out
def linalg_vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of conj(x) * y along ``dim``; the two broadcast. RuntimeError unless both are floating or complex."""
    check_floating("linalg.vecdot", x._layout)
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {scalar_type(x.dtype)} and "
            f"y of type {scalar_type(y.dtype)} instead"
        )
    if x._layout.ndim == y._layout.ndim == 1:
        return vdot(x, y)
    return (x.conj() * y).sum(dim)


@method
def __rmatmul__(self: Tensor, other: Any) -> Tensor:
    """other @ self."""
    return matmul(other, self) if isinstance(other, Tensor) or is_overriding(other) else NotImplemented


@partial(public, module="linalg")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as a view; by default of the last two dims."""
    return Diagonal.apply(A, offset, dim1, dim2)


@partial(public, module="linalg")
def linalg_matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices, vectors and stacks of them, as ``jitgrad.matmul``."""
    return matmul(input, other, out=out)


# -- powers ----------------------------------------------------------------------------------------------


@partial(public, module="linalg")
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to N - 1 of the elements, (*, n) to (*, n, N); N is n by default."""
    if not x._layout.dtype.category:
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {scalar_type(x.dtype)}"
        )
    x = x if x._layout.ndim else x.unsqueeze(-1)
    n = x._layout.shape[-1] if N is None else int_argument("linalg_vander", "N", 2, N)
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand(*x._layout.shape, n - 1).cumprod(-1)
    return cat([powers.new_ones((*x._layout.shape, 1)), powers], -1)


@partial(public, method_too=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers N - 1 to 0 of the elements of a vector, (n) to (n, N), or 0 to N - 1; N is n by default."""
    if x._layout.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x._layout.shape[0] if N is None else int_argument("vander", "N", 2, N)
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    powers = x.unsqueeze(1).expand(x._layout.shape[0], max(n - 1, 0)).cumprod(1)
    ones = powers.new_ones((x._layout.shape[0], min(n, 1)))
    result = cat([ones, powers], 1)
    return result if as_flag(increasing) else result.flip((1,))
