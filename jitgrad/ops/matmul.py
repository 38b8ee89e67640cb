"""Matrix products: mm, mv, dot, bmm, and matmul for tensors of any rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import matmul as kernels
from ..kernels.launch import Kernel, launch
from ..layout import Layout, Size, broadcast_shapes, intern
from ..tensor import Tensor, wrap
from .copy import contiguous
from .registry import FUNCTIONS, public
from .structured import Structured

__all__ = ["adjoint", "check_dtypes", "multiply", "multiply_like"]

_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long", "int32": "int", "int16": "short", "int8": "signed char",
    "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def check_dtypes(x: Layout, y: Layout, what: str) -> None:
    """Operands of a product share a dtype; ``what`` is how PyTorch's message begins."""
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"{what} to have the same dtype, but got: {_C_NAMES[x.dtype.name]} != {_C_NAMES[y.dtype.name]}"
        )


def adjoint(x: Tensor) -> Tensor:
    """The last two dims swapped, conjugated: what products' gradients are made of."""
    turned = x.transpose(-2, -1)
    return turned.conj() if x._layout.dtype.is_complex else turned


def _conjugated(x: Tensor) -> Any:
    """The array of conj(x), for backward kernels; real tensors as they are."""
    if not x._layout.dtype.is_complex:
        return x._data
    return FUNCTIONS["conj"](wrap(x._data, x._layout)).resolve_conj()._data


def multiply(kernel: Kernel, x: Any, y: Any, shape: tuple[int, ...]) -> Tensor:
    """Launch the product of two arrays into a new tensor of ``shape``."""
    data = np.empty(shape, x.dtype)
    launch(kernel, x, y, data)
    return wrap(data, intern(x.dtype, shape))


def multiply_like(kernel: Kernel, x: Any, y: Any, layout: Layout) -> Tensor:
    """The product, as the gradient of a tensor of ``layout``: column-major if that is.

    The gradient of a weight that was used transposed then comes out row-major again.
    """
    if layout.contiguous or layout.strides[-2] != 1 or layout.ndim > 2:
        return multiply(kernel, x, y, layout.shape)
    data = np.empty(layout.shape[::-1], x.dtype)
    launch(kernel, y.T, x.T, data)
    return wrap(data.T, intern(x.dtype, layout.shape, (1, layout.shape[0])))


def _matrices(x: Layout, y: Layout) -> None:
    for layout, name in ((x, "self"), (y, "mat2")):
        if layout.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    (n, k), (rows, m) = x.shape, y.shape
    if k != rows:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {rows}x{m})")
    check_dtypes(x, y, "expected m1 and m2")


class Mm(Structured):
    """Product of two matrices, (n, k) and (k, m) to (n, m); nothing broadcasts."""

    def forward(x, mat2):
        a, b = x._layout, mat2._layout
        _matrices(a, b)
        return multiply(kernels.dot, x._data, mat2._data, (a.shape[0], b.shape[1]))

    def grad_x(g, mat2):
        return Mm.apply(g, adjoint(mat2))

    def grad_mat2(g, x):
        return Mm.apply(adjoint(x), g)

    def kernel_x(g, x_layout, mat2):
        return multiply_like(kernels.dot, g._data, _conjugated(mat2).T, x_layout)

    def kernel_mat2(g, x, mat2_layout):
        return multiply_like(kernels.dot, _conjugated(x).T, g._data, mat2_layout)


class Mv(Structured):
    """Product of a matrix (n, k) and a vector (k) to a vector (n)."""

    def forward(x, vec):
        a, b = x._layout, vec._layout
        if a.ndim != 2 or b.ndim != 1:
            raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
            )
        check_dtypes(a, b, "expected mat and vec")
        return multiply(kernels.dot, x._data, vec._data, a.shape[:1])

    def grad_x(g, vec):
        return FUNCTIONS["outer"](g, vec.conj() if vec._layout.dtype.is_complex else vec)

    def grad_vec(g, x):
        return Mv.apply(adjoint(x), g)

    def kernel_x(g, vec):
        return multiply(kernels.matmul, g._data[:, None], _conjugated(vec)[None, :], g.shape + vec.shape)

    def kernel_vec(g, x):
        return multiply(kernels.dot, _conjugated(x).T, g._data, x._layout.shape[1:])


class Dot(Structured):
    """Product of two vectors of n elements: a number."""

    def forward(x, tensor):
        a, b = x._layout, tensor._layout
        if a.ndim != 1 or b.ndim != 1:
            raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
        if a.dtype is not b.dtype:
            raise RuntimeError(
                "dot : expected both vectors to have same dtype, but found "
                f"{_TITLE(a)} and {_TITLE(b)}"
            )
        if a.shape != b.shape:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{a.numel}] and src [{b.numel}] to have the same "
                f"number of elements, but got {a.numel} and {b.numel} elements respectively"
            )
        return multiply(kernels.dot, x._data, tensor._data, ())

    def grad_x(g, tensor):
        return g * (tensor.conj() if tensor._layout.dtype.is_complex else tensor)

    def grad_tensor(g, x):
        return g * (x.conj() if x._layout.dtype.is_complex else x)


