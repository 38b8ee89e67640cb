"""Matrix products by tiles of our own, or by NumPy's BLAS, the one that the user's own NumPy code runs on.

Of BLAS a product runs on one thread (``kernels/blas.py`` says why), a large one in parts on the pool.
"""

from __future__ import annotations

import contextvars
import math
import threading

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.blas import entries, one_thread
from jitgrad.kernels.device_array import DeviceArray, run_on_device
from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.product_parts import by_tiles, multiply_in_parts, product_entry
from jitgrad.kernels.tile_products import PANEL, ROWS
from jitgrad.kernels.words.vocabulary import gemm, gemm_part

__all__ = [
    "add_row", "dot", "dot_on_one", "few_rows_by_transposed", "matmul", "multiply_into", "small_dot", "small_product",
    "small_products", "small_vector_product", "stays_on_one", "tile_entry", "tile_product", "tile_products",
    "vector_products",
]  # fmt: skip


class _Quiet(threading.local):
    """Runs a function without NumPy's floating-point warnings: infinities and NaN travel silently.

    Entering a context that holds the setting costs a fifth of ``np.errstate``.
    """

    def __init__(self) -> None:
        # np.seterr sets a context variable, in this copy of the context only.
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _Quiet()
# Up to so many multiplications OpenBLAS starts no threads and need not be told, which takes 1 us: 2304 * 4 of a matrix
# and a vector, 65536 * 4 of matrices.
_VECTOR_ON_ONE, _MATRIX_ON_ONE = 9216, 262_144
# Multiplications from which two threads are clearly quicker, by a fifth: 45 us of float32 on one core, or 170 us where
# parts are products by NumPy, as those of stacks, which take 35 us to hand over.
SPLIT, _SPLIT_BY_NUMPY = 1 << 21, 1 << 23
_PANELS = 4  # of columns, from which threads share them rather than rows
_WORK = 7  # from 1 << (this + 12) multiplications on two threads are clearly quicker


def _parts(x, y, out):
    """Arguments of the products that make up a large one, in about equal parts: of a stack, of its rows, or columns."""
    count = threads.get_num_threads()
    if out.ndim > 2:
        edges = _edges(out.shape[0], count)
        return [(*[_of_stack(a, out, i, j) for a in (x, y)], out[i:j]) for i, j in edges]
    if x.ndim == 1 or y.ndim == 1:
        return [(x, y, out)]
    if out.shape[0] >= out.shape[1]:
        return [(x[i:j], y, out[i:j]) for i, j in _edges(out.shape[0], count)]
    return [(x, y[:, i:j], out[:, i:j]) for i, j in _edges(out.shape[1], count)]


def _of_stack(array, out, begin, end):
    """The part of an operand that goes with ``out[begin:end]``: all of it where it is broadcast."""
    return array[begin:end] if array.ndim == out.ndim and array.shape[0] > 1 else array


