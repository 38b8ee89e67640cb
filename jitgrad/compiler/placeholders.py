"""Arrays that stand in recorded launches for memory of new tensors, so that it is freed when the function frees it.

Recorded launches are told apart by the addresses of their arrays, so no two that live at different times may have the
same one; if launches held the arrays themselves, all temporaries of a step would be there at once. A placeholder has an
address that nothing else gets, and memory that nothing is ever written to, so that the system never provides it.
What is there when the recording ends, such as a result, takes the place of its placeholder again.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.coverage import Coverage
from jitgrad.compiler.numbers import is_live
from jitgrad.kernels.device_array import Allocation
from jitgrad.kernels.program import Launch, address_of, extent_of, is_array

__all__ = ["CONSTANT_BYTES", "Placeholders"]

MIN_BYTES = 1 << 17  # of arrays that placeholders stand for
CONSTANT_BYTES = 1 << 20  # of an array of constants, at most: it stays, where it could share memory with others

_CHUNK = 1 << 26  # bytes that are asked for at once: more than any C library takes from what was used before
_LINE = 64


class _Root:
    """An array of which others are views: ``launches`` holds numbers of launches in which it has no placeholder yet."""

    def __init__(self, root: Any, died: weakref.WeakMethod[Callable[[int], None]]):
        """died: called with the array's id when it is freed.

        A weak reference: the method's object holds this one, and in a cycle launches would live until the collector
        runs.
        """
        key = id(root)

        def call(_: Any) -> None:
            if method := died():
                method(key)

        self.reference = weakref.ref(root, call)
        self.launches: list[int] = []
        self.placeholder: Any = None
        self.kept: Any = None


class Placeholders:
    """The placeholders of a recording's launches.

    ``announced``: ids of the memory of new tensors, those of their placeholders included. initial: ids of memory whose
    first contents are kept. forgetting: what is known by ids, from which that of memory is taken when it is freed.
    """

    def __init__(self, launches: list[Launch], initial: Collection[int], forgetting: Iterable[set[int] | Coverage]):
        self.launches, self.announced, self._initial, self._forgetting = launches, set[int](), initial, forgetting
        self._roots: dict[int, _Root] = {}
        self._small: list[Any] = []
        self._constant: set[int] = set()  # ids of memory that holds what is computed of constants, perhaps
        self._chunk, self._used = np.empty(0, np.uint8), 0

    def announce(self, root: Any) -> None:
        """Note that an array, or an allocation on a device, is the memory of a new tensor."""
        self.announced.add(id(root))
        if root.nbytes < MIN_BYTES:
            self._small.append(root)
        elif (found := self._root(root)).launches:
            self._decide(found, root)

    def launched(self) -> None:
        """Note the last launch of the list."""
        number = len(self.launches) - 1
        made = self.launches[number]
        roots = {k: root_of(a) for k, a in enumerate(made.args) if is_array(a)}
        self._note_constants(made, roots)
        for root in {id(r): r for r in roots.values() if r.nbytes >= MIN_BYTES}.values():
            found = self._root(root)
            found.launches.append(number)
            if id(root) in self.announced:
                self._decide(found, root)

    def restore(self) -> None:
        """Put arrays that are still there in the place of their placeholders; from now on they stay."""
        there: dict[int, Any] = {}
        for found in list(self._roots.values()):
            root = found.reference()
            if root is not None and found.placeholder is not None:
                there[id(found.placeholder)] = root
                found.kept, found.placeholder = root, None
        if there:
            for number in range(len(self.launches)):
                self._replace(number, there)

    # -- one array ----------------------------------------------------------------------------------------

    def _root(self, root: Any) -> _Root:
        found = self._roots.get(id(root))
        if found is None:
            found = self._roots[id(root)] = _Root(root, weakref.WeakMethod(self._died))
        return found

    def _died(self, key: int) -> None:
        self._roots.pop(key, None)
        self.announced.discard(key)
        self._constant.discard(key)
        for those in self._forgetting:  # another array may get its id
            those.discard(key)

    def _decide(self, found: _Root, root: Any) -> None:
        """Let an array be replaced in launches so far, unless what is in it may be asked for later."""
        asked_for = id(root) in self._initial or id(root) in self._constant
        if found.kept is None and (asked_for or not _is_dense(root)):
            found.kept = root
        if found.kept is None:
            if found.placeholder is None:
                found.placeholder = self._placeholder(root)
                self.announced.add(id(found.placeholder))
            for number in found.launches:
                self._replace(number, {id(root): found.placeholder})
        found.launches.clear()

    def _note_constants(self, made: Launch, roots: dict[int, Any]) -> None:
        """What `constants.constant_roots` will find, or more than that."""
        writes = set(made.kernel.writes)
        reads = {id(r) for k, r in roots.items() if k not in writes}
        constant = not any(map(is_live, made.args)) and all(k in self._initial or k in self._constant for k in reads)
        for k in writes & roots.keys():
            if constant and roots[k].nbytes <= CONSTANT_BYTES:
                self._constant.add(id(roots[k]))
            else:
                self._constant.discard(id(roots[k]))

    def _replace(self, number: int, instead: dict[int, Any]) -> None:
        """Put views of other arrays in the place of those of the arrays whose ids these are."""
        if number >= len(self.launches):  # launches at the end have been left out since
            return
        made = self.launches[number]
        args = list(made.args)
        for k, a in enumerate(args):
            if is_array(a) and (other := instead.get(id(root := root_of(a)))) is not None:
                args[k] = _view(a, root, other)
        self.launches[number] = made._replace(args=tuple(args))

    def _placeholder(self, root: Any) -> Any:
        low, high = extent_of(root)
        size = -(-(high - low) // _LINE) * _LINE
        if self._used + size > self._chunk.nbytes:
            self._chunk = np.empty(max(size, _CHUNK) + _LINE, np.uint8)
            self._used = -address_of(self._chunk) % _LINE
        block: Any = (ctypes.c_char * size).from_buffer(self._chunk, self._used)  # type: ignore[arg-type]
        self._used += size
        if isinstance(root, Allocation):
            return _Reserved(root, block, address_of(self._chunk) + self._used - size)
        return np.ndarray(root.shape, root.dtype, block, 0, root.strides)


class _Reserved(Allocation):
    """Stands for memory on a device: it has an address, which is the CPU's, so that no device has it."""

    __slots__ = ("address", "block")

    address: int

    def __init__(self, of: Allocation, block: Any, address: int):
        self.key, self.nbytes, self.block, self.address = of.key, of.nbytes, block, address

    def __del__(self) -> None:
        """There is no memory to give back."""


def _is_dense(root: Any) -> bool:
    low, high = extent_of(root)
    return high - low == root.nbytes


def _view(a: Any, root: Any, other: Any) -> Any:
    """What ``a`` is of ``root``, of another array with the same layout."""
    if isinstance(root, Allocation):
        return a.on(other, a.offset)
    if a is root:
        return other
    order = sorted(range(other.ndim), key=lambda axis: -other.strides[axis])
    made = np.ndarray(a.shape, a.dtype, other.transpose(order), address_of(a) - address_of(root), a.strides)
    made.flags.writeable = a.flags.writeable
    return made