def _TITLE(layout: Layout) -> str:
    from ..dtypes import TITLES

    return TITLES[layout.dtype.name]


class Bmm(Structured):
    """Products of stacked matrices, (b, n, k) and (b, k, m) to (b, n, m)."""

    def forward(x, mat2):
        a, b = x._layout, mat2._layout
        _stacks(a, b)
        check_dtypes(a, b, "expected m1 and m2")
        return multiply(kernels.matmul, for_blas(x), for_blas(mat2), (*a.shape[:2], b.shape[2]))

    def grad_x(g, mat2):
        return Bmm.apply(g, adjoint(mat2))

    def grad_mat2(g, x):
        return Bmm.apply(adjoint(x), g)


def _stacks(x: Layout, y: Layout) -> None:
    for layout, name in ((x, "batch1"), (y, "batch2")):
        if layout.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{x.shape[0]}, {x.shape[2]}] "
            f"but got: [{y.shape[0]}, {y.shape[1]}]."
        )


_readable: dict[Layout, bool] = {}


def for_blas(x: Tensor) -> Any:
    """An array whose last two dims BLAS reads as they lie; NumPy's loop for others is slow."""
    layout = x._layout
    if layout.contiguous:
        return x._data
    if layout not in _readable:
        if len(_readable) > 1 << 12:
            _readable.clear()
        _readable[layout] = _is_matrix(layout)
    return x._data if _readable[layout] else contiguous(wrap(x._data, layout))._data


def _is_matrix(layout: Layout) -> bool:
    (rows, columns), (down, right) = layout.shape[-2:], layout.strides[-2:]
    return (right == 1 and down >= max(columns, 1)) or (down == 1 and right >= max(rows, 1))


class UnsafeView(Structured):
    """Another shape for a tensor that nobody else holds: no view in the sense of the recorder."""

    name, function, method = "_unsafe_view", False, False

    def forward(x, size):
        return wrap(x._data.reshape(size), intern(x._layout.numpy_dtype, tuple(size)))

    def grad_x(g, x_layout):
        return g.reshape(x_layout.shape)


@public
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product of tensors of any rank.

    (k) with (k): a number. (n, k) with (k): a vector. Otherwise the last two dims are multiplied,
    a vector standing for a row on the left or a column on the right, and the dims before them
    broadcast. RuntimeError where sizes or dtypes do not fit.
    """
    a, b = input._layout.ndim, other._layout.ndim
    if a == 2 and b == 2:
        return Mm.apply(input, other)
    if a == 1 and b == 1:
        return Dot.apply(input, other)
    if a == 2 and b == 1:
        return Mv.apply(input, other)
    if a == 0 or b == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        )
    if a == 1 and b == 2:
        return Mm.apply(input.unsqueeze(0), other).squeeze(0)
    if _folds(input, other):
        return _folded(input, other)
    return _batched(input, other)


def _folds(x: Tensor, y: Tensor) -> bool:
    """Whether the leading dims of one operand can join its rows: one large product."""
    return min(x._layout.ndim, y._layout.ndim) <= 2


def _folded(x: Tensor, y: Tensor) -> Tensor:
    if x._layout.ndim < y._layout.ndim:  # as the transposed product
        turned = _folded(y.transpose(-2, -1), x.t() if x._layout.ndim == 2 else x)
        return turned.transpose(-2, -1).contiguous() if x._layout.ndim == 2 else turned
    lead, k = x.shape[:-1], x.shape[-1]
    rows = x.reshape(-1, k) if x._layout.numel else x.reshape(Size(lead).numel(), k)
    if y._layout.ndim == 1:
        return UnsafeView.apply(Mv.apply(rows, y), lead)
    return UnsafeView.apply(Mm.apply(rows, y), (*lead, y.shape[1]))


def _batched(x: Tensor, y: Tensor) -> Tensor:
    row, column = x._layout.ndim == 1, y._layout.ndim == 1
    x, y = x.unsqueeze(0) if row else x, y.unsqueeze(1) if column else y
    lead = tuple(broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    stack = Size(lead).numel()
    (n, k), (rows, m) = x.shape[-2:], y.shape[-2:]
    left = x.expand(*lead, n, k).reshape(stack, n, k)
    right = y.expand(*lead, rows, m).reshape(stack, rows, m)
    return UnsafeView.apply(Bmm.apply(left, right), (*lead, n, m))


def _operator(self: Tensor, other: Any) -> Any:
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = _operator  # type: ignore[attr-defined]