def _edges(size, parts):
    edges = [size * k // parts for k in range(parts + 1)]
    return [(i, j) for i, j in zip(edges, edges[1:], strict=False) if j > i]


def _multiply(function, x, y, out):
    # In whatever thread of the pool this runs: each has its own setting of NumPy's warnings.
    _quiet.run(function, x, y, out)


def stays_on_one(out: tuple[int, ...], inner: int) -> bool:
    """Whether BLAS itself takes one thread for a product of shape ``out``, sums of ``inner`` products."""
    work = math.prod(out) * inner
    return work <= _VECTOR_ON_ONE or (work <= _MATRIX_ON_ONE and 1 not in out and len(out) > 1)


def _product(function, x, y, out):
    """Run a function of BLAS, on one thread or in parts on the pool."""
    if stays_on_one(out.shape, x.shape[-1]):
        return _quiet.run(function, x, y, out)
    work = out.size * x.shape[-1]
    with one_thread:
        # BLAS that cannot be kept from its own threads gets the product whole.
        if work < SPLIT or threads.get_num_threads() == 1 or entries() is None:
            return _quiet.run(function, x, y, out)
        if multiply_in_parts(x, y, out, min(threads.get_num_threads(), 2 * work // SPLIT)):
            return None
        if work < _SPLIT_BY_NUMPY:
            return _quiet.run(function, x, y, out)
        # Columns of ``out`` are not contiguous, as np.dot wants them; of matrices np.matmul makes the same.
        return threads.run_together([(_multiply, (np.matmul, *part)) for part in _parts(x, y, out)])


@library("out")
def matmul(x, y, out):
    """Product of matrices, or of stacks of them."""
    if isinstance(out, DeviceArray):
        return run_on_device("matmul", (x, y, out))
    outer = x.ndim > 2 and x.shape[-1] == 1  # BLAS is slow at many small ones: 290 us against 80 for 32 of 64 x 128
    # A column times a row is an outer product: a multiplication with broadcasting.
    _quiet.run(np.multiply, x, y, out) if outer else _product(np.matmul, x, y, out)


@library("out")
def dot_on_one(x, y, out):
    """``dot`` where ``stays_on_one`` was asked before."""
    _quiet.run(np.dot, x, y, out)


@library("out")
def dot(x, y, out):
    """Product of two matrices, a matrix and a vector, or two vectors; ``out`` is contiguous."""
    if isinstance(out, DeviceArray):
        return run_on_device("dot", (x, y, out))
    if few_rows_by_transposed(x, y, out):
        transposed = np.empty(out.shape[::-1], out.dtype)
        _product(np.dot, y.T, x.T, transposed)
        np.copyto(out, transposed.T)
    else:
        _product(np.dot, x, y, out)


def _row_major(x):
    """A matrix with contiguous rows, and whether its transpose is ``x``; None where neither has any."""
    if x.strides[1] == x.itemsize or x.shape[1] == 1:
        return x, False
    return (x.T, True) if x.strides[0] == x.itemsize or x.shape[0] == 1 else None


def multiply_into(x, y, out):
    """Write the product of two matrices to a row-major one."""
    left, right, entry = _row_major(x), _row_major(y), tile_entry(out.dtype.char, out.size * x.shape[1])
    if entry and left and right:
        tile_product.call(left[0], right[0], out, left[1], right[1], entry)
    else:
        dot.call(x, y, out)


def few_rows_by_transposed(x, y, out):
    """Whether to multiply few rows by a transposed matrix, as linear layers do, as the transposed product.

    OpenBLAS brings the matrix that stands on the left in its column-major view, here ``y``, into the order of its inner
    loop. For AVX-512 it does that slowly if the matrix is transposed: 64 x 784 times the transpose of 256 x 784 takes
    333 us, the transposed product 275 and its copy 10 (16 rows: 155, 83 and 2). Elsewhere both take the same time.
    """
    if out.ndim != 2 or out.dtype.char != "f":
        return False
    rows, columns = out.shape
    return 1 < rows <= 64 and 2 * rows <= columns and x.flags.c_contiguous and y.flags.f_contiguous


def tile_entry(kind: str, work: int) -> int:
    """The entry that a product of ``work`` multiplications is left to; 0: BLAS is quicker."""
    return product_entry(kind, work) if by_tiles(kind, work) else 0


def shared_panels(out):
    """The panels of columns that threads share, if the result is wide and has several for each; 0: they share rows."""
    rows, columns = out.shape
    panels = columns * out.itemsize // PANEL
    return panels if columns > rows and panels >= _PANELS else 0


def _cut(x, y, out, x_turned, y_turned, entry):
    """Pieces are panels of columns, or rows of a tile."""
    return shared_panels(out) or -(-out.shape[0] // ROWS), x.size * out.shape[1] >> _WORK


# Each part copies what it needs of both sides, so there are no more parts than threads: with twice as many 512 x 1120
# times 1120 x 128 takes 1.2 of the time.
@loop(pieces=_cut, dtype_from="out", grain=1 << 12, parts_per_thread=1)
def tile_product(x, y, out, x_turned, y_turned, entry, first, last):
    """Product of two matrices, each of which may be given transposed: so all are row-major.

    entry: the address of a product's machine code, see ``product_parts.py``.
    """
    rows, columns = out.shape
    panels, row, column = shared_panels(out), 0, 0
    if panels:
        column, end = first * PANEL // out.itemsize, columns if last >= panels else last * PANEL // out.itemsize
        columns = end - column
    else:
        row = first * ROWS
        rows = min(last * ROWS, rows) - row
    gemm_part(entry, x, x_turned, y, y_turned, out, row, rows, column, columns)


def _stack(x, y, out, x_turned, y_turned, entry):
    return out.shape[0], x.size * out.shape[2] >> _WORK


@loop(pieces=_stack, dtype_from="out", grain=1 << 12)
def tile_products(x, y, out, x_turned, y_turned, entry, first, last):
    """``tile_product`` of stacks of matrices."""
    for s in range(first, last):
        gemm(entry, x[s], x_turned, y[s], y_turned, out[s], False)


# Up to so many multiplications a loop is faster than NumPy's call of BLAS; the second is for each of a stack.
SMALL_PRODUCT, SMALL_OF_STACK = 1024, 256


def multiply_rows(x, y, out, x_turned, y_turned):
    """Four columns at a time: their sums are independent, so that the processor need not wait for one of them."""
    n, m = out.shape
    inner = y.shape[1] if y_turned else y.shape[0]
    for i in range(n):
        j = 0
        while j + 4 <= m:
            a, b, c, d = T(0), T(0), T(0), T(0)
            if y_turned:
                for k in range(inner):
                    v = x[k, i] if x_turned else x[i, k]
                    a += v * y[j, k]
                    b += v * y[j + 1, k]
                    c += v * y[j + 2, k]
                    d += v * y[j + 3, k]
            else:
                for k in range(inner):
                    v = x[k, i] if x_turned else x[i, k]
                    a += v * y[k, j]
                    b += v * y[k, j + 1]
                    c += v * y[k, j + 2]
                    d += v * y[k, j + 3]
            out[i, j], out[i, j + 1], out[i, j + 2], out[i, j + 3] = a, b, c, d
            j += 4
        while j < m:
            a = T(0)
            for k in range(inner):
                a += (x[k, i] if x_turned else x[i, k]) * (y[j, k] if y_turned else y[k, j])
            out[i, j] = a
            j += 1


@loop(reassoc=True)
def small_product(x, y, out, x_turned, y_turned):
    """Product of two matrices, each of which may be given transposed: so all are row-major, and one loop does."""
    multiply_rows(x, y, out, x_turned, y_turned)


@loop(reassoc=True, split=("x", "y", "out"))
def small_products(x, y, out, x_turned, y_turned):
    """``small_product`` of stacks of matrices."""
    for s in range(out.shape[0]):
        multiply_rows(x[s], y[s], out[s], x_turned, y_turned)


def multiply_vector(row, matrix, total, turned):
    """total = row @ matrix."""
    if turned:
        for j in range(total.size):
            column, dot = matrix[j], T(0)
            for k in range(row.size):
                dot += row[k] * column[k]
            total[j] = dot
    else:
        for j in range(total.size):
            total[j] = T(0)
        for k in range(row.size):
            factor, part = row[k], matrix[k]
            for j in range(total.size):
                total[j] += factor * part[j]


@loop(reassoc=True, split=("x", "y", "out"), dtype_from="y")
def vector_products(x, y, out, turned):
    """Products of vectors x (stack, k) and matrices y (stack, k, m), (stack, m, k) if ``turned``; out (stack, m)."""
    for s in range(out.shape[0]):
        multiply_vector(x[s], y[s], out[s], turned)


@loop(reassoc=True)
def small_vector_product(x, y, out, turned):
    """``vector_products`` of one vector and one matrix."""
    multiply_vector(x, y, out, turned)


@loop(reassoc=True)
def small_dot(x, y, out):
    """The sum of the products of two vectors' elements; ``out`` has one element."""
    total = T(0)
    for k in range(x.size):
        total += x[k] * y[k]
    out[0] = total


@loop(split=("out",), dtype_from="out")
def add_row(row, out):
    """Add a vector to every row of a matrix, in place: the bias of a linear layer."""
    for i in range(out.shape[0]):
        target = out[i]
        for j in range(target.size):
            target[j] += row[j]
