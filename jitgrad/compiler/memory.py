"""Where the arrays of a recording lie when its program runs."""

from __future__ import annotations

import itertools
from bisect import bisect, insort
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.guards import Names, NotReplayable
from jitgrad.compiler.recording import Recording
from jitgrad.core.block_pool import MIN_BYTES, block_size, pool
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.cuda import provider as device_memory
from jitgrad.kernels.program import Launch, Place, Ranges, address_of, extent_of, is_array, is_on_device

__all__ = [
    "Block", "Fresh", "Memory", "Region", "Temporaries", "arena_offsets", "blocks_of", "fresh_of_tensors", "meet",
    "pairs_apart", "written_roots",
]

_ALIGNMENT = 64  # bytes: a cache line


class Region(NamedTuple):
    """Memory of the recording from ``low`` to ``high``: where that is when the program runs.

    At its distance from ``origin`` behind the array that ``slot``, an expression, is then; without a slot ``origin`` is
    what has to be subtracted from an address. ``block``: on a device, the allocation that it is a distance into then.
    """

    low: int
    high: int
    slot: str | None
    origin: int
    block: Any = None


class Memory:
    """Memory of a recording, by regions, which share none; all that is in none of them stays where it is.

    ``slots``: the expressions of the arrays that are bound for a run, in the order of the program's slots.
    """

    def __init__(self, regions: Iterable[Region]):
        self.regions = sorted((r for r in regions if r.low < r.high), key=lambda r: r.low)
        assert all(a.high <= b.low for a, b in itertools.pairwise(self.regions)), "regions share memory"
        self._lows = [r.low for r in self.regions]
        self._slots: dict[str, int] = {}

    @property
    def slots(self) -> list[str]:
        """The expressions of the arrays that are bound for a run, in the order of the program's slots."""
        return list(self._slots)

    def locate(self, array: Any) -> Place:
        """Where an array of the recording lies when the program runs."""
        address = address_of(array)
        number = bisect(self._lows, address) - 1
        if number < 0 or address >= self.regions[number].high:
            return Place(None, address)
        _, _, slot, origin, block = self.regions[number]
        bound = None if slot is None else self._slots.setdefault(slot, len(self._slots))
        return Place(bound, address - origin, block)


class Fresh:
    """Memory that every run makes anew, since tensors that are on it outlive the run."""

    def __init__(self, root: Any, name: str):
        self.root, self.name, self.on_device = root, name, is_on_device(root)
        self.address, self.end = extent_of(root)

    def region(self, slot: str | None = None) -> Region:
        """Where it is in a run: at the array of its name, or of another expression."""
        return Region(self.address, self.end, slot or self.name, self.address)

    def maker(self) -> Callable[[], Any]:
        """What makes it."""
        root = self.root
        if self.on_device:
            dtype, count = root.key
            return partial(device_memory.empty, (count,), dtype)
        strides = None if root.flags.c_contiguous else root.strides
        if root.nbytes >= MIN_BYTES:
            return partial(pool.array, root.shape, root.dtype, block_size(root.nbytes), strides)
        if strides is None:
            return partial(np.empty, root.shape, root.dtype)
        kind: Callable[..., Any] = np.ndarray
        return partial(kind, root.shape, root.dtype, None, 0, strides)

    def allocation(self, name: Names) -> str:
        """The line that makes it."""
        return f"{self.name} = {name(self.maker())}()"


