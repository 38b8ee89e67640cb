"""Calls of a compiled kernel in parts, each on a thread of the pool.

A part gets some rows of the arrays that are cut along axis 0, or the numbers of its first and last row, and whatever
else the kernel takes as it is. Compiled code makes the parts' arguments (`pool_code.split`), so that a call takes 2 to
6 us more than the kernel itself, nearly all of it Python that finds the types of the arguments; plans, which know
these, soon call by `direct_parts`. From Python, by slices of the arrays and a call of the kernel on each thread, it
takes 40 us. That is left for what compiled code cannot read: an array in column-major order that is to be cut, complex
numbers, NumPy's scalars.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.argument_kinds import ArrayKind, Kind, kinds_of
from jitgrad.kernels.kernel_form import kernel_form
from jitgrad.kernels.pool_code import ARRAY, BLOCK, CUT, FIRST, LAST, MOST_PARTS, PART, PARTS, SCALAR

__all__ = ["CUT", "FIRST", "LAST", "PART", "PARTS", "SplitCall", "role_of"]


class _Plan:
    """How the arguments of one combination of types are handed over."""

    __slots__ = ("arrays", "keep", "pack", "words")

    def __init__(self, run: Any, args: tuple[Any, ...], roles: Mapping[int, int]):
        form = kernel_form(run, args)
        words = [form.kernel, form.entry, len(args)]
        for k, kind in enumerate(form.kinds):
            role = role_of(kind, roles.get(k))
            if role is None or 8 * form.words > BLOCK:
                raise NotImplementedError
            words += [role, kind.ndim, np.dtype(kind.dtype).itemsize] if isinstance(kind, ArrayKind) else [role, 0, 0]
        self.keep = np.array(words, np.int64)
        self.words = self.keep.ctypes.data
        self.arrays = [isinstance(kind, ArrayKind) for kind in form.kinds]
        # An address, a whole number or a float, each of 64 bits; "n" takes half the time of "q".
        self.pack = struct.Struct("@6n" + "".join("d" if kind == "float64" else "n" for kind in form.kinds)).pack

    def packed(self, control: int, helpers: int, rows: int, parts: int, multiple: int, args: Sequence[Any]) -> bytes:
        """The words of a call; the arrays must live as long as they are used."""
        words = [id(a) if is_array else a for a, is_array in zip(args, self.arrays, strict=True)]
        return self.pack(control, helpers, self.words, rows, parts, multiple, *words)

    def run(self, count: int, rows: int, parts: int, multiple: int, args: tuple[Any, ...]) -> bool:
        """Run the kernel in parts on up to ``count`` threads; False if the pool is busy."""
        words = [id(a) if array else a for a, array in zip(args, self.arrays)]  # takes 80 ns
        return threads.run_split(count, self.pack, self.words, rows, parts, multiple, *words)


def role_of(kind: Kind, role: int | None) -> int | None:
    """How an argument of a kind is handed over; None if compiled code can't."""
    if isinstance(kind, ArrayKind):
        if role is None:
            return ARRAY
        # Of column-major arrays Numba works out strides from sizes, which a part has others of.
        return CUT if kind.layout != "F" or kind.ndim == 1 else None
    if kind in ("bool", "float64") or "int" in kind:
        return SCALAR if role is None else role
    return None


