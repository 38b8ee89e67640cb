"""Matrix products by NumPy's BLAS, the one that the user's own NumPy code runs on."""

from __future__ import annotations

import numpy as np

from .launch import library, loop

__all__ = ["add_row", "dot", "matmul"]


@library("out")
def matmul(x, y, out):
    """Product of matrices, or of stacks of them."""
    np.matmul(x, y, out=out)


@library("out")
def dot(x, y, out):
    """Product of two matrices, a matrix and a vector, or two vectors; ``out`` is contiguous."""
    np.dot(x, y, out)


@loop(split=("out",), dtype_from="out")
def add_row(row, out):
    """Add a vector to every row of a matrix, in place: the bias of a linear layer."""
    for i in range(out.shape[0]):
        target = out[i]
        for j in range(target.size):
            target[j] += row[j]
