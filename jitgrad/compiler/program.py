"""Recorded launches as a program, and the text that replays have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.guards import Names
from jitgrad.compiler.memory import Memory, Temporaries, written_roots
from jitgrad.compiler.notes import Action
from jitgrad.compiler.numbers import was_read
from jitgrad.core.inference import Untracked, is_inference
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import Builder, Launch, Passes, Program, address_of, improved, is_on_device

__all__ = ["Stretches", "View", "bare_tensor", "new_tensor", "view_of"]


class Stretches:
    """Launches, improved, in stretches between what Python does."""

    def __init__(
        self, launches: Sequence[Launch], actions: Sequence[Action], temporaries: Temporaries, passes: Passes,
        constants: set[int] | frozenset[int] = frozenset(),
    ):  # fmt: skip
        """constants: ids of arrays that are there already, so that what writes them is left out."""
        starts = [0, *sorted({action.launch for action in actions})]
        parts = [launches[start:end] for start, end in zip(starts, [*starts[1:], len(launches)], strict=True)]
        if constants:
            parts = [[made for made in part if constants.isdisjoint(written_roots([made]))] for part in parts]
        self.parts = improved(parts, temporaries.keeps, passes)
        self.ends: list[tuple[int, Launch]] = []  # of the launches in `program`: the row behind, and what they are
        self._actions = [[], *([a for a in actions if a.launch == start] for start in starts[1:])]

    def __iter__(self) -> Iterator[Launch]:
        for part in self.parts:
            yield from part

    def program(self, initial: dict[int, tuple[Any, Any, int]], memory: Memory, timed: bool = False) -> Program:
        """The program of the launches, and what Python does between them.

        initial: memory that Python's numbers were put in, and what it held at first: it gets these numbers again in
        every run if launches write to it. timed: whether each row of it is timed.
        """
        builder = Builder(memory.locate, timed)
        flags = {id(root_of(found)): root_of(found) for made in self for found, *_ in made.checks}
        written = written_roots(self)
        left = {k: found for k, found in initial.items() if k in written or memory.locate(found[0]).slot is not None}
        for actions, part in zip(self._actions, self.parts, strict=True):
            for action in actions:
                _act(builder, action)
            for made in part:
                for root in [root_of(a) for a in made.args if isinstance(a, np.ndarray)]:
                    if id(root) in flags:
                        builder.clear(root)
                    if id(root) in left:
                        builder.restore(root, left.pop(id(root))[1])
                builder.launch(made.kernel, made.args)
                self.ends.append((len(builder.rows), made))
                for check in made.checks:
                    builder.check(*check)
        return builder.finish()


def _act(builder: Builder, action: Action) -> None:
    call, kwargs, reads = action.call, action.kwargs, [was_read(a) for a in action.args]
    args = [builder.stand_in(a.tensor._data) if read else a for a, read in zip(action.args, reads, strict=True)]

    def act(*args: Any) -> None:
        call(*[a.item() if read else a for a, read in zip(args, reads, strict=True)], **kwargs)

    builder.host(act, *args)


class View(NamedTuple):
    """An array as a part of the memory of another one, whose dims have to be in the order of that memory.

    order: of the dims, None if they are; offset and strides: in bytes.
    """

    shape: tuple[int, ...]
    dtype: Any
    order: tuple[int, ...] | None
    offset: int
    strides: tuple[int, ...]

    def of(self, array: Any) -> Any:
        """That part of an array."""
        whole = array if self.order is None else array.transpose(self.order)
        return np.ndarray(self.shape, self.dtype, whole, self.offset, self.strides)

    def text(self, array: str, name: Names) -> str:
        """That part of the array that an expression is."""
        whole = array if self.order is None else f"{array}.transpose({name(self.order)})"
        return f"ndarray({name(self.shape)}, {name(self.dtype)}, {whole}, {self.offset}, {name(self.strides)})"


def view_of(data: np.ndarray[Any, Any], start: int, whole: np.ndarray[Any, Any] | None = None) -> View:
    """What an array is of another one, ``whole`` if that is known, whose memory begins at ``start``."""
    order = None
    if whole is not None and not whole.flags.c_contiguous:
        order = tuple(sorted(range(whole.ndim), key=lambda d: -whole.strides[d]))
    return View(data.shape, data.dtype, order, address_of(data) - start, data.strides)


def bare_tensor(kind: type[Tensor], layout: Layout, data: Any) -> Tensor:
    """A tensor of a class, outside the graph, that is announced to no observer: the text's ``tensor``."""
    made = object.__new__(kind)
    made._layout, made._data = layout, data
    return made


def new_tensor(
    variable: str, tensor: Tensor, buffer: str, start: int, name: Names, lines: list[str], whole: Any = None
) -> str:
    """Add the lines that make a tensor as the recorded one, on memory that begins, in the recording, at ``start``.

    buffer: the expression of the array that it is part of, or all of if its array is ``whole``. Returns ``variable``.
    """
    data, array = tensor._data, buffer
    if is_on_device(data):
        item, layout = data.itemsize, tensor._layout
        steps, offset = tuple([s // item for s in data.strides]), (address_of(data) - start) // item
        array = f"{buffer}.restrided({name(layout.shape)}, {name(steps)}, {offset}, {name(data.dtype)})"
    elif data is not whole:
        array = view_of(data, start, whole).text(buffer, name)
    lines.append(f"{variable} = tensor({name(type(tensor))}, {name(tensor._layout)}, {array})")
    if tensor._requires_grad:
        lines.append(f"{variable}._requires_grad = True")
    if is_inference(tensor):
        lines.append(f"{variable}._counter = {name(Untracked)}()")
    elif tensor._counter[0]:
        lines.append(f"{variable}._counter = [{tensor._counter[0]}]")
    return variable
