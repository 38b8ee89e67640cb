"""Products of small matrices as rows of a program: in tiles of registers, without BLAS.

BLAS copies both matrices into the order of its inner loop, whatever their size; here the right one alone is copied, 64
bytes of its columns at a time, and only if it is transposed. 128 x 32 times 32 x 64 takes 6.1 us, BLAS 7.1;
32 x 10 times 10 x 128 takes 1.1, BLAS 1.6; 64 x 1 times 1 x 64 takes 0.3, BLAS 0.7.

The functions are compiled by `machine_words`, in 0.2 s; a loop of Numba's would need about a second.
Sums run over the inner dim in its order, as those of BLAS do.
"""
# mypy: ignore-errors

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from jitgrad.kernels.loops.products import ROWS
from jitgrad.kernels.machine_words import WORD, compiled_words
from jitgrad.kernels.product_parts import TURNED
from jitgrad.kernels.words import tile as tile_file
from jitgrad.kernels.words.tile import BYTES, Vectors

__all__ = ["INNER", "tiles_address"]

INNER = 512  # sums of so many products at most: the columns that are copied have room on a thread's stack


def by_tiles(words):
    """An entry: a product. Its words: bytes of an element, then those that `product_jobs` gives."""
    size, rows, columns, inner = read(words), read(words + 32), read(words + 40), read(words + 48)
    x, x_row, x_step = read(words + 56), size * read(words + 64), size
    if read(words + 16) == TURNED:
        x_row, x_step = x_step, x_row
    y, y_row, y_turned = read(words + 72), size * read(words + 80), read(words + 24) == TURNED
    out, out_row = read(words + 88), size * read(words + 96)
    lanes, column, panel = BYTES // size, 0, room()
    while column < columns:
        width = lanes
        if columns < lanes:
            width = columns
        elif column + lanes > columns:  # some columns a second time, with the same result
            column = columns - lanes
        part, step = y + size * column, y_row
        if y_turned:
            take_turned(panel, y + y_row * column, y_row, width, inner, size)
            part, step = panel, BYTES
        elif width < lanes:
            take_narrow(panel, part, y_row, size * width, inner)
            part, step = panel, BYTES
        fill(x, x_row, x_step, part, step, inner, out + size * column, out_row, rows, size * width)
        column += lanes
    write(words + 8, 0)


def fill(x, x_row, x_step, y, y_row, inner, out, out_row, rows, width):
    """A product with ``width`` bytes of columns, in tiles of about equal height."""
    count, spare = (rows + ROWS - 1) // ROWS, tile_room()
    done = 0
    for k in range(count):
        height = rows * (k + 1) // count - done
        left, target = x + done * x_row, out + done * out_row
        if width == BYTES:
            tile(height, left, x_row, x_step, y, y_row, inner, target, out_row)
        else:
            tile(height, left, x_row, x_step, y, y_row, inner, spare, BYTES)
            for i in range(height):
                copy(target + i * out_row, spare + i * BYTES, width)
        done += height


def take_turned(panel, y, y_row, width, inner, size):
    """Columns of a transposed matrix, which are rows in memory, side by side; the last one again and again if there
    are too few."""
    side, column = HALF // size, 0
    while column < 2 * side:
        k = 0
        while k < inner:
            if inner < side:
                for j in range(column, column + side):
                    row = j
                    if row >= width:
                        row = width - 1
                    copy(panel + k * BYTES + j * size, y + row * y_row + k * size, size)
                k += 1
            else:
                if k + side > inner:  # some a second time
                    k = inner - side
                turn_square(panel + k * BYTES + column * size, BYTES, y + k * size, y_row, column, width - 1)
                k += side
        column += side


def take_narrow(panel, y, y_row, width, inner):
    """The ``width`` bytes of each row of a matrix of few columns, and zeros behind them."""
    for k in range(8 * inner):
        write(panel + 8 * k, 0)
    for k in range(inner):
        copy(panel + k * BYTES, y + k * y_row, width)


HALF = BYTES // 2  # squares of whole vectors would need twice the registers that there are


