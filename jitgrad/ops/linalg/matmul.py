"""Products of matrices and vectors: mm, mv, dot, bmm, and those that add something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core.errors import cpp_type, expected_scalar_type, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import device_of_array, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import matmul as kernels
from jitgrad.ops.linalg.matmul_batch_rules import over_added_product, over_product
from jitgrad.ops.reduction.reduction_plan import plan_reduction, unrecorded
from jitgrad.ops.reduction.sums import sum_values
from jitgrad.ops.shape.copy import contiguous

__all__ = ["Addmm", "Bmm", "Dot", "Mm", "Mv"]


def _title(layout: Layout) -> str:
    return scalar_type(layout.dtype)


def _no_bools(x: Layout, what: str) -> None:
    if x.numpy_dtype == np.bool_:
        raise not_implemented_for(what, x.dtype)


def _conjugated(x: Tensor) -> Any:
    """The array of conj(x), for backward kernels; real tensors as they are."""
    return unrecorded(x).conj()._data if x._layout.dtype.is_complex else x._data


def multiply(kernel: Kernel, x: Any, y: Any, shape: tuple[int, ...]) -> Tensor:
    """Launch the product of two arrays into a new tensor of ``shape``."""
    layout = intern(x.dtype, shape, None, device_of_array(x))
    data = empty_for(layout)
    launch(kernel, x, y, data)
    return wrap(data, layout)


def multiply_like(x: Any, y: Any, layout: Layout) -> Tensor:
    """The product of two matrices, as the gradient of a tensor of ``layout``: column-major if that is.

    The gradient of a weight that was used transposed then comes out row-major.
    """
    if layout.contiguous or layout.strides[0] != 1:
        return multiply(kernels.dot, x, y, layout.shape)
    data = multiply(kernels.dot, y.T, x.T, layout.shape[::-1])._data
    return wrap(data.T, intern(x.dtype, layout.shape, (1, layout.shape[0]), layout.device))


def _check_matrices(x: Layout, y: Layout) -> None:
    (n, k), (rows, m) = x.shape, y.shape
    if k != rows:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {rows}x{m})")


class Mm(Structured, public=True):
    """Product of two matrices, (n, k) and (k, m) to (n, m); nothing broadcasts.

    RuntimeError where sizes or dtypes differ.
    """

    linear = ("x", "mat2")
    batch = over_product("mm")

    def forward(x, mat2):
        a, b = x._layout, mat2._layout
        for layout, name in ((a, "self"), (b, "mat2")):
            if layout.ndim != 2:
                raise RuntimeError(f"{name} must be a matrix")
        _check_matrices(a, b)
        if a.dtype is not b.dtype:
            raise RuntimeError(
                "expected m1 and m2 to have the same dtype, "
                f"but got: {cpp_type(a.dtype)} != {cpp_type(b.dtype)}"
            )
        _no_bools(a, "addmm_impl_cpu_")
        return multiply(kernels.dot, x._data, mat2._data, (a.shape[0], b.shape[1]))

    def grad_x(g, mat2):
        return Mm.apply(g, _adjoint(mat2))

    def grad_mat2(g, x):
        return Mm.apply(_adjoint(x), g)

    def kernel_x(g, x_layout, mat2):
        return multiply_like(g._data, _conjugated(mat2).T, x_layout)

    def kernel_mat2(g, x, mat2_layout):
        return multiply_like(_conjugated(x).T, g._data, mat2_layout)

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(2, 3), draw(3, 4)), {}
        yield (draw(3, 2).t(), draw(4, 3).t()), {}


def _adjoint(x: Tensor) -> Tensor:
    return x.transpose(-2, -1).conj()


class Mv(Structured, public=True):
    """Product of a matrix (n, k) and a vector (k) to a vector (n).

    RuntimeError where sizes or dtypes differ.
    """

    linear = ("x", "vec")
    batch = over_product("mv")

    def forward(x, vec):
        a, b = x._layout, vec._layout
        if a.ndim != 2 or b.ndim != 1:
            raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
            )
        if a.dtype is not b.dtype:
            raise RuntimeError(
                f"addmv input tensors must have the same dtype, but got {_title(b)}, {_title(a)}, and {_title(b)}"
            )
        _no_bools(a, "addmv_impl_cpu")
        return multiply(kernels.dot, x._data, vec._data, a.shape[:1])

    def grad_x(g, vec):
        return table.mul(g.unsqueeze(-1), vec.conj())

    def grad_vec(g, x):
        return Mv.apply(_adjoint(x), g)

    def kernel_x(g, vec):
        shape = (g._layout.shape[0], vec._layout.shape[0])
        return multiply(kernels.dot, g._data[:, None], _conjugated(vec)[None, :], shape)

    def kernel_vec(g, x):
        return multiply(kernels.dot, _conjugated(x).T, g._data, x._layout.shape[1:])

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(2, 3), draw(3)), {}
        yield (draw(3, 2).t(), draw(3)), {}


class Dot(Structured, public=True):
    """Sum of the products of two vectors' elements; RuntimeError where sizes or dtypes differ."""

    linear = ("x", "tensor")
    batch = over_product("dot")

    def forward(x, tensor):
        a, b = x._layout, tensor._layout
        if a.ndim != 1 or b.ndim != 1:
            raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
        if a.dtype is not b.dtype:
            raise RuntimeError(
                f"dot : expected both vectors to have same dtype, but found {_title(a)} and {_title(b)}"
            )
        if a.shape != b.shape:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{a.numel}] and src [{b.numel}] to have the same "
                f"number of elements, but got {a.numel} and {b.numel} elements respectively"
            )
        _no_bools(a, "dot")
        return multiply(kernels.dot, x._data, tensor._data, ())

    def grad_x(g, tensor):
        return g * tensor.conj()

    def grad_tensor(g, x):
        return g * x.conj()

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(3), draw(3, seed=1)), {}


