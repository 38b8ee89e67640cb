"""What an error in the middle of a run leaves behind: gradients that are not there, and writes that were done."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from jitgrad.compiler.notes import TensorNote
from jitgrad.compiler.program import Stretches, for_each, without_gradient
from jitgrad.compiler.recording import Change
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import Launch, Program, extent_of

__all__ = ["after_failure"]


def after_failure(
    changes: Iterable[Change], note_of: Callable[[Tensor], TensorNote], moves: Callable[[TensorNote], bool],
    here: Callable[[Change], str], stretches: Stretches, program: Program,
) -> tuple[list[str], Callable[[Tensor, int, Sequence[int]], None]]:  # fmt: skip
    """Lines for what was raised in a run, and ``count`` that they call.

    here: the expression of the tensor that a change is of.
    """
    lines = without_gradient([here(c) for c in changes if c.new_grad and not moves(note_of(c.tensor))])
    rows = [(row, *extent) for row, made in stretches.ends for extent in _written(made)]
    written = np.array(rows, np.int64).reshape(-1, 3)
    counts = [
        f"({here(change)}, {change.writes}, {tuple(ends)})"
        for change in changes if change.writes and (ends := _ends(note_of(change.tensor), written))
    ]  # fmt: skip
    lines += [f"{line} count(t, writes, ends)" for line in for_each("t, writes, ends", counts)]

    def count(tensor: Tensor, writes: int, ends: Sequence[int]) -> None:
        for _ in range(min(writes, bisect_right(ends, program.reached))):
            count_write(tensor)

    return [f"    {line}" for line in lines], count


def _written(made: Launch) -> Iterator[tuple[int, int]]:
    """Where the arrays are that a launch writes to."""
    for w in made.kernel.writes:
        if isinstance(a := made.args[w], np.ndarray):
            yield extent_of(a)


def _ends(note: TensorNote, written: np.ndarray) -> list[int]:
    """Behind which rows a launch is done that has written to a tensor. written: (row, low, high) for each array."""
    if not note.layout.numel:
        return []
    (low, high), (rows, lows, highs) = extent_of(note.data), written.T
    return list(dict.fromkeys(rows[(lows < high) & (low < highs)].tolist()))
