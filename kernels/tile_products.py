"""Products of matrices in tiles of registers, without BLAS.

BLAS copies both matrices into the order of its inner loop, whatever their size; here the right one alone is copied,
some columns at a time, and only where its rows are read often or it is transposed. Small products gain by it: with
registers of 32 bytes 128 x 32 times 32 x 64 takes 6.1 us, BLAS 7.1; 32 x 10 times 10 x 128 takes 1.1, BLAS 1.6; 64 x 1
times 1 x 64 takes 0.3, BLAS 0.7. Larger ones do, too: on an AMD Zen 3 64 x 784 times 784 x 256 takes 310 us, OpenBLAS
340; with registers of 64 bytes 120 us, OpenBLAS 153. Where the right matrix is transposed, as linear layers have it,
and the left one has few rows, that one is turned instead, and so is the result, which is less: 267 us against
OpenBLAS's 358 on a busy machine; and 80 against 199 for 16 rows.

The functions are compiled by `machine_words`, in 0.15 s; a loop of Numba's would need about a second.
Sums run over the inner dim in its order, as those of BLAS do.
"""
# mypy: ignore-errors

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from jitgrad.kernels.machine_words import compiled_words
from jitgrad.kernels.tile_sizes import APART, DEPTH, MIDDLE, PANEL, ROWS, SQUARE, TILES, UNIT, WIDE_REGISTERS
from jitgrad.kernels.words.registers import BYTES

__all__ = ["TURNED", "tiles_address"]

TURNED = 112  # of the interface of C to BLAS: a matrix is given by its transpose
# Rows of the left matrix that are multiplied by all columns before the next rows: DEPTH columns of them fit in the
# second cache. With registers of 64 bytes blocks of rows were not measured, and all rows are taken.
TALL = 1 << 62 if WIDE_REGISTERS else TILES * ROWS
BLOCK = 32 * ROWS  # columns of the result that are made at a time where it is turned
OFTEN = 9 * ROWS  # rows of the left matrix from which on a panel is worth copying
# The same where a panel's rows are so many bytes apart: the first cache has room for few of them.
FAR, OFTEN_FAR = 1024, 3 * ROWS


def by_tiles(words):
    """An entry, as of `product_parts`, whose first word isn't used: out = x @ y, or out + x @ y with ``keep``."""
    size, rows, columns, inner, keep = item(), read(words + 32), read(words + 40), read(words + 48), read(words + 56)
    x, x_row, x_step = read(words + 64), size * read(words + 72), size
    if read(words + 16) == TURNED:
        x_row, x_step = x_step, x_row
    y, y_row, y_turned = read(words + 80), size * read(words + 88), read(words + 24) == TURNED
    out, out_row = read(words + 96), size * read(words + 104)
    y_step = y_row
    if y_turned:
        y_step = size
    done, panel, tiles, most = 0, panel_room(), tiles_room(), DEPTH
    if x_step != size:
        most = DEPTH // 2
    count = (inner + most - 1) // most
    if count == 0:  # sums of nothing
        count = 1
    turned_rows = 0
    if y_turned & (x_step == size) & (keep == 0):
        turned_rows = worth_turning(rows, columns, inner)
    if turned_rows:
        by_turned_tiles(x, x_row, y, y_row, rows, columns, inner, count, out, out_row, panel, tiles)
        count = 0
    for part in range(count):
        depth = inner * (part + 1) // count - done
        left, right = x + done * x_step, y + done * y_step
        across = (x_row == size) & (x_step != size) & (columns * size >= 4 * PANEL)  # read across often
        most_rows, row = TALL, 0
        if across:
            most_rows = TILES * ROWS
        while row < rows:
            height = rows - row
            if height > most_rows:
                height = most_rows
            source, source_row, source_step = left + row * x_row, x_row, x_step
            if across:
                take_left(tiles, source, x_step, height, depth)
                source, source_row, source_step = tiles, size, 0
            add_part(source, source_row, source_step, across, right, y_row, y_turned, depth, out + row * out_row,
                     out_row, height, columns * size, keep, panel)  # fmt: skip
            row += height
        done += depth
        keep = 1
    write(words + 8, 0)


def worth_turning(rows, columns, inner):
    """Whether to turn the left matrix and the result in place of the right matrix.

    To turn a number takes as long as a vector of multiplications; with the left matrix turned, a part of a vector of
    its rows takes as long as a whole one.
    """
    lanes, spare = BYTES // item(), 0
    while (rows + spare) & (lanes - 1):
        spare += 1
    return (lanes - spare) * columns * inner > lanes * rows * (columns + inner)


def by_turned_tiles(x, x_row, y, y_row, rows, columns, inner, count, out, out_row, panel, block):
    """out = x @ y', as the transpose of y @ x', of which a ``block`` of columns is made at a time."""
    size, first = item(), 0
    while first < rows:
        width, step = rows - first, BYTES
        if width * size > BYTES:
            step = PANEL
        if width * size > step:
            width = step // size
        start = 0
        while start < columns:
            height, done = columns - start, 0
            if height > BLOCK:
                height = BLOCK
            for part in range(count):
                depth = inner * (part + 1) // count - done
                take_turned(panel, step, x + first * x_row + done * size, x_row, width, depth)
                fill(y + start * y_row + done * size, y_row, size, 0, panel, step, depth, block, step, height, step,
                     part > 0)  # fmt: skip
                done += depth
            put_turned(out + first * out_row + start * size, out_row, block, step, width, height)
            start += height
        first += width