class SplitCall:
    """A compiled kernel that is run in parts.

    roles: how arguments at these positions, from the end if negative, are handed to a part: CUT, FIRST, LAST, PART or
    PARTS (see `pool_code`); the others go to each part as they are. There are as many rows as arrays that are cut have;
    else the argument for LAST or PARTS says how many. multiple: all parts but the last end at a multiple of so many
    rows. elements: the number of elements, given the arguments, of which ``grain`` are worth a thread; without it all
    threads take part. parts_per_thread: see ``loop``. most: how many elements a part has at most; 0: there is no limit.
    """

    __slots__ = (
        "cut", "elements", "grain", "last", "most", "multiple", "parts_per_thread", "plans", "roles", "run",
        "text_file",
    )  # fmt: skip

    def __init__(
        self, run: Any, roles: Mapping[int, int], elements: Callable[[Sequence[Any]], int] | None = None,
        grain: int = 1, multiple: int = 1, parts_per_thread: int = 2, most: int = 0,
    ):  # fmt: skip
        self.parts_per_thread, self.most = parts_per_thread, most
        self.run, self.roles, self.text_file = run, roles, run.text_file
        self.elements, self.grain, self.multiple = elements, grain, multiple
        self.cut = next((k for k, role in roles.items() if role == CUT), None)
        self.last = next((k for k, role in roles.items() if role in (LAST, PARTS)), -1)
        self.plans: dict[Any, _Plan | None] = {}

    def shared(self, args: tuple[Any, ...]) -> tuple[Any, list[int]] | None:
        """(what has to be kept, the words that `pool_code.split` takes); None where the kernel is to run serially.

        Of an array the word is the address of Python's object, of a number its bits.
        """
        rows, count, parts = self.cuts(args)
        kinds = kinds_of(args)
        if count < 2 or parts < 2:
            return None
        plan = self.plans[kinds] if kinds in self.plans else self._plan(args)
        if plan is None:
            return None
        helpers = threads.helpers_for(count)
        packed = plan.packed(threads.control(helpers), helpers, rows, parts, self.multiple, args)
        return plan, list(memoryview(packed).cast("q"))

    def roles_of(self, args: Sequence[Any]) -> dict[int, int]:
        """``roles`` by positions that count from the first argument."""
        return {k % len(args): role for k, role in self.roles.items()}

    def cuts(self, args: Sequence[Any]) -> tuple[int, int, int]:
        """(rows, threads, parts) of a call."""
        rows = args[self.last] if self.cut is None else args[self.cut].shape[0]
        count, elements = threads.get_num_threads(), 0
        if self.elements is not None:
            elements = self.elements(args)
            count = min(count, elements // self.grain)
        parts = self.parts_per_thread * count
        if self.most and parts * self.most < elements:
            parts = elements // self.most
        return rows, count, min(rows // self.multiple, parts, MOST_PARTS)

    def edge(self, rows: int, part: int, parts: int) -> int:
        """The first row of a part; that of the one after the last is the number of rows."""
        return rows if part == parts else rows * part // parts // self.multiple * self.multiple

    def __call__(self, *args: Any) -> None:
        rows, count, parts = self.cuts(args)
        if count < 2 or parts < 2:
            self.run(*args)
            return
        try:
            plan = self.plans[kinds_of(args)]
        except KeyError:
            plan = self._plan(args)
        except NotImplementedError:  # of objects that have no kind
            plan = None
        if plan is None or not plan.run(count, rows, parts, self.multiple, args):
            threads.run_together(self._calls(rows, args))

    def _plan(self, args: tuple[Any, ...]) -> _Plan | None:
        try:
            plan = _Plan(self.run, args, self.roles_of(args))
        except Exception:  # by whatever Numba has changed; what is wrong with the kernel shows when Python calls it
            plan = None
        self.plans[kinds_of(args)] = plan
        return plan

    def _calls(self, rows: int, args: tuple[Any, ...]) -> list[threads.Job]:
        parts = min(rows // self.multiple, threads.get_num_threads())
        edges = [self.edge(rows, k, parts) for k in range(parts + 1)]
        jobs = []
        for part, (first, last) in enumerate(zip(edges, edges[1:], strict=False)):
            numbers = {FIRST: first, LAST: last, PART: part, PARTS: parts}
            given = list(args)
            for k, role in self.roles.items():
                given[k] = args[k][first:last] if role == CUT else numbers[role]
            jobs.append((self.run, tuple(given)))
        return jobs
