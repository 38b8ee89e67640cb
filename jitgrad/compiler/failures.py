"""What an error in the middle of a run leaves behind: gradients that are not there, and writes that were done."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from jitgrad.compiler.program import Stretches
from jitgrad.compiler.recording import Change
from jitgrad.compiler.tensor_notes import TensorNote
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import Launch, Program, extent_of

__all__ = ["after_failure"]


def after_failure(
    changes: Iterable[Change], note_of: Callable[[Tensor], TensorNote], moves: Callable[[TensorNote], bool],
    here: Callable[[Change], str], stretches: Stretches, program: Program,
) -> tuple[list[str], dict[str, Callable[..., None]]]:  # fmt: skip
    """Lines for what was raised in a run, and by name the functions that they call.

    here: the expression of the tensor that a change is of, if ``moves``, whether it may be another one in each run.
    """
    changes = list(changes)
    rows = [(row, *extent) for row, made in stretches.ends for extent in _written(made)]
    written = np.array(rows, np.int64).reshape(-1, 3)
    lines, counts = list[str](), list[tuple[Tensor, int, list[int]]]()
    for change in [c for c in changes if c.writes]:
        if ends := _ends(note := note_of(change.tensor), written):
            if moves(note):
                lines.append(f"    count({here(change)}, {change.writes}, {ends})")
            else:
                counts.append((change.tensor, change.writes, ends))
    without = [c.tensor for c in changes if c.new_grad and not moves(note_of(c.tensor))]
    if without or lines or counts:
        lines.append("    fall_back()")

    def count(tensor: Tensor, writes: int, ends: Sequence[int]) -> None:
        done = bisect_right(ends, program.reached)
        for _ in range(writes if done == len(ends) else min(writes, done)):  # one row may be several writes
            count_write(tensor)

    def fall_back() -> None:
        for tensor in without:
            tensor._grad = None
        for row in counts:
            count(*row)
        program.forget_failure()

    return lines, {"count": count, "fall_back": fall_back}


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
