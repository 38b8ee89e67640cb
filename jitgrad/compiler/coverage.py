"""Which elements of new memory launches have written, as long as that isn't all of it.

Uninitialised memory that launches fill part by part, as they do for ``cat``, held nothing that a run would need.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jitgrad.compiler.addresses import root_of
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.program import address_of, extent_of, written_elements

__all__ = ["Coverage"]


class _Part(NamedTuple):
    root: weakref.ref[Any]
    written: np.ndarray  # a bool for each element, in the order of memory
    launch: int  # the number of the first that wrote to it


class Coverage:
    """The elements written so far of arrays that launches have written in part and not read."""

    def __init__(self) -> None:
        self._parts: dict[int, _Part] = {}  # by id of the array

    def discard(self, key: int) -> None:
        """Forget an array: its id may be another one's."""
        self._parts.pop(key, None)

    def add(self, launch: int, kernel: Kernel, args: tuple[Any, ...], position: int) -> bool:
        """Note what a launch, number ``launch``, writes to an argument; False if it isn't known which elements."""
        array, root = args[position], root_of(args[position])
        low, high = extent_of(root)
        found = written_elements(kernel, args, position)
        if found is None or array.itemsize != root.itemsize or high - low != root.nbytes:
            return False
        if id(root) not in self._parts:
            self._parts[id(root)] = _Part(weakref.ref(root), np.zeros(root.size, bool), launch)
        behind = self._parts[id(root)].written[(address_of(array) - low) // root.itemsize :]
        shape, strides = found
        np.lib.stride_tricks.as_strided(behind, shape, [s // root.itemsize for s in strides])[...] = True
        return True

    def first_launch(self, root: Any, other: int) -> int:
        """The number of the launch that first wrote to an array, ``other`` if none did."""
        part = self._parts.get(id(root))
        return other if part is None else part.launch

    def is_whole(self, root: Any) -> bool:
        """Whether all of an array has been written."""
        part = self._parts.get(id(root))
        return part is not None and bool(part.written.all())

    def others(self) -> Iterator[Any]:
        """The arrays that are still there and have not been written as a whole."""
        for part in self._parts.values():
            root = part.root()
            if root is not None and not part.written.all():
                yield root
