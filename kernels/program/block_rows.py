"""Launches that are run block by block as rows of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jitgrad.kernels import threads
from jitgrad.kernels.program.executor import code
from jitgrad.kernels.program.row_blocks import Block, RowBlocks

if TYPE_CHECKING:
    from jitgrad.kernels.program.builder import Builder

__all__ = ["TableRow", "add_row_blocks"]


class TableRow(NamedTuple):
    """What a program runs: an entry's address, and the number of the first of its words."""

    entry: int
    words: int


def add_row_blocks(builder: Builder, kernel: RowBlocks) -> None:
    """Add what a launch of ``kernel`` does, shared among threads."""
    count = threads.get_num_threads()
    if count == 1:
        builder.rows += [_blocks(builder, kernel, block) for block in kernel.blocks(1)]
    else:  # more parts than threads, for one that comes late
        parts = [_blocks(builder, kernel, block) for block in kernel.blocks(2 * count)]
        builder.together(parts, threads.helpers_for(count))


def _blocks(builder: Builder, kernel: RowBlocks, block: Block) -> TableRow:
    """A row that does all blocks of one part."""
    rows, moves = [], []
    for run, args, steps in kernel.calls(block):
        first = len(builder.arrays)
        rows.append(builder.serial(run, args))
        moves += [(word, step) for word, step in zip(builder.arrays[first:], steps, strict=True) if step]
    table, begin = builder.table(rows), len(builder.words)
    for word, step in moves:
        builder.address_of_word(word)
        builder.words.append(step)
    start = len(builder.words)
    builder.words += [0, 0, block.times]
    builder.address_of_word(table)
    builder.words.append(len(rows))
    builder.address_of_word(begin)
    builder.address_of_word(start)
    return TableRow(code()["blocks"], start)
