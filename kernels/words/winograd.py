"""The transforms of Winograd's convolution (see loops/winograd.py), of as many tiles of a row as a vector has lanes.

Tiles overlap, and what is at the same place of two lies two numbers apart: of loops over them LLVM makes no good
vectors, and it compares the ends of a dozen arrays ahead of each, which for rows of a small image takes longer than the
sums. Arrays are named by where something begins in them, counted in elements. Rows of tiles and lines of an image go on
for a vector behind their end. Of other dtypes than float32 and float64 nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from jitgrad.kernels.words.tile import Vectors

__all__ = ["copy_numbers", "gradient_places", "tile_places", "tile_results"]

_WORD, _NUMBER = ir.IntType(64), types.int64


class _Tiles(Vectors):
    """Emits what the transforms share."""

    def spread_value(self, value: Any) -> Any:
        """A vector of one number, in the vectors' dtype."""
        value = value if value.type == self.number else self.builder.fptrunc(value, self.number)
        one = self.builder.insert_element(ir.Constant(self.kind, ir.Undefined), value, ir.IntType(32)(0))
        return self.shuffled(one, one, [0] * self.lanes)

    def shuffled(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        """The lanes of two vectors, counted through both, that are listed."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), list(lanes))
        return self.builder.shuffle_vector(a, b, mask)

    def halves(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Every other number of two vectors that lie side by side: from the first on, and from the second."""
        return self.shuffled(a, b, range(0, 2 * self.lanes, 2)), self.shuffled(a, b, range(1, 2 * self.lanes, 2))

    def joined(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Two vectors whose numbers take turns."""
        turns = [k // 2 + self.lanes * (k % 2) for k in range(2 * self.lanes)]
        return self.shuffled(a, b, turns[: self.lanes]), self.shuffled(a, b, turns[self.lanes :])

    def column(self, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
        """A' times a column of a tile."""
        add, subtract = self.builder.fadd, self.builder.fsub
        return add(add(a, b), c), subtract(subtract(b, c), d)


def _places(lines: Any, sign: Any, tiles: Any, places_of: Callable[..., list[Any]]) -> Any:
    """The signature and the emitter of a transform of a row of tiles."""
    signature = types.void(lines, _NUMBER, _NUMBER, sign, tiles, _NUMBER, _NUMBER)
    if tiles.dtype not in (types.float32, types.float64):
        return signature, lambda context, *_: context.get_dummy_value()

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Tiles(context, builder, tiles.dtype)
        starts = [emit.data(lines, args[0], first) for first in args[1:3]]
        factor = emit.spread_value(args[3])

        def part(offset: int) -> Any:
            upper, lower = (emit.load(start, _WORD(offset)) for start in starts)
            return builder.fadd(upper, builder.fmul(factor, lower))

        target = emit.data(tiles, args[4], args[5])
        for k, place in enumerate(places_of(emit, part)):
            emit.store(place, target, builder.mul(args[6], _WORD(k)))
        return context.get_dummy_value()

    return signature, build


@intrinsic
def copy_numbers(typing_context: Any, x: Any, first: Any, count: Any, out: Any, place: Any) -> Any:
    """``count`` elements of x, as they lie in memory, from ``first`` on, into out, from ``place`` on."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = (context.make_array(t)(context, builder, a).data for t, a in ((x, args[0]), (out, args[3])))
        item = context.get_abi_sizeof(context.get_data_type(out.dtype))
        cgutils.raw_memcpy(
            builder, builder.gep(target, [args[4]]), builder.gep(source, [args[1]]), args[2], _WORD(item)
        )
        return context.get_dummy_value()

    return types.void(x, _NUMBER, _NUMBER, out, _NUMBER), build


@intrinsic
def tile_places(
    typing_context: Any, lines: Any, upper: Any, lower: Any, sign: Any, tiles: Any, first: Any, plane: Any
) -> Any:
    """B' x B of a row: of the line that begins at ``upper`` plus ``sign`` times that at ``lower``.

    The four places of a tile are written ``plane`` elements apart, from ``first`` on. sign: 1 or -1.
    """

    def places_of(emit: Any, part: Any) -> list[Any]:
        # What a tile shares with the next one is the first half of that, two numbers on.
        (a, b), (c, d) = (emit.halves(part(k), part(k + emit.lanes)) for k in (0, 2))
        add, subtract = emit.builder.fadd, emit.builder.fsub
        return [subtract(a, c), add(b, c), subtract(c, b), subtract(b, d)]

    return _places(lines, sign, tiles, places_of)


@intrinsic
def gradient_places(
    typing_context: Any, lines: Any, upper: Any, lower: Any, sign: Any, tiles: Any, first: Any, plane: Any
) -> Any:
    """A y A' of a row; arguments as of ``tile_places``."""

    def places_of(emit: Any, part: Any) -> list[Any]:
        a, b = emit.halves(part(0), part(emit.lanes))
        return [a, emit.builder.fadd(a, b), emit.builder.fsub(a, b), emit.builder.fneg(b)]

    return _places(lines, sign, tiles, places_of)


@intrinsic
def tile_results(
    typing_context: Any, sums: Any, first: Any, plane: Any, more: Any, lines: Any, upper: Any, lower: Any
) -> Any:
    """A' m A, plus ``more``, as two lines: of tiles whose 16 places lie ``plane`` elements apart, from ``first`` on."""
    signature = types.void(sums, _NUMBER, _NUMBER, more, lines, _NUMBER, _NUMBER)
    if sums.dtype not in (types.float32, types.float64):
        return signature, lambda context, *_: context.get_dummy_value()

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = _Tiles(context, builder, sums.dtype)
        source, added = emit.data(sums, args[0], args[1]), emit.spread_value(args[3])
        columns = [
            emit.column(*[emit.load(source, builder.mul(args[2], _WORD(4 * k + a))) for k in range(4)])
            for a in range(4)
        ]
        for start, row in zip(args[5:7], zip(*columns, strict=True), strict=True):
            target = emit.data(lines, args[4], start)
            pair = emit.joined(*[builder.fadd(half, added) for half in emit.column(*row)])
            for k, vector in enumerate(pair):
                emit.store(vector, target, _WORD(k * emit.lanes))
        return context.get_dummy_value()

    return signature, build
