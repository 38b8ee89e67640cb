"""Products of two tensors of fixed ranks, linear in each: mm, mv, dot, bmm."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import cpp_type, expected_scalar_type, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, contiguous_strides, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.declaration_checks import refuse
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, planned, row_major
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.loops import matmul as kernels
from jitgrad.ops.linalg.product_batch_rules import over_dot, over_product
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.expand import Unsqueeze
from jitgrad.ops.shape.permute import Transpose

__all__ = [
    "Bmm", "Dot", "Factor", "MatrixProduct", "Mm", "Mv", "check_inner_sizes", "check_stacks", "conj", "conjugate",
    "gradient_of_first", "gradient_of_second", "multiply_stacks", "refuse_bools", "row_major_product",
    "stacked_product",
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


def conjugate(x: Tensor) -> Tensor:
    """conj(x) outside the graph, for backward kernels; a real tensor itself."""
    return table.conj_physical(unrecorded(x)) if x._layout.dtype.is_complex else x


class Factor(NamedTuple):
    """A matrix, or a stack of matrices, that is multiplied: tensor ``name`` of ``layout``, transposed if ``turned``."""

    name: str
    layout: Layout
    turned: bool = False

    def transposed(self) -> Factor:
        """The same factor, transposed."""
        return self._replace(turned=not self.turned)

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns."""
        *_, n, m = self.layout.shape
        return (m, n) if self.turned else (n, m)

    def row_major(self) -> tuple[Read, bool] | None:
        """A row-major array, and whether its transposed is the factor; None where memory is in no such order."""
        if self.layout.contiguous:
            return Read(self.name, self.layout.shape), self.turned
        *lead, n, m = self.layout.shape
        if self.layout.strides == contiguous_strides((*lead, m, n))[:-2] + (1, n):
            return Read(self.name, "mT" if lead else "T"), not self.turned
        return None

    def for_blas(self) -> Read:
        """An array whose matrices BLAS reads as they lie: NumPy's loop for all others is slow."""
        if self.layout.contiguous and not self.turned:
            return Read(self.name, self.layout.shape)
        if self.layout.ndim == 2:
            return Read(self.name, "T" if self.turned else None)
        (rows, columns), (down, right) = self.layout.shape[-2:], self.layout.strides[-2:]
        row_major, column_major = right == 1 and down >= max(columns, 1), down == 1 and right >= max(rows, 1)
        if self.layout.contiguous or row_major or column_major:
            return Read(self.name, "mT" if self.turned else None)
        turned = self.turned
        return Read(self.name, lambda x: contiguous(unrecorded(turn(x) if turned else x))._data)


def turn(x: Tensor) -> Tensor:
    """Each of a stack of matrices transposed, outside the graph."""
    return Transpose.forward(unrecorded(x), -2, -1)


_SMALL_TYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def product(x: Factor, y: Factor, out: Layout) -> Launches:
    """Plan the product of two matrices or two stacks of them, into a new tensor of ``out``, which may be column-major.

    A linear layer multiplies by its weight transposed; the weight's own gradient, transposed back, is then row-major,
    and neither an optimizer nor an accumulation has to read it across.
    """
    result = Written(0, out.shape)
    if not out.contiguous:  # the product's transposed is that of the transposed factors, exchanged
        x, y, result = y.transposed(), x.transposed(), Written(0, "T")
    n, inner = x.sizes
    work, stack = n * inner * y.sizes[1], math.prod(out.shape[:-2])
    first, second = x.row_major(), y.row_major()
    if first and second and out.device == "cpu" and out.numpy_dtype in _SMALL_TYPES and out.numel and (
        work * stack <= kernels.SMALL_PRODUCT or (out.ndim == 3 and work <= kernels.SMALL_OF_STACK)
    ):  # fmt: skip
        kernel: Kernel = kernels.small_product if out.ndim == 2 else kernels.small_products
        return Launches([(kernel, first[0], second[0], result, first[1], second[1])], [out])
    if first and second and out.device == "cpu" and out.numpy_dtype in _SMALL_TYPES and out.numel and out.ndim == 3:
        if n == 1:
            return _of_vectors(x, second, out)
        if y.sizes[1] == 1:
            return _of_vectors(y, (first[0], not first[1]), out)
    entry = kernels.tile_entry(out.numpy_dtype.char, work)
    if entry and first and second and out.device == "cpu" and out.numel and out.ndim < 4:
        kernel = kernels.tile_product if out.ndim == 2 else kernels.tile_products
        return Launches([(kernel, first[0], second[0], result, first[1], second[1], entry)], [out])
    kernel = kernels.matmul if out.ndim > 2 else kernels.dot
    if out.ndim == 2 and kernels.stays_on_one((n, y.sizes[1]), inner):
        kernel = kernels.dot_on_one
    return Launches([(kernel, x.for_blas(), y.for_blas(), result)], [out])