class Block:
    """Memory that every call makes anew for temporaries that its backward reads: those of the CPU, or on a device."""

    def __init__(self, roots: Sequence[Any], name: str):
        self.roots, self.name, self._starts, self.nbytes = roots, name, list[int](), 0
        self.on_device = is_on_device(roots[0])
        for root in roots:
            self._starts.append(self.nbytes)
            self.nbytes += -(-root.nbytes // _ALIGNMENT) * _ALIGNMENT

    def regions(self, slot: str | None = None) -> list[Region]:
        """Where they are in a run: in the array of its name, or of another expression."""
        extents = [extent_of(root) for root in self.roots]
        return [Region(*e, slot or self.name, e[0] - at) for e, at in zip(extents, self._starts, strict=True)]

    def allocation(self, name: Names) -> str:
        """The line that makes it."""
        if self.on_device:
            return f"{self.name} = {name(partial(device_memory.empty, (self.nbytes,), np.dtype(np.uint8)))}()"
        return Fresh(np.empty(self.nbytes, np.uint8), self.name).allocation(name)


def blocks_of(roots: Sequence[Any]) -> list[Block]:
    """A block of memory for the temporaries on the CPU and one for those on a device, as far as there are any."""
    sides = [r for r in roots if not is_on_device(r)], [r for r in roots if is_on_device(r)]
    return [Block(side, f"block{k}") for k, side in enumerate(sides) if side]


def written_roots(launches: Iterable[Launch]) -> set[int]:
    """The ids of the arrays whose memory launches write to."""
    return {
        id(root_of(made.args[w])) for made in launches for w in made.kernel.writes
        if is_array(made.args[w])
    }  # fmt: skip


def fresh_of_tensors(
    tensors: Iterable[Tensor], recording: Recording, name: str, launches: Sequence[Launch]
) -> list[Fresh]:  # fmt: skip
    """The memory of new tensors that outlive a run of launches, once each, under names that begin with ``name``."""
    found: dict[int, Fresh] = {}
    written = written_roots(launches)
    outside = Ranges(extent_of(n.data) for n in recording.notes.tensors.values() if n.layout.numel)
    for tensor in tensors:
        root = root_of(tensor._data)
        if id(root) in found:
            continue
        address = address_of(root)
        if outside.meets(address, address + 1):
            raise NotReplayable("it returns a view of a tensor from outside")
        if id(root) not in written and root.nbytes and id(root) not in recording.initial:
            raise NotReplayable("it returns a tensor that no kernel has written")
        found[id(root)] = Fresh(root, f"{name}{len(found)}")
    return list(found.values())


def meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two ranges of addresses share one."""
    return a[0] < b[1] and b[0] < a[1]


def pairs_apart(
    known: Sequence[tuple[tuple[int, int], str]], written: set[int], places: dict[str, int]
) -> list[tuple[int, int, int, int, int, int]]:  # fmt: skip
    """Pairs of tensors from outside that share no memory, for `Beginning.refuse_overlap`.

    known: (extent, expression of the array) of each; written: the numbers of those that are written to, of which a pair
    has one or two; places: where the arrays that move from run to run are bound, of which it has one or two as well.
    """
    pairs = []
    moving = [(k, here, places[slot]) for k, (here, slot) in enumerate(known) if slot in places]
    for k, here, place in moving:
        for j, (there, other) in enumerate(known):
            at = places.get(other, -1)
            if k == j or (at >= 0 and j < k) or not {k, j} & written or meet(here, there):
                continue
            end = (0, there[1] - there[0]) if at >= 0 else there
            pairs.append((place, 0, here[1] - here[0], at, *end))
    return pairs


# -- temporaries ----------------------------------------------------------------------------------------


def arena_offsets(roots: Sequence[tuple[Any, int, int]]) -> tuple[list[int], int]:
    """(offset of each array, bytes in all) of a block in which arrays share memory whose lives don't meet.

    roots: (array, number of the first launch that uses it, number of the last). The largest comes first, and each gets
    the first gap among those that live at any of its time: small ones fill what large ones leave. That took 0 to 11 %
    more than what lives at one time, in steps of networks; in the order of their lives, up to 19 %.
    """
    sizes = [-(-max(root.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT for root, _, _ in roots]
    offsets, placed, top = [0] * len(roots), list[tuple[int, int, int, int]](), 0
    for number in sorted(range(len(roots)), key=lambda k: (-sizes[k], roots[k][1])):
        size, (_, first, last), at = sizes[number], roots[number], 0
        for start, end, other_first, other_last in placed:
            if other_first <= last and first <= other_last:
                if at + size <= start:
                    break
                at = max(at, end)
        offsets[number] = at
        insort(placed, (at, at + size, first, last))
        top = max(top, at + size)
    return offsets, top


class Temporaries:
    """The memory of new tensors that end with the run, in one block; those that live at one time share nothing.

    Those on a device are in a block there.

    ``nbytes`` and the offsets are known once ``place`` was given the launches as the program will do them.
    """

    def __init__(self, recording: Recording, launches: Sequence[Launch], escaping: Iterable[Fresh]):
        # A new tensor may also be on memory of one from outside, as ``detach()`` is.
        outside = {id(root_of(n.data)) for n in recording.notes.tensors.values()}
        taken = {id(f.root) for f in escaping} | set(recording.initial) | outside
        roots = {id(r): r for r in _roots(launches) if id(r) in recording.placeholders.announced}
        self._roots = {key: root for key, root in roots.items() if key not in taken and root.nbytes}
        self.recorded = sum(root.nbytes for root in self._roots.values())
        self._find_extents()

    def holds(self, root: Any) -> bool:
        """Whether an array is one of these."""
        return id(root) in self._roots

    def leave(self, roots: Iterable[Any]) -> set[int]:
        """Let these stay where they are, as they are: nothing writes to them. Returns their ids."""
        left = {id(root) for root in roots}
        for key in left:
            del self._roots[key]
        self._find_extents()
        return left

    def _find_extents(self) -> None:
        self._extents = sorted(extent_of(root) for root in self._roots.values())
        self._lows = [low for low, _ in self._extents]

    def keeps(self, low: int, high: int) -> bool:
        """Whether what is in this range of addresses of the recording is needed after the run."""
        number = bisect(self._lows, low) - 1
        return number < 0 or self._extents[number][1] < high

    def place(self, launches: Iterable[Launch]) -> None:
        """Find a place for each; those that no launch uses any more need none."""
        lives: dict[int, tuple[Any, int, int]] = {}
        for number, made in enumerate(launches):
            for root in _roots([made]):
                if id(root) in self._roots:
                    first = lives[id(root)][1] if id(root) in lives else number
                    lives[id(root)] = (root, first, number)
        used = [life for life in lives.values() if not is_on_device(life[0])]
        offsets, self.nbytes = arena_offsets(used)
        size = self.nbytes + _ALIGNMENT
        # The pool still keeps the blocks that these arrays had in the recorded run; later runs don't ask for them.
        pool.free_kept(self.nbytes)
        large = size >= MIN_BYTES
        self.block = pool.array((size,), np.dtype("u1"), block_size(size)) if large else np.empty(size, np.uint8)
        base = -(-address_of(self.block) // _ALIGNMENT) * _ALIGNMENT
        self.regions = [
            Region(*extent_of(root), None, extent_of(root)[0] - at - base)
            for (root, _, _), at in zip(used, offsets, strict=True)
        ]  # fmt: skip
        self._place_on_device([life for life in lives.values() if is_on_device(life[0])])

    def _place_on_device(self, used: Sequence[tuple[Any, int, int]]) -> None:
        if not used:
            return
        offsets, size = arena_offsets(used)
        self.nbytes += size
        block = device_memory.empty((size,), np.uint8).allocation
        for (root, _, _), at in zip(used, offsets, strict=True):
            self.regions.append(Region(*extent_of(root), None, extent_of(root)[0] - at, block))


def _roots(launches: Iterable[Launch]) -> list[Any]:
    return [root_of(a) for made in launches for a in made.args if is_array(a)]
