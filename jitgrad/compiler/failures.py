"""What an error in the middle of a run leaves behind: gradients that are not there, and writes that were done."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from jitgrad.compiler.memory import meet
from jitgrad.compiler.notes import TensorNote
from jitgrad.compiler.program import Stretches
from jitgrad.compiler.recording import Change
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import Program, extent_of

__all__ = ["after_failure"]


def after_failure(
    changes: Iterable[Change], note_of: Callable[[Tensor], TensorNote], moves: Callable[[TensorNote], bool],
    here: Callable[[Change], str], stretches: Stretches, program: Program,
) -> tuple[list[str], Callable[[Tensor, int, Sequence[int]], None]]:  # fmt: skip
    """Lines for what was raised in a run, and ``count`` that they call.

    here: the expression of the tensor that a change is of.
    """
    lines = [f"    {here(c)}._grad = None" for c in changes if c.new_grad and not moves(note_of(c.tensor))]
    for change in changes:
        ends = _ends(note_of(change.tensor), stretches) if change.writes else []
        if ends:
            lines.append(f"    count({here(change)}, {change.writes}, {tuple(ends)})")

    def count(tensor: Tensor, writes: int, ends: Sequence[int]) -> None:
        for _ in range(min(writes, bisect_right(ends, program.reached))):
            count_write(tensor)

    return lines, count


def _ends(note: TensorNote, stretches: Stretches) -> list[int]:
    """Behind which rows a launch is done that has written to a tensor."""
    if not note.layout.numel:
        return []
    extent = extent_of(note.data)
    return [
        row for row, made in stretches.ends
        if any(isinstance(a := made.args[w], np.ndarray) and meet(extent_of(a), extent) for w in made.kernel.writes)
    ]  # fmt: skip
