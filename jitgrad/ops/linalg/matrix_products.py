"""Products of two tensors of fixed ranks, linear in each: mm, mv, dot, bmm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import cpp_type, expected_scalar_type, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import device_of_array, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.declaration_checks import refuse
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import matmul as kernels
from jitgrad.ops.linalg.product_batch_rules import over_dot, over_product
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.expand import Unsqueeze
from jitgrad.ops.shape.view import Transpose

__all__ = [
    "Bmm", "Dot", "MatrixProduct", "Mm", "Mv", "check_inner_sizes", "check_stacks", "conj", "multiply",
    "multiply_stacks", "refuse_bools",
]  # fmt: skip


class MatrixProduct(Structured, abstract=True):
    """Base of products of two tensors: linear in each, and nothing broadcasts.

    A subclass has forward, two gradients and ``ndims``, by which vmap tells samples of a wrong rank from batches.
    Where the factors are matrices the gradients of X Y are G Y* and X* G, with the adjoints (conjugated transposes).
    """

    ndims: ClassVar[tuple[int, int]] = ()  # type: ignore[assignment]
    batch = over_product

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if len(cls.ndims) != 2:
            raise refuse(cls, "a product needs the ranks of its factors", "set ndims, as in ndims = 2, 1")
        super().__init_subclass__(**kwargs)
        cls.linear = cls.parameters


def _adjoint(x: Tensor) -> Tensor:
    """The conjugated transpose of a matrix, or of each of a stack, as part of the graph."""
    return conj(Transpose.apply(x, -2, -1))


def conj(x: Tensor) -> Tensor:
    """The complex conjugate as part of the graph; a real tensor itself."""
    return table.conj_physical(x) if x._layout.dtype.is_complex else x


def refuse_bools(dtype: dtype, kernel: str) -> None:
    """NotImplementedError for bools, which have no products; ``kernel`` is what PyTorch calls it."""
    if dtype.numpy == np.bool_:
        raise not_implemented_for(kernel, dtype)


def _conjugated(x: Tensor) -> Any:
    """The array of conj(x), for backward kernels; that of a real tensor as it is."""
    return table.conj_physical(unrecorded(x))._data if x._layout.dtype.is_complex else x._data


def multiply(kernel: Kernel, x: Any, y: Any, shape: tuple[int, ...]) -> Tensor:
    """Launch the product of two arrays into a new row-major tensor of ``shape``, which is the product's."""
    layout = intern(x.dtype, shape, None, device_of_array(x))
    data = empty_for(layout)
    launch(kernel, x, y, data)
    return wrap(data, layout)


def multiply_like(x: Any, y: Any, layout: Layout) -> Tensor:
    """The product of two matrices, as the gradient of a matrix of ``layout``: column-major if that is.

    A linear layer multiplies by its weight transposed; the weight's own gradient, transposed back, is then row-major,
    and neither an optimizer nor an accumulation has to read it across.
    """
    if layout.contiguous or layout.strides[0] != 1:
        return multiply(kernels.dot, x, y, layout.shape)
    data = multiply(kernels.dot, y.T, x.T, layout.shape[::-1])._data
    return wrap(data.T, intern(x.dtype, layout.shape, (1, layout.shape[0]), layout.device))


def check_inner_sizes(x: Layout, y: Layout) -> None:
    """RuntimeError unless a matrix (n, k) meets a matrix (k, m)."""
    (n, k), (rows, m) = x.shape, y.shape
    if k != rows:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {rows}x{m})")


class Mm(MatrixProduct, public=True):
    """Product of two matrices, (n, k) and (k, m) to (n, m); nothing broadcasts.

    RuntimeError where sizes or dtypes differ.
    """

    ndims = 2, 2
    samples = cases(lambda: (draw(2, 3), draw(3, 4)), lambda: (draw(3, 2).t(), draw(4, 3).t()))
    reference = np.matmul

    def forward(x, mat2):
        a, b = x._layout, mat2._layout
        for layout, name in ((a, "self"), (b, "mat2")):
            if layout.ndim != 2:
                raise RuntimeError(f"{name} must be a matrix")
        check_inner_sizes(a, b)
        if a.dtype is not b.dtype:
            raise RuntimeError(
                f"expected m1 and m2 to have the same dtype, but got: {cpp_type(a.dtype)} != {cpp_type(b.dtype)}"
            )
        refuse_bools(a.dtype, "addmm_impl_cpu_")
        return multiply(kernels.dot, x._data, mat2._data, (a.shape[0], b.shape[1]))

    def grad_x(g, mat2):
        return Mm.apply(g, _adjoint(mat2))

    def grad_mat2(g, x):
        return Mm.apply(_adjoint(x), g)

    def kernel_x(g, x_layout, mat2):
        return multiply_like(g._data, _conjugated(mat2).T, x_layout)

    def kernel_mat2(g, x, mat2_layout):
        return multiply_like(_conjugated(x).T, g._data, mat2_layout)


