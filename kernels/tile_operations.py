"""What the functions of `tile_products` do with vectors of numbers, as LLVM's instructions."""
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from jitgrad.kernels.machine_words import WORD
from jitgrad.kernels.tile_sizes import APART, DEPTH, HEIGHTS, PANEL, ROWS, SQUARE, TILES
from jitgrad.kernels.words.registers import BYTES
from jitgrad.kernels.words.tile import Vectors

__all__ = ["tile_operations"]


def tile_operations(kind: str) -> dict[str, Any]:
    """The operations by name, for dtype character "f" or "d"."""
    dtype = {"f": types.float32, "d": types.float64}[kind]
    item = dtype.bitwidth // 8

    def place(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, Vectors(None, builder, dtype).number.as_pointer())

    def tile(builder: Any, rows: Any, *args: Any, vectors: int = 1) -> None:
        """out = x @ y, or out + x @ y with ``keep``, for ``rows`` rows and the columns that ``vectors`` hold."""
        after = builder.append_basic_block()
        choice = builder.switch(rows, after)
        for height in HEIGHTS:
            block = builder.append_basic_block()
            choice.add_case(WORD(height), block)
            builder.position_at_end(block)
            _product(builder, height, vectors, *args)
            builder.branch(after)
        builder.position_at_end(after)

    def _product(
        builder: Any, height: int, vectors: int, x: Any, x_row: Any, x_step: Any, y: Any, y_row: Any, inner: Any,
        out: Any, out_row: Any, keep: Any,
    ) -> None:  # fmt: skip
        emit, target = Vectors(None, builder, dtype), place(builder, out)
        sums, step = emit.sums(height, vectors), builder.sdiv(out_row, WORD(emit.item))
        emit.begin(sums, builder.icmp_signed("!=", keep, WORD(0)), target, step)
        column = emit.column(x, x_row, x_step, height)
        emit.add_products(sums, column, emit.rows(y, y_row), inner)
        emit.end(sums, target, step)

    def wide_tile(builder: Any, *args: Any) -> None:
        if PANEL > BYTES:  # else no tile is that wide
            tile(builder, *args, vectors=PANEL // BYTES)

    def turn_square(builder: Any, target: Any, target_row: Any, y: Any, y_row: Any, first: Any, last: Any) -> None:
        """A vector of each of as many rows, from ``first`` to ``last`` and that again, transposed."""
        emit = Vectors(None, builder, dtype, SQUARE)
        numbers = [builder.add(first, WORD(r)) for r in range(emit.lanes)]
        starts = [builder.select(builder.icmp_signed("<", n, last), n, last) for n in numbers]
        rows = [emit.load(place(builder, builder.add(y, builder.mul(s, y_row))), WORD(0)) for s in starts]
        for r, row in enumerate(_transposed(builder, rows, emit.lanes)):
            emit.store(row, place(builder, builder.add(target, builder.mul(target_row, WORD(r)))), WORD(0))

    def room(builder: Any, count: int) -> Any:
        # Not as one array: ``alloca_once`` writes a zero to the element, and LLVM takes minutes to unroll that.
        memory = cgutils.alloca_once(builder, ir.IntType(8), WORD(count))
        memory.align = BYTES  # a vector in two lines of the cache takes twice as long to load
        return builder.ptrtoint(memory, WORD)

    return {
        "tile": tile, "wide_tile": wide_tile, "turn_square": turn_square,
        "panel_room": lambda b: room(b, DEPTH * PANEL), "tiles_room": lambda b: room(b, TILES * ROWS * APART * item),
        "tile_room": lambda b: room(b, ROWS * BYTES), "item": lambda _: WORD(item),
    }  # fmt: skip


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
