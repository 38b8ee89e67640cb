"""Launches that work row by row on the same rows, run together on some rows at a time, which stay in cache meanwhile.

Such are the loops that threads share by rows (``split`` of `launch.loop`) and what visits contiguous memory in order.
What only they need is put into memory for the rows of one block, which the next block uses again. A sum over rows is
one of the sums of each block, which a last launch adds up. Nothing is compiled for this: see `executor.blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.elementwise.declaration import ElementwiseKernel, StridedKernel
from jitgrad.kernels.launch import Kernel, Loop
from jitgrad.kernels.loops.norm import normalize_rows, row_gradient, row_gradients, row_sums
from jitgrad.kernels.loops.reduction import sum_columns, sum_rows
from jitgrad.kernels.loops.softmax import (
    log_softmax_rows,
    log_softmax_rows_gradient,
    softmax_rows,
    softmax_rows_gradient,
)  # fmt: skip
from jitgrad.kernels.program.dependences import Access, Launch, Span, span_of
from jitgrad.kernels.program.fused_kernel import FusedKernel
from jitgrad.kernels.program.order import Order
from jitgrad.kernels.split_call import SplitCall

__all__ = ["Block", "RowBlocks", "in_row_blocks"]

# Bytes of all arrays' rows of a block, for the second-level cache, and of all rows from which blocks pay.
BLOCK_BYTES, BLOCKED_BYTES = 1 << 20, 1 << 22
# Elements of a row from which a fused loop may go row by row.
_ROW_SIZE = 64
# Loops that write all of their outputs and read none: their outputs' memory need not have been there before.
_OVERWRITING = (
    normalize_rows, row_gradient, row_gradients, sum_rows, softmax_rows, softmax_rows_gradient, log_softmax_rows,
    log_softmax_rows_gradient,
)  # fmt: skip
# Those whose last two outputs are sums of rows, by chunks; and which of their other arguments have such rows.
_WITH_SUMS = {row_sums: (0, 1, 2, 3), row_gradients: (0, 1, 2, 3, 6)}


class Cut(NamedTuple):
    """An argument of which a block gets a part: of an axis ``per`` for each row or, ``once``, for each block."""

    position: int
    per: int = 1
    axis: int = 0
    once: bool = False


class Member(NamedTuple):
    """A launch of which each block does a part, the other arguments being the same for all."""

    kernel: Kernel
    args: tuple[Any, ...]
    cuts: tuple[Cut, ...]


class Block(NamedTuple):
    """Blocks that follow one another: the number of the first, its first row, rows of each, how many there are."""

    number: int
    first: int
    rows: int
    times: int


class RowBlocks(Kernel):
    """A kernel that does its members' launches block by block.

    rows: of all members. block: rows of a block. inside: memory that no one else needs. args: all arguments of the
    members but arrays in that memory.
    """

    __slots__ = ("args", "block", "inside", "members", "rows")

    def __init__(self, members: Sequence[Member], rows: int, block: int, inside: frozenset[Span]):
        given = [(a, k in m.kernel.writes) for m in members for k, a in enumerate(m.args)]
        given = [(a, w) for a, w in given if not isinstance(a, np.ndarray) or span_of(a) not in inside]
        self.args = tuple(a for a, _ in given)
        writes = tuple(k for k, (_, written) in enumerate(given) if written)
        super().__init__(f"row_blocks({', '.join(m.kernel.name for m in members)})", self._run, writes)
        self.members, self.rows, self.block, self.inside = tuple(members), rows, block, inside

    def blocks(self, parts: int) -> list[Block]:
        """All blocks, in up to so many parts of equal size, and one with the rest."""
        count = self.rows // self.block
        edges = [count * k // parts for k in range(parts + 1)]
        found = [Block(a, a * self.block, self.block, b - a) for a, b in zip(edges, edges[1:], strict=False) if b > a]
        rest = self.rows % self.block
        return [*found, Block(count, count * self.block, rest, 1)] if rest else found

    def calls(self, block: Block) -> Iterator[tuple[Any, list[Any], list[int]]]:
        """(compiled function, arguments for the first of some blocks, bytes from there to the next for each array)."""
        buffers: dict[Span, np.ndarray[Any, Any]] = {}
        for kernel, args, cuts in self.members:
            given, steps = list(args), [0] * len(args)
            for position, per, axis, once in cuts:
                array = args[position]
                first, size = (block.number, 1) if once else (block.first, block.rows)
                part = array[(slice(None),) * axis + (slice(first * per, (first + size) * per),)]
                span = span_of(array)
                if span in self.inside:
                    if span not in buffers:
                        buffers[span] = np.empty(part.size, array.dtype)
                    given[position] = buffers[span].reshape(part.shape)
                else:
                    given[position], steps[position] = part, size * per * array.strides[axis]
            arrays = [k for k, a in enumerate(args) if isinstance(a, np.ndarray)]
            yield _serial(kernel, args), given, [steps[k] for k in arrays]

    def _run(self, *args: Any) -> None:
        for block in self.blocks(self.rows):
            for run, given, _ in self.calls(block):
                run(*given)


def _serial(kernel: Kernel, args: Sequence[Any]) -> Any:
    """The compiled function of a kernel that is run by one thread."""
    if isinstance(kernel, Loop):
        return kernel.variant(args[kernel.dtype_from].dtype)
    return kernel.call.run if isinstance(kernel.call, SplitCall) else kernel.call


def in_row_blocks(
    launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Callable[[int, int], bool]
) -> list[Launch]:
    """The launches, those together that can be done block by block; the arguments are those of `Order`."""
    return _Blocks(launches, every, needed).launches()


class _Blocks(Order):
    def __init__(self, launches: Sequence[Launch], every: Sequence[Sequence[Access]], needed: Any):
        self.rows = [_row_count(made) for made in launches]
        self.sizes = [_size(made) for made in launches]
        late = [bool(r or n) for r, n in zip(self.rows, self.sizes, strict=True)]
        if _bytes(every) < BLOCKED_BYTES:
            late = [False] * len(launches)
        super().__init__(launches, every, needed, late)

    def group(self, first: int) -> list[int]:
        """The launches that can be done on the rows of one of them, the first that has rows of its own."""
        best = [first]
        for rows in dict.fromkeys(r for n in self.left if (r := self.rows[n])):
            group = self._on_rows(first, rows)
            if len(group) > len(best) and _bytes(self.every[n] for n in group) >= BLOCKED_BYTES:
                best = group
        return best

    def _on_rows(self, first: int, rows: int) -> list[int]:
        if not self._has_rows(first, rows):
            return [first]
        group, last, size = {first: None}, dict[int, None](), 0
        while len(group) > size:
            size = len(group)
            for number in self.left:
                if number not in group and self._has_rows(number, rows) and self.fits(number, group, True):
                    group[number] = None
        for number in self.left:
            if number not in group and _summed(self.given[number], rows) and self.fits(number, group, True):
                last[number] = None
        found = self.connected(first, [*group, *last])
        return found if any(self.rows[n] == rows for n in found) else [first]

    def _has_rows(self, number: int, rows: int) -> bool:
        size = self.sizes[number]
        return self.rows[number] == rows or (size is not None and size % rows == 0)

    def joined(self, group: list[int]) -> list[Launch]:
        """The launch of RowBlocks, and those that add up the sums of its blocks."""
        rows = next(self.rows[n] for n in group if self.rows[n])
        assert rows is not None
        wanted = BLOCK_BYTES * rows // _bytes(self.every[n] for n in group)
        block = _rows_of_blocks([self.given[n] for n in group], rows, wanted)
        members, last = [], []
        for number in group:
            member, then = _member(self.given[number], rows, -(-rows // block))
            members.append(member)
            last += then
        kernel = RowBlocks(members, rows, block, self._inside(group))
        return [Launch(kernel, kernel.args, []), *last]

    def _inside(self, group: Sequence[int]) -> frozenset[Span]:
        """Memory that is first written in the group, and that nothing else needs."""
        every = [(n, a) for n in group for a in self.every[n]]
        spans: dict[Span, bool] = {}
        for number, access in every:
            if access.span is not None:
                spans.setdefault(access.span, access.writes and _overwrites(self.given[number].kernel))
        return frozenset(
            s for s, overwritten in spans.items()
            if overwritten and not self.read_later(s.low, s.low + s.size * s.dtype.itemsize)
            and all(a.span == s or a.high <= s.low or s.low + s.size * s.dtype.itemsize <= a.low for _, a in every)
        )  # fmt: skip


def _bytes(every: Iterable[Sequence[Access]]) -> int:
    """Bytes of the memory that launches visit in order, each counted once."""
    spans = {a.span for found in every for a in found if a.span}
    return sum(s.size * s.dtype.itemsize for s in spans)


def _overwrites(kernel: Kernel) -> bool:
    return isinstance(kernel, (ElementwiseKernel, FusedKernel)) or kernel in _OVERWRITING


def _row_count(launch: Launch) -> int | None:
    """The number of rows of a launch that threads could share by them."""
    kernel, args = launch.kernel, launch.args
    if launch.checks or not isinstance(kernel, Loop) or not kernel.split or kernel.pieces is not None:
        return None
    if not all(isinstance(a, (np.ndarray, int, float)) for a in args):  # what entries can be given
        return None
    if kernel is row_gradients:
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        return math.prod(args[0].shape[:2]) if all(a.flags.c_contiguous for a in arrays) else None
    arrays = [args[k] for k in kernel.split]
    rows = arrays[0].shape[0] if arrays[0].ndim else 0
    same = all(a.ndim and a.shape[0] == rows and a.flags.c_contiguous and a.size for a in arrays)
    return rows if same and rows > 1 else None


def _size(launch: Launch) -> int | None:
    """The number of elements of a launch that visits contiguous memory in order."""
    kernel, args = launch.kernel, launch.args
    if isinstance(kernel, FusedKernel) and not kernel.loop.by_rows:
        return args[0].size
    if isinstance(kernel, ElementwiseKernel) and not isinstance(kernel, StridedKernel):
        return args[kernel.writes[0]].size or None
    return None


def _summed(launch: Launch, rows: int) -> bool:
    """Whether a launch adds up what is computed row by row, in a way that blocks can."""
    kernel, args = launch.kernel, launch.args
    x = args[0]
    if launch.checks or not isinstance(x, np.ndarray) or x.dtype.kind != "f" or not x.flags.c_contiguous:
        return False
    if kernel is sum_rows:
        return x.size % rows == 0 and rows % x.shape[0] == 0
    if kernel is sum_columns:
        return x.shape[:2] == (1, rows)
    if kernel is row_sums:
        return x.shape[0] * x.shape[1] == rows and all(a.flags.c_contiguous for a in args)
    return False


def _rows_of_blocks(launches: Sequence[Launch], rows: int, wanted: int) -> int:
    """Rows of a block, about as many as wanted, such that no block has rows of two chunks that are summed apart."""
    shapes = [m.args[0].shape for m in launches if m.kernel in _WITH_SUMS]
    chunks = math.gcd(*[shape[1] for shape in shapes if shape[0] > 1])
    if not chunks:
        return max(1, min(rows, wanted))
    return max(n for n in range(1, max(1, min(chunks, wanted)) + 1) if chunks % n == 0)


def _member(launch: Launch, rows: int, blocks: int) -> tuple[Member, list[Launch]]:
    """A launch as a member, and the launches that have to follow."""
    kernel, args, _ = launch
    if kernel in _WITH_SUMS and math.prod(args[0].shape[:2]) == rows:
        *given, for_weight, for_bias = args
        chunks, *sizes = for_weight.shape
        parts = [np.empty((blocks, *sizes), a.dtype) for a in (for_weight, for_bias)]
        for k in _WITH_SUMS[kernel]:
            given[k] = given[k].reshape(1, rows, *given[k].shape[2:])
        if kernel is row_gradients:
            given[5] = False  # a block's rows may be read next
        cuts = [Cut(k, axis=1) for k in _WITH_SUMS[kernel]] + [Cut(len(given) + k, once=True) for k in range(2)]
        return Member(kernel, (*given, *parts), tuple(cuts)), [
            Launch(sum_columns, (p.reshape(chunks, blocks // chunks, -1), a.reshape(chunks, -1)), [])
            for p, a in zip(parts, (for_weight, for_bias), strict=True)
        ]
    if isinstance(kernel, Loop) and _row_count(launch) == rows:
        return Member(kernel, args, tuple(Cut(k) for k in kernel.split)), []
    if kernel is sum_rows:
        x, out = args
        part = np.empty(rows, out.dtype)
        return Member(kernel, (x.reshape(rows, -1), part), (Cut(0), Cut(1))), [
            Launch(kernel, (part.reshape(out.size, -1), out), [])
        ]
    if kernel is sum_columns:
        x, out = args
        part = np.empty((blocks, out.shape[1]), out.dtype)
        return Member(kernel, (x, part), (Cut(0, axis=1), Cut(1, once=True))), [Launch(kernel, (part[None], out), [])]
    size = _size(launch)
    walked = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and a.size == size]
    return Member(kernel, args, tuple(Cut(k, a.size // rows) for k, a in enumerate(args) if k in walked)), []
