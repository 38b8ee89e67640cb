"""What is told of a compiled function: its recordings, what they depend on, and what their programs do."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.compiler.recording import Recording
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.launch import text_file
from jitgrad.kernels.program import Launch

__all__ = ["Explanation", "Summary", "summary_of"]


class Summary(NamedTuple):
    """Of one recording: its arguments, launches before and after the passes, guards, bytes of temporaries, kernels."""

    arguments: tuple[str, ...]
    recorded: int
    launches: int
    backward: int | None
    guards: int
    bytes_recorded: int
    bytes_planned: int
    kernels: dict[str, int]
    texts: tuple[str, ...]


class Explanation:
    """Printed, it says what became of a compiled function. ``recordings``: a Summary each; ``failures``: why others
    were not made, with the place in the program."""

    def __init__(self, recordings: Sequence[Summary], failures: Sequence[tuple[str, str]]):
        self.recordings, self.failures = list(recordings), list(failures)

    def __str__(self) -> str:
        lines = [f"{len(self.recordings)} recording{'' if len(self.recordings) == 1 else 's'}"]
        for number, r in enumerate(self.recordings):
            lines.append(f"{number}: {', '.join(r.arguments) or 'no arguments'}")
            backward = f", backward of {r.backward}" if r.backward is not None else ""
            lines.append(f"   {r.recorded} launches recorded, {r.launches} run{backward}; {r.guards} guards")
            lines.append(f"   temporaries: {r.bytes_recorded:,} bytes recorded, {r.bytes_planned:,} in one block")
            lines.append("   " + ", ".join(f"{name} x {n}" if n > 1 else name for name, n in r.kernels.items()))
        lines += [f"not recorded: {reason}" + (f" ({place})" if place else "") for reason, place in self.failures]
        return "\n".join(lines)

    __repr__ = __str__

    def source(self) -> str:
        """The text of the loops that stand for several launches."""
        return "\n".join(dict.fromkeys(text for r in self.recordings for text in r.texts))


def summary_of(
    recording: Recording, launches: Sequence[Launch], backward: int | None, bytes_recorded: int, bytes_planned: int
) -> Summary:
    """The Summary of a recording whose launches have become these."""
    before = {id(made.kernel) for made in recording.launches}
    fused = {id(made.kernel): made.kernel for made in launches if id(made.kernel) not in before}
    names = [text_file(getattr(kernel.call, "run", kernel.call)) for kernel in fused.values()]
    return Summary(
        tuple(_describe(leaf) for leaf in recording.leaves), len(recording.launches), len(launches), backward,
        len(recording.notes.guards) + len(recording.notes.tensors), bytes_recorded, bytes_planned,
        dict(Counter(made.kernel.name for made in launches)),
        tuple("".join(linecache.getlines(name)) for name in names if name),
    )  # fmt: skip


def _describe(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"{leaf.dtype.name}{list(leaf.shape)}"
    return repr(leaf) if isinstance(leaf, (bool, int, float, str, type(None))) else type(leaf).__name__