def put_turned(out, out_row, block, block_row, width, height):
    """The first ``width`` columns of a block, as rows of the result."""
    size, side, column = item(), SQUARE // item(), 0
    while column < width:
        row = 0
        if (column + side <= width) & (side <= height):
            while row < height:
                if row + side > height:  # some a second time
                    row = height - side
                turn_square(out + column * out_row + row * size, out_row, block + column * size, block_row, row, height)
                row += side
            column += side
        else:
            for row in range(height):
                copy(out + column * out_row + row * size, block + row * block_row + column * size, size)
            column += 1


def add_part(x, x_row, x_step, tiled, y, y_row, y_turned, depth, out, out_row, rows, columns, keep, panel):
    """A product whose right matrix has at most DEPTH rows; ``columns`` in bytes."""
    size, done = item(), 0
    while done < columns:
        width = columns - done
        if width >= PANEL:
            width = PANEL
        elif width > BYTES:
            width = BYTES
        part, step = y + done, y_row
        if y_turned:
            part, step = panel, BYTES
            if width == PANEL:
                step = PANEL
            take_turned(panel, step, y + y_row * (done // size), y_row, width // size, depth)
        elif width < BYTES:
            part, step = panel, BYTES
            take_narrow(panel, y + done, y_row, width, depth)
        elif (rows >= OFTEN) | (rows >= OFTEN_FAR) & (y_row >= FAR):
            part, step = panel, width
            take_rows(panel, y + done, y_row, width, depth)
        fill(x, x_row, x_step, tiled, part, step, depth, out + done, out_row, rows, width, keep)
        done += width


def fill(x, x_row, x_step, tiled, y, y_row, inner, out, out_row, rows, width, keep):
    """A product with ``width`` bytes of columns."""
    done, spare = 0, tile_room()
    while done < rows:
        height = height_of(rows - done)
        left, target, target_row = x + done * x_row, out + done * out_row, out_row
        if tiled:
            left, x_step = x + done * APART * item(), height * item()
        if width < BYTES:
            target, target_row = spare, BYTES
            if keep:
                for i in range(height):
                    copy(spare + i * BYTES, out + (done + i) * out_row, width)
        if width > BYTES:
            wide_tile(height, left, x_row, x_step, y, y_row, inner, target, target_row, keep)
        else:
            tile(height, left, x_row, x_step, y, y_row, inner, target, target_row, keep)
        if width < BYTES:
            for i in range(height):
                copy(out + (done + i) * out_row, spare + i * BYTES, width)
        done += height


def height_of(left):
    """Rows of the next tile where ``left`` are left: two of middle height are better than a high and a low one."""
    if (left >= ROWS + 4) | (left == ROWS):
        return ROWS
    if left >= MIDDLE:
        return MIDDLE
    if left >= 4:
        return 4
    if left >= 2:
        return 2
    return 1


def take_left(tiles, x, x_step, rows, depth):
    """Numbers of the left matrix, of which columns lie side by side, in the order in which tiles read them.

    All tiles of a column go together: its numbers are on few lines of the cache, and those of the next column may
    take their places there.
    """
    size, high = item(), 0
    while (rows - high >= ROWS + 4) | (rows - high == ROWS):
        high += ROWS
    for k in range(depth):
        place, left, end = tiles + k * ROWS * size, x + k * x_step, x + k * x_step + high * size
        while left < end:
            copy(place, left, ROWS * size)
            place, left = place + APART * ROWS * size, left + ROWS * size
    done = high
    while done < rows:
        height = height_of(rows - done)
        place, left, width = tiles + done * APART * size, x + done * size, height * size
        for _ in range(depth):
            at = 0
            while at + UNIT <= width:
                copy(place + at, left + at, UNIT)
                at += UNIT
            while at < width:
                copy(place + at, left + at, size)
                at += size
            place, left = place + width, left + x_step
        done += height


def take_turned(panel, panel_row, y, y_row, width, inner):
    """Columns of a transposed matrix, which are rows in memory, side by side; the last one again and again if there
    are too few."""
    size, side, column = item(), SQUARE // item(), 0
    while column * size < panel_row:
        k = 0
        while k < inner:
            if inner < side:
                for j in range(column, column + side):
                    row = j
                    if row >= width:
                        row = width - 1
                    copy(panel + k * panel_row + j * size, y + row * y_row + k * size, size)
                k += 1
            else:
                if k + side > inner:  # some a second time
                    k = inner - side
                turn_square(panel + k * panel_row + column * size, panel_row, y + k * size, y_row, column, width - 1)
                k += side
        column += side


def take_narrow(panel, y, y_row, width, inner):
    """The ``width`` bytes of each row of a matrix of few columns, and zeros behind them."""
    for k in range(8 * inner):
        write(panel + 8 * k, 0)
    for k in range(inner):
        copy(panel + k * BYTES, y + k * y_row, width)


def take_rows(panel, y, y_row, width, inner):
    """Rows of a panel, or of a vector, one behind the other."""
    if width == PANEL:
        for k in range(inner):
            copy(panel + k * PANEL, y + k * y_row, PANEL)
    else:
        for k in range(inner):
            copy(panel + k * BYTES, y + k * y_row, BYTES)


@functools.cache
def tiles_address(kind: str) -> int:
    """The address of the entry ``by_tiles`` for dtype character "f" or "d"."""
    emitters = "".join((Path(__file__).parent / f).read_text() for f in (Path(__file__).name, *_EMITTERS))
    helpers = (
        worth_turning, by_turned_tiles, put_turned, add_part, fill, height_of, take_left, take_turned, take_narrow,
        take_rows,
    )  # fmt: skip

    def operations() -> dict[str, Any]:
        from jitgrad.kernels.tile_operations import tile_operations  # which imports Numba

        return tile_operations(kind)

    return compiled_words(f"{kind}tiles", [by_tiles], helpers, operations, emitters)["by_tiles"]


_EMITTERS = "tile_operations.py", "words/tile.py"  # the files that emit what the functions above do with numbers
