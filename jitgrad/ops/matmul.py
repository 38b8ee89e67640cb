"""Matrix products: mm, mv, dot, bmm and what is composed of them."""

from __future__ import annotations

import numpy as np

from ..kernels import matmul as kernels
from ..kernels.launch import launch
from ..layout import Layout, intern
from ..tensor import Tensor, wrap
from .copy import contiguous
from .structured import Structured

__all__ = ["multiply"]

_C_NAMES = {
    "float32": "float", "float64": "double", "int64": "long", "int32": "int", "int16": "short", "int8": "signed char",
    "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def same_dtype(x: Tensor, y: Tensor, names: str) -> None:
    """Products need one dtype; ``names`` is how PyTorch's message calls the operands."""
    a, b = x._layout.dtype, y._layout.dtype
    if a is not b:
        raise RuntimeError(f"{names} to have the same dtype, but got: {_C_NAMES[a.name]} != {_C_NAMES[b.name]}")


def for_blas(x: Tensor) -> np.ndarray:
    """An array that BLAS reads as it lies: its last two dims are row- or column-major."""
    layout = x._layout
    if layout.contiguous or _is_matrix(layout):
        return x._data
    return contiguous(wrap(x._data, layout))._data


def _is_matrix(layout: Layout) -> bool:
    if layout.ndim < 2:
        return layout.ndim == 0 or layout.strides[0] > 0
    (rows, columns), (down, right) = layout.shape[-2:], layout.strides[-2:]
    return (right == 1 and down >= max(columns, 1)) or (down == 1 and right >= max(rows, 1))


def multiply(kernel, x: Tensor, y: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Launch a product into a new tensor of ``shape``."""
    layout = intern(x._layout.numpy_dtype, shape)
    data = np.empty(shape, layout.numpy_dtype)
    launch(kernel, for_blas(x), for_blas(y), data)
    return wrap(data, layout)


class Mm(Structured):
    """Product of two matrices, (n, k) and (k, m) to (n, m); nothing broadcasts."""

    def forward(x, mat2):
        a, b = x._layout, mat2._layout
        if a.ndim != 2:
            raise RuntimeError("self must be a matrix")
        if b.ndim != 2:
            raise RuntimeError("mat2 must be a matrix")
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                "mat1 and mat2 shapes cannot be multiplied "
                f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
            )
        same_dtype(x, mat2, "expected m1 and m2")
        return multiply(kernels.dot, x, mat2, (a.shape[0], b.shape[1]))

    def grad_x(g, mat2):
        return Mm.apply(g, mat2.t().conj())

    def grad_mat2(g, x):
        return Mm.apply(x.t().conj(), g)

    def kernels(wants, g, x, mat2):
        found = {}
        if "x" in wants:
            found["x"] = Mm.forward(g, _adjoint(mat2))
        if "mat2" in wants:
            found["mat2"] = Mm.forward(_adjoint(x), g)
        return found