def _of_vectors(vector: Factor, matrix: tuple[Read, bool], out: Layout) -> Launches:
    """Plan the products of a stack of vectors with one of row-major matrices; tiles would be next to empty."""
    stack = out.shape[0]
    size, sums = vector.layout.numel // stack, out.numel // stack
    if sums == 1:  # a column is a row, too
        matrix = Read(matrix[0].name, (stack, 1, size)), True
    arrays = Read(vector.name, (stack, size)), matrix[0], Written(0, (stack, sums))
    return Launches([(kernels.vector_products, *arrays, matrix[1])], [out])


def row_major_product(x: Factor, y: Factor) -> Launches:
    """Plan the product of two matrices or stacks into a new row-major tensor."""
    layout = x.layout
    shape = (*layout.shape[:-2], x.sizes[0], y.sizes[1])
    return product(x, y, intern(layout.numpy_dtype, shape, None, layout.device))


@planned("x", "y")
def stacked_product(x, y):
    """The product of a stack of matrices and a matrix, or a stack with the same leading dims, both row-major.

    None for others, which are left to ops: a product that is recorded is made of several, as in PyTorch.
    """
    lead = x.shape[:-2]
    fits = (x.ndim > 2 < y.ndim and y.shape[:-2] == lead) or (x.ndim > 2 == y.ndim)
    if not (fits and x.contiguous and y.contiguous and x.dtype is y.dtype and x.dtype.category >= 2
            and x.shape[-1] == y.shape[-2] and x.numel and y.numel and x.device == y.device):  # fmt: skip
        return lambda x, y: None
    (n, k), m = x.shape[-2:], y.shape[-1]
    stack = math.prod(lead)
    rows, columns = ((stack * n, k), (k, m)) if y.ndim == 2 else ((stack, n, k), (stack, k, m))
    left, right = (Factor(name, intern(x.numpy_dtype, s, None, x.device)) for name, s in (("x", rows), ("y", columns)))
    return row_major_product(left, right)._replace(layouts=[intern(x.numpy_dtype, (*lead, n, m), None, x.device)])


def gradient_product(x: Factor, y: Factor, layout: Layout) -> Launches:
    """Plan the product that is the gradient of a matrix of ``layout``: column-major if that is."""
    device = x.layout.device
    if layout.contiguous or layout.strides[0] != 1:
        return product(x, y, intern(x.layout.numpy_dtype, layout.shape, None, device))
    return product(x, y, intern(x.layout.numpy_dtype, layout.shape, (1, layout.shape[0]), device))


def vector_product(x: Read, y: Read, out: Layout, inner: int) -> Launches:
    """Plan a product of which a factor has one row or column, into a new tensor of layout ``out``."""
    kernel: Kernel = kernels.dot_on_one if kernels.stays_on_one(out.shape, inner) else kernels.dot
    return Launches([(kernel, x, y, Written(0))], [out])


def _is_small(out: Layout, work: int) -> bool:
    """Whether a loop is quicker than BLAS at so many multiplications."""
    return out.device == "cpu" and out.numpy_dtype in _SMALL_TYPES and 0 < work <= kernels.SMALL_PRODUCT


def matrix_by_vector(x: Factor, vec: Read, vec_layout: Layout) -> Launches:
    """Plan the product of a matrix and a vector."""
    out = intern(vec_layout.numpy_dtype, x.sizes[:1], None, vec_layout.device)
    matrix = x.row_major()
    if matrix and vec_layout.contiguous and _is_small(out, x.layout.numel):
        return Launches([(kernels.small_vector_product, vec, matrix[0], Written(0), not matrix[1])], [out])
    return vector_product(Read(x.name, "T" if x.turned else None), vec, out, vec_layout.numel)


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

    def plan(x_layout, mat2_layout):
        for layout, name in ((x_layout, "self"), (mat2_layout, "mat2")):
            if layout.ndim != 2:
                raise RuntimeError(f"{name} must be a matrix")
        check_inner_sizes(x_layout, mat2_layout)
        if x_layout.dtype is not mat2_layout.dtype:
            names = cpp_type(x_layout.dtype), cpp_type(mat2_layout.dtype)
            raise RuntimeError("expected m1 and m2 to have the same dtype, but got: {} != {}".format(*names))
        refuse_bools(x_layout.dtype, "addmm_impl_cpu_")
        return row_major_product(Factor("x", x_layout), Factor("mat2", mat2_layout))

    def grad_x(g, mat2):
        return Mm.apply(g, _adjoint(mat2))

    def grad_mat2(g, x):
        return Mm.apply(_adjoint(x), g)

    def kernel_x(g, x_layout, mat2):
        return gradient_of_first(g, x_layout, conjugate(mat2))

    def kernel_mat2(g, x, mat2_layout):
        return gradient_of_second(g, conjugate(x), mat2_layout)