class Bmm(Structured, public=True):
    """Products of stacked matrices, (b, n, k) and (b, k, m) to (b, n, m).

    RuntimeError where sizes or dtypes differ.
    """

    linear = ("x", "mat2")
    batch = over_product("bmm")

    def forward(x, mat2):
        _check_stacks(x._layout, mat2._layout)
        return _multiply_stacks(x, mat2)

    def grad_x(g, mat2):
        return Bmm.apply(g, _adjoint(mat2))

    def grad_mat2(g, x):
        return Bmm.apply(_adjoint(x), g)

    def kernel_x(g, mat2):
        return _multiply_stacks(g, _adjoint(unrecorded(mat2)))

    def kernel_mat2(g, x):
        return _multiply_stacks(_adjoint(unrecorded(x)), g)

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(2, 2, 3), draw(2, 3, 4)), {}
        yield (draw(2, 3, 2).transpose(1, 2), draw(3, 2, 4).transpose(0, 1)), {}


def _check_stacks(x: Layout, y: Layout) -> None:
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
    _no_bools(x, "bmm")


def _multiply_stacks(x: Tensor, y: Tensor) -> Tensor:
    shape = (*x._layout.shape[:2], y._layout.shape[2])
    return multiply(kernels.matmul, _for_blas(x), _for_blas(y), shape)


_readable: dict[Layout, bool] = {}


def _for_blas(x: Tensor) -> Any:
    """An array whose matrices BLAS reads as they lie: NumPy's loop for all others is slow."""
    layout = x._layout
    if layout.contiguous:
        return x._data
    if layout not in _readable:
        if len(_readable) > 1 << 12:
            _readable.clear()
        (rows, columns), (down, right) = layout.shape[-2:], layout.strides[-2:]
        row_major, column_major = right == 1 and down >= max(columns, 1), down == 1 and right >= max(rows, 1)
        _readable[layout] = row_major or column_major
    return x._data if _readable[layout] else contiguous(unrecorded(x))._data


# -- products that add ------------------------------------------------------------------------------


def _check_same_dtype(x: Layout, y: Layout, added: Layout) -> None:
    for other in (added, x):
        if other.dtype is not y.dtype:
            known = added if other is added or added.dtype is not y.dtype else x
            raise RuntimeError(f"self and mat2 must have the same dtype, but got {_title(known)} and {_title(y)}")


def _check_expands(added: Layout, shape: tuple[int, ...]) -> None:
    if added.ndim > len(shape):
        raise RuntimeError(
            f"expand(torch.{_title(added)}Tensor{{{list(added.shape)}}}, size={list(shape)}): the number of sizes "
            f"provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({added.ndim})"
        )
    for d in range(-1, -added.ndim - 1, -1):
        if added.shape[d] not in (1, shape[d]):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[d]}) must match the existing size ({added.shape[d]}) at "
                f"non-singleton dimension {len(shape) + d}.  Target sizes: {list(shape)}.  "
                f"Tensor sizes: {list(added.shape)}"
            )


def _scaled(x: Tensor, factor: Any) -> Tensor:
    return x if factor == 1 else x * factor


def _plus(product: Tensor, added: Tensor, beta: Any, alpha: Any) -> Tensor:
    """alpha * product + beta * added, all unrecorded; a row is added in place."""
    row = product._layout.ndim == 2 and added._layout.shape == product._layout.shape[1:]
    if row and added._layout.contiguous and beta == alpha == 1:
        launch(kernels.add_row, added._data, product._data)
        return product
    product = _scaled(product, alpha)
    return product if beta == 0 else product + _scaled(unrecorded(added), beta)


