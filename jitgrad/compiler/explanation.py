"""What is told of a compiled function: its recordings, what they depend on, and what their programs do."""

from __future__ import annotations

import html
import itertools
import linecache
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jitgrad.compiler.recording import Recording
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.launch import text_file
from jitgrad.kernels.program import Launch, accesses

if TYPE_CHECKING:
    from jitgrad.debug.picture import Picture

__all__ = ["Explanation", "Summary", "lines_title", "summary_of"]


class Summary(NamedTuple):
    """Of one recording: its arguments, launches before and after the passes, guards, bytes of temporaries, kernels.

    names: of the launches' kernels. touched: a row (launch, first address, end, whether it is read, and written) for
    each array of each launch. times: seconds of a run that each kernel takes, if runs are timed.
    """

    arguments: tuple[str, ...]
    recorded: int
    launches: int
    backward: int | None
    guards: int
    bytes_recorded: int
    bytes_planned: int
    kernels: dict[str, int]
    texts: tuple[str, ...]
    names: tuple[str, ...]
    touched: np.ndarray
    times: dict[str, float]

    def picture(self) -> Picture:
        """The launches of a run, and what flows between them."""
        from jitgrad.debug.picture import Arrow, Box, Picture

        boxes = [Box(f"n{k}", tuple(_lines(name))) for k, name in enumerate(self.names)]
        arrows = [Arrow(f"n{a}", f"n{b}") for a, b in _flows(self.touched)]
        return Picture(boxes, arrows, name="program")


class Explanation:
    """Printed, it says what became of a compiled function. ``recordings``: a Summary each; ``failures``: why others
    were not made, with the place in the program; ``parts``: the lines of each, and its Explanation."""

    def __init__(
        self, recordings: Sequence[Summary], failures: Sequence[tuple[str, str]],
        parts: Sequence[tuple[str, Explanation]] = (),
    ):  # fmt: skip
        self.recordings, self.failures, self.parts = list(recordings), list(failures), list(parts)

    def __str__(self) -> str:
        lines = [f"{len(self.recordings)} recording{'' if len(self.recordings) == 1 else 's'}"]
        for number, r in enumerate(self.recordings):
            lines.append(f"{number}: {', '.join(r.arguments) or 'no arguments'}")
            backward = f", backward of {r.backward}" if r.backward is not None else ""
            lines.append(f"   {r.recorded} launches recorded, {r.launches} run{backward}; {r.guards} guards")
            lines.append(f"   temporaries: {r.bytes_recorded:,} bytes recorded, {r.bytes_planned:,} in one block")
            lines.append("   " + ", ".join(f"{name} x {n}" if n > 1 else name for name, n in r.kernels.items()))
            total = sum(r.times.values())
            for name, seconds in sorted(r.times.items(), key=lambda pair: -pair[1]):
                lines.append(f"   {seconds * 1e6:10.1f} us {seconds / (total or 1):5.0%}  {name}")
        lines += [f"not recorded: {reason}" + (f" ({place})" if place else "") for reason, place in self.failures]
        for title, part in self.parts:
            lines += [f"part, {title}:", *(f"   {line}" for line in str(part).splitlines())]
        return "\n".join(lines)

    __repr__ = __str__

    def pictures(self) -> list[Picture]:
        """For each recording its launches and what flows between them."""
        return [*(r.picture() for r in self.recordings), *(p for _, part in self.parts for p in part.pictures())]

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>" + "".join(p._repr_svg_() or "" for p in self.pictures())

    def source(self) -> str:
        """The text of the loops that stand for several launches."""
        return "\n".join(dict.fromkeys(self._texts()))

    def _texts(self) -> Iterator[str]:
        yield from (text for r in self.recordings for text in r.texts)
        for _, part in self.parts:
            yield from part._texts()


def lines_title(lines: tuple[int, int]) -> str:
    """What lines of a file are called."""
    return f"line {lines[0]}" if lines[0] == lines[1] else f"lines {lines[0]} to {lines[1]}"


def summary_of(
    recording: Recording, launches: Sequence[Launch], backward: int | None, bytes_recorded: int, bytes_planned: int
) -> Summary:
    """The Summary of a recording whose launches have become these."""
    before = {id(made.kernel) for made in recording.launches}
    fused = {id(made.kernel): made.kernel for made in launches if id(made.kernel) not in before}
    texts = [_text_of(kernel) for kernel in fused.values()]
    return Summary(
        tuple(_describe(leaf) for leaf in recording.leaves), len(recording.launches), len(launches), backward,
        len(recording.notes.guards) + len(recording.notes.tensors), bytes_recorded, bytes_planned,
        dict(Counter(made.kernel.name for made in launches)),
        tuple(text for text in texts if text),
        tuple(made.kernel.name for made in launches), _touched(launches), {},
    )  # fmt: skip


def _touched(launches: Sequence[Launch]) -> np.ndarray:
    """In an array, since it is kept with each recording and hardly ever asked for."""
    rows = [(k, a.low, a.high, a.reads, a.writes) for k, made in enumerate(launches) for a in accesses(made)]
    return np.array(rows, np.int64).reshape(-1, 5)


def _text_of(kernel: Any) -> str:
    """The text of a kernel that a pass has made; "" where it has none of its own."""
    if text := getattr(kernel.call, "text", ""):  # of a device's
        return text
    name = text_file(getattr(kernel.call, "run", kernel.call))
    return "".join(linecache.getlines(name)) if name else ""


def _flows(touched: np.ndarray) -> Iterator[tuple[int, int]]:
    """Pairs (writer, reader) of launches: the reader reads memory that the writer wrote last."""
    writers: list[tuple[int, int, int]] = []  # (low, high, launch), the last one first
    for number, rows in itertools.groupby(touched.tolist(), key=itemgetter(0)):
        found, before = list(rows), set()
        for low, high in [(low, high) for _, low, high, reads, _ in found if reads]:
            for start, end, writer in writers:
                if start < high and low < end:
                    before.add(writer)
                    if start <= low and high <= end:  # what was there earlier has been written over
                        break
        yield from ((writer, number) for writer in sorted(before))
        writers[:0] = [(low, high, number) for _, low, high, _, writes in found if writes]


def _lines(name: str) -> list[str]:
    """A kernel's name in a box: one that stands for several is shown by a line for each."""
    head, mark, rest = name.partition("(")
    parts = rest.removesuffix(")").split(", ") if mark else []
    return [head, *(f"{part} x {n}" if n > 1 else part for part, n in Counter(parts).items())]


def _describe(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"{leaf.dtype.name}{list(leaf.shape)}"
    return repr(leaf) if isinstance(leaf, (bool, int, float, str, type(None))) else type(leaf).__name__