def _operations(dtype: Any) -> dict[str, Any]:
    """What the functions above do with numbers of a dtype."""

    def place(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, Vectors(None, builder, dtype).number.as_pointer())

    def tile(builder: Any, rows: Any, *args: Any) -> None:
        """out = x @ y for ``rows`` rows and the columns that a vector holds."""
        after = builder.append_basic_block()
        choice = builder.switch(rows, after)
        for height in range(1, ROWS + 1):
            block = builder.append_basic_block()
            choice.add_case(WORD(height), block)
            builder.position_at_end(block)
            _product(builder, height, *args)
            builder.branch(after)
        builder.position_at_end(after)

    def _product(
        builder: Any, height: int, x: Any, x_row: Any, x_step: Any, y: Any, y_row: Any, inner: Any, out: Any,
        out_row: Any,
    ) -> None:  # fmt: skip
        emit = Vectors(None, builder, dtype)
        sums = [cgutils.alloca_once(builder, emit.kind) for _ in range(height)]
        for total in sums:
            builder.store(ir.Constant(emit.kind, None), total)
        lefts = [builder.add(x, builder.mul(x_row, WORD(r))) for r in range(height)]
        with cgutils.for_range(builder, inner) as loop:
            row = emit.load(place(builder, builder.add(y, builder.mul(loop.index, y_row))), WORD(0))
            step = builder.mul(loop.index, x_step)
            for left, total in zip(lefts, sums, strict=True):
                emit.add_product(total, emit.spread(place(builder, builder.add(left, step))), row)
        for r, total in enumerate(sums):
            target = place(builder, builder.add(out, builder.mul(out_row, WORD(r))))
            emit.store(builder.load(total), target, WORD(0))

    def turn_square(builder: Any, target: Any, target_row: Any, y: Any, y_row: Any, first: Any, last: Any) -> None:
        """Half a vector of each of as many rows, from ``first`` to ``last`` and that again, transposed."""
        emit = Vectors(None, builder, dtype, HALF)
        numbers = [builder.add(first, WORD(r)) for r in range(emit.lanes)]
        starts = [builder.select(builder.icmp_signed("<", n, last), n, last) for n in numbers]
        rows = [emit.load(place(builder, builder.add(y, builder.mul(s, y_row))), WORD(0)) for s in starts]
        for r, row in enumerate(_transposed(builder, rows, emit.lanes)):
            emit.store(row, place(builder, builder.add(target, builder.mul(target_row, WORD(r)))), WORD(0))

    def room(builder: Any, count: int = INNER) -> Any:
        # Not as one array: ``alloca_once`` writes a zero to the element, and LLVM takes minutes to unroll that.
        memory = cgutils.alloca_once(builder, ir.IntType(8), WORD(count * BYTES))
        return builder.ptrtoint(memory, WORD)

    return {"tile": tile, "turn_square": turn_square, "room": room, "tile_room": lambda builder: room(builder, ROWS)}


def _transposed(builder: Any, rows: list[Any], side: int) -> list[Any]:
    """A square matrix of vectors transposed: blocks beside the diagonal change places, halves first."""
    half = side // 2
    while half:
        for r in (r for r in range(side) if not r & half):
            a, b = rows[r], rows[r + half]
            upper = [lane if not lane & half else side + lane - half for lane in range(side)]
            lower = [lane + half if not lane & half else side + lane for lane in range(side)]
            rows[r], rows[r + half] = [builder.shuffle_vector(a, b, _mask(lanes)) for lanes in (upper, lower)]
        half //= 2
    return rows


def _mask(lanes: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)


@functools.cache
def tiles_address(kind: str) -> int:
    """The address of the entry ``by_tiles`` for dtype character "f" or "d"."""
    dtype = {"f": types.float32, "d": types.float64}[kind]
    emitters = "".join(Path(f).read_text() for f in (__file__, tile_file.__file__))
    helpers = fill, take_turned, take_narrow
    return compiled_words(f"{kind}tiles", [by_tiles], helpers, _operations(dtype), emitters)["by_tiles"]
