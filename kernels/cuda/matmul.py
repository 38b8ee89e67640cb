"""Matrix products on CUDA: by cuBLAS, or squares of the result, each by a block of threads through shared memory."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.kernels.cuda.blas import product
from jitgrad.kernels.cuda.provider import THREADS, CudaLoop
from jitgrad.kernels.device_array import LOOPS, DeviceArray, missing_kernel
from jitgrad.kernels.words.vocabulary import T

TILE = math.isqrt(THREADS)
cuda: Any = None  # a name in the text of kernels; the provider's module there


def _product(x, y, out, x_stack, x_row, x_column, y_stack, y_row, y_column, n, k, m):
    """A TILE x TILE square of one of a stack of products (n, k) times (k, m); ``out`` is row-major."""
    # Each element of x and y is read from memory once for TILE uses: threads share tiles of both.
    left = cuda.shared.array(THREADS, T)
    right = cuda.shared.array(THREADS, T)
    lane = cuda.threadIdx.x
    row, column = lane // TILE, lane % TILE
    across, down = (m + TILE - 1) // TILE, (n + TILE - 1) // TILE
    stack = cuda.blockIdx.x // (across * down)
    i = cuda.blockIdx.x // across % down * TILE + row
    j = cuda.blockIdx.x % across * TILE + column
    total = T(0)
    for begin in range(0, k, TILE):
        # Zeros beyond the edges add nothing, and every thread must reach the barriers.
        left[lane] = T(0)
        right[lane] = T(0)
        if i < n and begin + column < k:
            left[lane] = x[stack * x_stack + i * x_row + (begin + column) * x_column]
        if j < m and begin + row < k:
            right[lane] = y[stack * y_stack + (begin + row) * y_row + j * y_column]
        cuda.syncthreads()
        for step in range(TILE):
            total += left[row * TILE + step] * right[step * TILE + column]
        cuda.syncthreads()
    if i < n and j < m:
        out[(stack * n + i) * m + j] = total


def _add_row(row, out, m, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = out[i] + row[i % m]


PRODUCT, ADD_ROW = CudaLoop(_product), CudaLoop(_add_row)


def matmul(x: DeviceArray, y: DeviceArray, out: DeviceArray) -> None:
    """Products of stacks of matrices, (b, n, k) and (b, k, m) to a contiguous (b, n, m)."""
    if x.ndim != 3 or y.ndim != 3 or not out.is_c_contiguous():
        raise missing_kernel("matmul")
    (stack, n, k), m = x.shape, y.shape[2]
    blocks = stack * -(-n // TILE) * -(-m // TILE)
    if blocks and not product(x, y, out):
        steps = [s // a.itemsize for a in (x, y) for s in a.strides]
        PRODUCT.grid(x.dtype).blocks(blocks)(x, y, out, *steps, n, k, m)


def dot(x: DeviceArray, y: DeviceArray, out: DeviceArray) -> None:
    """Product of two matrices, a matrix and a vector, or two vectors."""
    left = x[None] if x.ndim == 2 else x[None, None]
    right = y[None] if y.ndim == 2 else y[None, :, None]
    matmul(left, right, out.reshape(1, left.shape[1], right.shape[2]))


def add_row(row: DeviceArray, out: DeviceArray) -> None:
    """Add a vector to every row of a matrix, in place."""
    n = out.size
    if n:
        ADD_ROW.grid(out.dtype).over(n)(row, out, row.size, n)


LOOPS.update(matmul=matmul, dot=dot, add_row=add_row)
