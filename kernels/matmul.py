"""Matrix products by NumPy's BLAS, the one that the user's own NumPy code runs on."""

from __future__ import annotations

import numpy as np

from .launch import library

__all__ = ["dot", "matmul"]


@library("out")
def matmul(x, y, out):
    """Product of matrices, or of stacks of them."""
    np.matmul(x, y, out=out)


@library("out")
def dot(x, y, out):
    """Product of two matrices, a matrix and a vector, or two vectors; ``out`` is contiguous."""
    np.dot(x, y, out)
