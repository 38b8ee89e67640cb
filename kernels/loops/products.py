"""Products of matrices inside of loops: by an entry of `product_parts`, by tiles in registers, or plainly."""

from __future__ import annotations

from jitgrad.kernels import tile_products
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.processor import cpu_features
from jitgrad.kernels.product_parts import INNER_BY_BLAS, inner_product_entry
from jitgrad.kernels.words.vocabulary import T, gemm, product_tile

__all__ = ["fill_column", "fill_panel", "has_product", "multiply", "multiply_by_tiles", "run_with_blas"]

ROWS = 8 if "avx512f" in cpu_features() else 6  # of a tile of 64 bytes a row: as many as fit into registers
TALL, VECTORS = tile_products.ROWS, tile_products.PANEL // tile_products.BYTES  # of a tile of a panel
_SMALL = 2048  # multiplications up to which a loop is quicker than a call of BLAS
# Bytes of a matrix, and of its rows, that stays in a core's first cache. An entry that is one of tiles knows better.
_NEAR, _ROW = (1 << 15, 512) if INNER_BY_BLAS else (0, 0)


def has_product(dtype):
    """Whether there is an entry for products of this dtype."""
    return bool(inner_product_entry(dtype.char))


def multiply(function, x, x_turned, y, y_turned, out, keep):
    """out (+)= x @ y, each of which may be given transposed; rows are contiguous.

    function: the address of an entry, 0 where there is none for this dtype. BLAS copies what it multiplies, so tiles
    are quicker where the matrix on the right is small: 64 x 16 times 16 x 64 takes 1.7 us, BLAS 2.2.
    """
    inner = x.shape[0] if x_turned else x.shape[1]
    if function != 0 and out.shape[0] > 1 and out.size * inner > _SMALL:
        row = out.shape[1] * out.itemsize
        if not y_turned and row % 64 == 0 and row <= _ROW and inner * row <= _NEAR:
            multiply_by_tiles(x, x_turned, y, out, keep)
        else:
            gemm(function, x, x_turned, y, y_turned, out, keep)
        return
    for i in range(out.shape[0]):
        target = out[i]
        if not keep:
            target[:] = T(0)
        if y_turned:
            for j in range(target.size):
                total, row, left = W(0), y[j], x[i]
                for k in range(inner):
                    total += left[k] * row[k]
                target[j] += T(total)
        else:
            for k in range(inner):
                factor, row = x[k, i] if x_turned else x[i, k], y[k]
                for j in range(target.size):
                    target[j] += factor * row[j]


def multiply_by_tiles(x, x_turned, y, out, keep):
    """out (+)= x @ y with x transposed or not, where rows of out are a whole number of 64 bytes."""
    inner, lanes = y.shape[0], 64 // out.itemsize
    line, y_row, out_row = x.strides[0] // x.itemsize, y.strides[0] // y.itemsize, out.strides[0] // out.itemsize
    x_row, x_step = (1, line) if x_turned else (line, 1)
    for j in range(0, out.shape[1], lanes):
        fill_column(x, x_row, x_step, y, j, y_row, inner, out, j, out_row, out.shape[0], keep)


def fill_column(x, x_row, x_step, y, y_first, places, inner, out, out_first, out_row, rows, keep):
    """64 bytes of all rows of a product; see ``product_tile``."""
    i = 0
    while i + ROWS <= rows:
        product_tile(ROWS, 1, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += ROWS
    if i + 4 <= rows:
        product_tile(4, 1, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 4
    while i + 2 <= rows:
        product_tile(2, 1, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 2
    while i < rows:
        product_tile(1, 1, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 1


def fill_panel(x, x_row, x_step, y, y_first, places, inner, out, out_first, out_row, rows, keep):
    """The bytes of a panel of all rows of a product: with wide registers two vectors for each.

    The height of a tile is a constant of its code, so each is written out.
    """
    if VECTORS == 1:
        fill_column(x, x_row, x_step, y, y_first, places, inner, out, out_first, out_row, rows, keep)
        return
    i = 0
    while i + TALL == rows or i + TALL + 4 <= rows:
        product_tile(TALL, 2, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += TALL
    while i + 8 <= rows:
        product_tile(8, 2, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 8
    if i + 6 <= rows:
        product_tile(6, 2, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 6
    if i + 4 <= rows:
        product_tile(4, 2, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 4
    if i + 2 <= rows:
        product_tile(2, 2, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip
        i += 2
    if i < rows:
        product_tile(1, 2, x, i * x_row, x_row, x_step, y, y_first, places, inner, out, out_first + i * out_row,
                     out_row, keep)  # fmt: skip


def run_with_blas(kernel, dtype, before, after):
    """Call a loop with the address of an entry between its arguments; BLAS keeps to one thread meanwhile."""
    entry = inner_product_entry(dtype.char)
    if INNER_BY_BLAS and entry:
        with one_thread:
            kernel.call(*before, entry, *after)
    else:
        kernel.call(*before, entry, *after)