class Mv(MatrixProduct, public=True):
    """Product of a matrix (n, k) and a vector (k) to a vector (n).

    RuntimeError where sizes or dtypes differ.
    """

    ndims = 2, 1
    samples = cases(lambda: (draw(2, 3), draw(3)), lambda: (draw(3, 2).t(), draw(3)))
    reference = np.matmul

    def forward(x, vec):
        a, b = x._layout, vec._layout
        if a.ndim != 2 or b.ndim != 1:
            raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
            )
        if a.dtype is not b.dtype:
            matrix, vector = scalar_type(a.dtype), scalar_type(b.dtype)
            raise RuntimeError(
                f"addmv input tensors must have the same dtype, but got {vector}, {matrix}, and {vector}"
            )
        refuse_bools(a.dtype, "addmv_impl_cpu")
        return multiply(kernels.dot, x._data, vec._data, a.shape[:1])

    def grad_x(g, vec):
        return table.mul(Unsqueeze.apply(g, -1), conj(vec))

    def grad_vec(g, x):
        return Mv.apply(_adjoint(x), g)

    def kernel_x(g, vec):
        # An outer product, as the product of a column and a row: one launch for the three ops of the rule.
        shape = (g._layout.shape[0], vec._layout.shape[0])
        return multiply(kernels.dot, g._data[:, None], _conjugated(vec)[None, :], shape)

    def kernel_vec(g, x):
        return multiply(kernels.dot, _conjugated(x).T, g._data, x._layout.shape[1:])


class Dot(MatrixProduct, public=True):
    """Sum of the products of two vectors' elements; RuntimeError where sizes or dtypes differ."""

    ndims = 1, 1
    batch = over_dot
    samples = cases(lambda: (draw(3), draw(3, seed=1)))
    reference = np.dot

    def forward(x, tensor):
        a, b = x._layout, tensor._layout
        if a.ndim != 1 or b.ndim != 1:
            raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
        if a.dtype is not b.dtype:
            raise RuntimeError(
                "dot : expected both vectors to have same dtype, but found "
                f"{scalar_type(a.dtype)} and {scalar_type(b.dtype)}"
            )
        if a.shape != b.shape:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{a.numel}] and src [{b.numel}] to have the same "
                f"number of elements, but got {a.numel} and {b.numel} elements respectively"
            )
        refuse_bools(a.dtype, "dot")
        return multiply(kernels.dot, x._data, tensor._data, ())

    def grad_x(g, tensor):
        return table.mul(g, conj(tensor))

    def grad_tensor(g, x):
        return table.mul(g, conj(x))


class Bmm(MatrixProduct, public=True):
    """Products of stacked matrices, (b, n, k) and (b, k, m) to (b, n, m).

    RuntimeError where sizes or dtypes differ.
    """

    ndims = 3, 3
    samples = cases(
        lambda: (draw(2, 2, 3), draw(2, 3, 4)),
        lambda: (draw(2, 3, 2).transpose(1, 2), draw(3, 2, 4).transpose(0, 1)),
    )
    reference = np.matmul

    def forward(x, mat2):
        check_stacks(x._layout, mat2._layout)
        return multiply_stacks(x, mat2)

    def grad_x(g, mat2):
        return Bmm.apply(g, _adjoint(mat2))

    def grad_mat2(g, x):
        return Bmm.apply(_adjoint(x), g)

    def kernel_x(g, mat2):
        return multiply_stacks(g, _adjoint(unrecorded(mat2)))

    def kernel_mat2(g, x):
        return multiply_stacks(_adjoint(unrecorded(x)), g)


def check_stacks(x: Layout, y: Layout) -> None:
    """RuntimeError unless a stack (b, n, k) meets a stack (b, k, m) of the same dtype."""
    for layout, name in ((x, "batch1"), (y, "batch2")):
        if layout.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x.shape[0]}, {x.shape[2]}] "
            f"but got: [{y.shape[0]}, {y.shape[1]}]."
        )
    if x.dtype is not y.dtype:
        raise expected_scalar_type(x.dtype, y.dtype)
    refuse_bools(x.dtype, "bmm")


def multiply_stacks(x: Tensor, y: Tensor) -> Tensor:
    """Launch the products of checked stacks of matrices."""
    shape = (*x._layout.shape[:2], y._layout.shape[2])
    return multiply(kernels.matmul, _for_blas(x), _for_blas(y), shape)


_readable: dict[Layout, bool] = {}  # whether BLAS takes matrices of a layout as they lie


def _for_blas(x: Tensor) -> Any:
    """An array whose matrices BLAS reads as they lie: NumPy's loop for all others is slow."""
    layout = x._layout
    if layout.contiguous:
        return x._data
    # Found once for each layout; the bound keeps a program that makes ever new shapes from filling memory.
    if layout not in _readable:
        if len(_readable) > 1 << 12:
            _readable.clear()
        (rows, columns), (down, right) = layout.shape[-2:], layout.strides[-2:]
        row_major, column_major = right == 1 and down >= max(columns, 1), down == 1 and right >= max(rows, 1)
        _readable[layout] = row_major or column_major
    return x._data if _readable[layout] else contiguous(unrecorded(x))._data