class Addmm(Structured, public=True):
    """beta * x + alpha * mat1 @ mat2; ``x`` broadcasts to the product, and is not read if beta is 0.

    RuntimeError where sizes or dtypes differ.
    """

    batch = over_added_product("mm")

    def forward(x, mat1, mat2, beta=1, alpha=1):
        a, b = mat1._layout, mat2._layout
        if a.ndim != 2 or b.ndim != 2:
            which, layout = ("mat1", a) if a.ndim != 2 else ("mat2", b)
            raise RuntimeError(f"{which} must be a matrix, got {layout.ndim}-D tensor")
        shape = (a.shape[0], b.shape[1])
        _check_same_dtype(a, b, x._layout)
        _check_matrices(a, b)
        _check_expands(x._layout, shape)
        _no_bools(a, "addmm_impl_cpu_")
        return _plus(multiply(kernels.dot, mat1._data, mat2._data, shape), x, beta, alpha)

    def grad_x(g, x_layout, beta):
        return _scaled(g.sum_to_size(x_layout.shape), _conj(beta))

    def grad_mat1(g, mat2, alpha):
        return _scaled(Mm.apply(g, _adjoint(mat2)), _conj(alpha))

    def grad_mat2(g, mat1, alpha):
        return _scaled(Mm.apply(_adjoint(mat1), g), _conj(alpha))

    def kernel_x(g, x_layout, beta):
        if x_layout.shape == g._layout.shape[1:]:
            return _scaled(sum_values(g, plan_reduction(g._layout, 0), None), _conj(beta))
        return Addmm.grad_x(g, x_layout, beta)

    def kernel_mat1(g, mat1_layout, mat2, alpha):
        return _scaled(multiply_like(g._data, _conjugated(mat2).T, mat1_layout), _conj(alpha))

    def kernel_mat2(g, mat1, mat2_layout, alpha):
        return _scaled(multiply_like(_conjugated(mat1).T, g._data, mat2_layout), _conj(alpha))

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(4), draw(2, 3), draw(3, 4)), {}
        yield (draw(2, 4), draw(2, 3), draw(3, 4), 0.5, 2.0), {}
        yield (draw(2, 1), draw(3, 2).t(), draw(4, 3).t()), {}


def _conj(number: Any) -> Any:
    return number.conjugate() if isinstance(number, complex) else number


class Addmv(Structured, public=True):
    """beta * x + alpha * mat @ vec; RuntimeError where sizes or dtypes differ."""

    batch = over_added_product("mv")

    def forward(x, mat, vec, beta=1, alpha=1):
        product = Mv.forward(mat, vec)
        _check_same_dtype(mat._layout, vec._layout, x._layout)
        _check_expands(x._layout, product._layout.shape)
        return _plus(product, x, beta, alpha)

    def grad_x(g, x_layout, beta):
        return _scaled(g.sum_to_size(x_layout.shape), _conj(beta))

    def grad_mat(g, vec, alpha):
        return _scaled(table.mul(g.unsqueeze(-1), vec.conj()), _conj(alpha))

    def grad_vec(g, mat, alpha):
        return _scaled(Mv.apply(_adjoint(mat), g), _conj(alpha))

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(2), draw(2, 3), draw(3), 0.5, 2.0), {}


class Baddbmm(Structured, public=True):
    """beta * x + alpha * batch1 @ batch2; RuntimeError where sizes or dtypes differ."""

    batch = over_added_product("bmm")

    def forward(x, batch1, batch2, beta=1, alpha=1):
        _check_stacks(batch1._layout, batch2._layout)
        product = _multiply_stacks(batch1, batch2)
        _check_same_dtype(batch1._layout, batch2._layout, x._layout)
        _check_expands(x._layout, product._layout.shape)
        product = _scaled(product, alpha)
        return product if beta == 0 else product + _scaled(unrecorded(x), beta)

    def grad_x(g, x_layout, beta):
        return _scaled(g.sum_to_size(x_layout.shape), _conj(beta))

    def grad_batch1(g, batch2, alpha):
        return _scaled(Bmm.apply(g, _adjoint(batch2)), _conj(alpha))

    def grad_batch2(g, batch1, alpha):
        return _scaled(Bmm.apply(_adjoint(batch1), g), _conj(alpha))

    @staticmethod
    def samples() -> Iterator[Any]:
        yield (draw(4), draw(2, 2, 3), draw(2, 3, 4), 0.5, 2.0), {}