@planned("g", "second")
def gradient_of_first(g, first_layout, second):
    """The product of a gradient and a matrix transposed, as the gradient of a matrix of ``first_layout``."""
    return gradient_product(Factor("g", g), Factor("second", second, True), first_layout)


@planned("g", "first")
def gradient_of_second(g, first, second_layout):
    """The product of a matrix transposed and a gradient, as the gradient of a matrix of ``second_layout``."""
    return gradient_product(Factor("first", first, True), Factor("g", g), second_layout)


class Mv(MatrixProduct, public=True):
    """Product of a matrix (n, k) and a vector (k) to a vector (n).

    RuntimeError where sizes or dtypes differ.
    """

    ndims = 2, 1
    samples = cases(lambda: (draw(2, 3), draw(3)), lambda: (draw(3, 2).t(), draw(3)))
    reference = np.matmul

    def plan(x_layout, vec_layout):
        a, b = x_layout, vec_layout
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
        return matrix_by_vector(Factor("x", a), Read("vec"), b)

    def grad_x(g, vec):
        return table.mul(Unsqueeze.apply(g, -1), conj(vec))

    def grad_vec(g, x):
        return Mv.apply(_adjoint(x), g)

    def kernel_x(g, vec):
        return _outer(g, conjugate(vec))

    def kernel_vec(g, x):
        return _turned_by_vector(conjugate(x), g)


@planned("x", "y")
def _outer(x, y):
    """An outer product, as the product of a column and a row: one launch for the three ops of the rule."""
    arrays = row_major("x", x, (x.numel, 1)), row_major("y", y, (1, y.numel))
    return vector_product(*arrays, intern(x.numpy_dtype, (x.numel, y.numel), None, x.device), 1)


@planned("x", "vec")
def _turned_by_vector(x, vec):
    return matrix_by_vector(Factor("x", x, True), Read("vec"), vec)


class Dot(MatrixProduct, public=True):
    """Sum of the products of two vectors' elements; RuntimeError where sizes or dtypes differ."""

    ndims = 1, 1
    batch = over_dot
    samples = cases(lambda: (draw(3), draw(3, seed=1)))
    reference = np.dot

    def plan(x_layout, tensor_layout):
        a, b = x_layout, tensor_layout
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
        out = intern(a.numpy_dtype, (), None, a.device)
        if _is_small(out, a.numel) and a.contiguous and b.contiguous:
            return Launches([(kernels.small_dot, Read("x"), Read("tensor"), Written(0, (1,)))], [out])
        return vector_product(Read("x"), Read("tensor"), out, a.numel)

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

    def plan(x_layout, mat2_layout):
        check_stacks(x_layout, mat2_layout)
        return row_major_product(Factor("x", x_layout), Factor("mat2", mat2_layout))

    def grad_x(g, mat2):
        return Bmm.apply(g, _adjoint(mat2))

    def grad_mat2(g, x):
        return Bmm.apply(_adjoint(x), g)

    def kernel_x(g, mat2):
        return _stacks_by_turned(g, conjugate(mat2))

    def kernel_mat2(g, x):
        return _turned_by_stacks(conjugate(x), g)


@planned("x", "y")
def _stacks_by_turned(x, y):
    return row_major_product(Factor("x", x), Factor("y", y, True))


@planned("x", "y")
def _turned_by_stacks(x, y):
    return row_major_product(Factor("x", x, True), Factor("y", y))


@planned("x", "y")
def multiply_stacks(x, y):
    """The products of checked stacks of matrices."""
    return row_major_product(Factor("x", x), Factor("y", y))


def check_stacks(x: Layout, y: Layout, op: str = "bmm") -> None:
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
    refuse_bools(x.dtype, op)
