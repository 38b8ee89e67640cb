"""Where the arrays of a recording lie when its program runs."""

from __future__ import annotations

import sys
from bisect import bisect
from typing import Any

import numpy as np

from jitgrad.compiler.guards import Names, NotReplayable
from jitgrad.compiler.notes import TensorNote
from jitgrad.compiler.recording import Recording, root_of
from jitgrad.core.block_pool import MIN_BYTES
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import Place

__all__ = ["Fresh", "Memory", "address_of"]


def address_of(a: np.ndarray[Any, Any]) -> int:
    """The address of an array's first element."""
    return int(a.__array_interface__["data"][0])


def extent_of(a: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last; strides are not negative."""
    low = address_of(a)
    if a.size == 0:
        return low, low
    return low, low + sum((n - 1) * abs(s) for n, s in zip(a.shape, a.strides, strict=True)) + a.itemsize


class Fresh:
    """Memory that every run makes anew, since tensors that are on it outlive the run."""

    def __init__(self, root: np.ndarray[Any, Any], number: int):
        self.root, self.name = root, f"fresh{number}"
        self.address, self.end = extent_of(root)

    def allocation(self, name: Names) -> str:
        """The line that makes it."""
        root = self.root
        if root.flags.c_contiguous and root.nbytes < MIN_BYTES:
            return f"{self.name} = empty({name(root.shape)}, {name(root.dtype)})"
        strides = "None" if root.flags.c_contiguous else name(root.strides)
        if root.nbytes < MIN_BYTES:
            return f"{self.name} = ndarray({name(root.shape)}, {name(root.dtype)}, None, 0, {strides})"
        return f"{self.name} = large({name(root.shape)}, {name(root.dtype)}, {root.nbytes}, {strides})"


class Memory:
    """Memory of a recording: of results and new gradients, of arguments and gradients that are there, and all other.

    The first is made anew for every run, the second is wherever the tensors of the call have theirs; each is a slot of
    the program, bound to the array that is the value of the expression ``slots[k]``. All other memory stays.
    """

    def __init__(self, recording: Recording, name: Names):
        self.recording, self.notes, self.name = recording, recording.notes, name
        self.slots: list[str] = []
        self.fresh: list[Fresh] = []
        self._slot_of: dict[int, int] = {}
        self._known = [(*extent_of(n.data), n) for n in self.notes.tensors.values() if n.layout.numel]
        self._numbers = {id(leaf): k for k, leaf in enumerate(recording.leaves)}
        self._find_fresh()
        self._temporary = self._find_temporary()

    def _find_fresh(self) -> None:
        escaping = [r for r in self.recording.results if isinstance(r, Tensor) and id(r) not in self.notes.tensors]
        escaping += [c.grad for c in self.recording.changes if c.new_grad and c.grad is not None]
        written = {
            id(root_of(made.args[w]))
            for made in self.recording.launches for w in made.kernel.writes if isinstance(made.args[w], np.ndarray)
        }  # fmt: skip
        for tensor in escaping:
            root = root_of(tensor._data)
            if any(f.root is root for f in self.fresh):
                continue
            if self._note_at(address_of(root)) is not None:
                raise NotReplayable("it returns a view of a tensor from outside")
            if id(root) not in written and root.size:
                raise NotReplayable("it returns a tensor that no kernel has written")
            self.fresh.append(Fresh(root, len(self.fresh)))
            self.slots.append(self.fresh[-1].name)

    def _find_temporary(self) -> list[tuple[int, int]]:
        """The memory that only tensors have which the recording made and nobody gets."""
        made = [t._data for t in self.notes.created.values() if t._level is None]  # without those of transforms
        roots = {id(root): root for data in made if type(root := root_of(data)) is np.ndarray}
        found = [extent_of(root) for root in roots.values() if not any(f.root is root for f in self.fresh)]
        outside = sorted((low, high) for low, high, _ in self._known)
        lows = [low for low, _ in outside]
        return sorted(
            (low, high) for low, high in found
            if not ((k := bisect(lows, high - 1)) and outside[k - 1][1] > low)
        )  # fmt: skip

    def keeps(self, low: int, high: int) -> bool:
        """Whether what is in this range of addresses is needed after the program."""
        number = bisect(self._temporary, (low, sys.maxsize)) - 1
        return number < 0 or self._temporary[number][1] < high

    def fresh_of(self, tensor: Tensor) -> Fresh:
        """The memory of a result or a new gradient."""
        root = root_of(tensor._data)
        return next(f for f in self.fresh if f.root is root)

    def _note_at(self, address: int) -> TensorNote | None:
        return next((n for low, high, n in self._known if low <= address < high), None)

    def locate(self, array: np.ndarray[Any, Any]) -> Place:
        """Where an array of the recording lies when the program runs."""
        address = address_of(array)
        for number, fresh in enumerate(self.fresh):
            if fresh.address <= address < fresh.end:
                return Place(number, address - fresh.address)
        note = self._note_at(address)
        if note is not None and self.moves(note):
            if id(note) not in self._slot_of:
                self._slot_of[id(note)] = len(self.slots)
                self.slots.append(f"{self.expression(note)}._data")
            return Place(self._slot_of[id(note)], address - address_of(note.data))
        return Place(None, address)

    def moves(self, note: TensorNote) -> bool:
        """Whether the tensor may lie elsewhere in the next run: arguments and gradients."""
        return note.owner is not None or id(note.tensor) in self._numbers

    def expression(self, note: TensorNote) -> str:
        """What a tensor that was there before is called in the text of the replay."""
        if id(note.tensor) in self._numbers:
            return f"a{self._numbers[id(note.tensor)]}"
        return f"g{self.name(note.owner)}" if note.owner is not None else self.name(note.tensor)
