"""Long loops in stretches: the state at the beginning of each is kept, and the rest computed again when it is needed.

The forward sweep runs such a loop as it stands, and keeps the variables and arrays that the loop changes once for each
stretch. The reverse sweep puts them back, runs the stretch again with what a sweep keeps otherwise, then backwards. So
the loop runs twice, and memory holds one stretch and the states: for n iterations in stretches of sqrt(n) some
2 sqrt(n) iterations' worth in the place of n. Where the user says how many states there may be: `binomial`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from jitgrad.kernels.adjoint import program as p
from jitgrad.kernels.adjoint.lives import names_read
from jitgrad.kernels.adjoint.ssa import Loop, Value, Values, Write
from jitgrad.kernels.adjoint.to_ssa import surely_assigned
from jitgrad.kernels.adjoint.write import expression_text, range_text, statement_lines

__all__ = ["Stretches", "entry_values", "indented", "long_loops"]


def long_loops(values: Values) -> list[Loop]:
    """The loops that are run in stretches: for loops of the function itself that hand a state on."""
    found = [n for n in values.root.nodes if isinstance(n, Loop) and n.index is not None and not n.counted]
    return [loop for loop in found if (_changed_arrays(loop) or _carried(loop)) and not _moves(loop, values.moving)]


def _moves(loop: Loop, moving: set[str]) -> bool:
    """Whether arrays whose sizes may change are a part of the loop's state, for which a state has no room."""
    inner = p.statements([loop.origin])
    arrays = {a for s in inner for a in (getattr(s, "array", None), *getattr(s, "targets", ()), *names_read(s)) if a}
    return bool(arrays & moving)


def _state_arrays(values: Values, loop: Loop) -> list[str]:
    """The arrays that running the loop again needs as they were: those that it changes, and those changed later."""
    last = max(n.order for n in [loop, *values.nodes(loop.body)])
    later = {values.family(n.array) for n in values.nodes() if isinstance(n, Write) and n.order > last}
    read = dict.fromkeys(n for s in p.statements([loop.origin]) for n in names_read(s))
    made = {s.array for s in p.statements([loop.origin]) if isinstance(s, p.Allocate)}
    kinds = values.program.kinds
    found = [a for a in read if a in kinds and kinds[a].ndim is not None and values.family(a) in later]
    return list(dict.fromkeys([*_changed_arrays(loop), *(a for a in found if a not in made)]))


def entry_values(loop: Loop) -> dict[str, Value]:
    """{variable: value} of what the loop's text reads and leaves as it is: running it again needs these."""
    read: set[str] = set()
    assigned: set[str] = set()
    for s in p.statements([loop.origin]):
        parts = [v for v in vars(s).values() if isinstance(v, ast.expr)]
        if isinstance(s, p.Store):
            parts += s.index
        elif isinstance(s, p.Allocate):
            parts += s.shape
        elif isinstance(s, p.Assign):
            assigned.add(s.target)
        read |= {n.id for e in parts for n in ast.walk(e) if isinstance(n, ast.Name)}
    return {n: v for n, v in loop.entry.items() if n in read - assigned}


def _carried(loop: Loop) -> list[str]:
    """The scalars that an iteration may have from the one before."""
    return [c.start.now.id for c in loop.carried if c.first is not None]  # type: ignore[attr-defined]


def _first_assigned(loop: Loop) -> list[str]:
    """The scalars that have no value ahead of the loop, and that not every iteration assigns to."""
    sure = surely_assigned(loop.origin.body)  # type: ignore[attr-defined]
    found = [c.start.now.id for c in loop.carried if c.first is None]  # type: ignore[attr-defined]
    return [n for n in found if n not in sure]


def _changed_arrays(loop: Loop) -> list[str]:
    """The arrays that the loop writes into or exchanges, and that are there when it begins."""
    changed: dict[str, None] = {}
    made: set[str] = set()
    for s in p.statements([loop.origin]):
        if isinstance(s, p.Store):
            changed[s.array] = None
        elif isinstance(s, p.Exchange):
            changed.update(dict.fromkeys(s.targets))
        elif isinstance(s, p.Allocate):
            made.add(s.array)
    return [a for a in changed if a not in made]


class Stretches:
    """The two sweeps over one long loop. number: how many states there is room for, if the user has said so."""

    def __init__(self, values: Values, loop: Loop, number: int, unique: Callable[[str], str]):
        self.values, self.loop, self.number = values, loop, number
        self.unassigned = _first_assigned(loop)
        self.arrays, self.scalars = _state_arrays(values, loop), [*_carried(loop), *self.unassigned]
        assert isinstance(loop.origin, p.For)
        self.origin: p.For = loop.origin
        self.trips, self.length, self.first = unique("trips"), unique("stretch"), unique("first")
        self.number_of = unique("k")
        self.at, self.latest = unique("state_at"), unique("latest")
        self.states = {n: unique(f"state_{n}") for n in [*self.arrays, *self.scalars]}

    def forward(self) -> list[str]:
        """The loop as it stands, its state kept at the beginning of each stretch."""
        kinds, trips, length = self.values.program.kinds, self.trips, self.length
        lines = [f"{trips} = len({self.range()})", f"{length} = max(1, int(math.sqrt({trips})))"]
        lines += self.rooms(f"-(-{trips} // {length})")
        inner = [f"{state}[{self.first} // {length}] = {n}" for n, state in self.states.items()]
        inner += [self.head(self.first, self._stop()), *indented(statement_lines(self.origin.body, kinds))]
        return [*lines, f"for {self.first} in range(0, {trips}, {length}):", *indented(inner)]

    def reverse(self, again: list[str], backwards: list[str]) -> list[str]:
        """again: an iteration's lines with what it keeps; backwards: those of its reverse."""
        inner = self.restored(f"{self.first} // {self.length}")
        inner += [self.head(self.first, self._stop()), *indented(again)]
        inner.append(f"for {self.number_of} in range({self._stop()} - 1, {self.first} - 1, -1):")
        inner += indented([self.index(self.number_of), *backwards])
        last = f"({self.trips} - 1) // {self.length} * {self.length}"
        return [*self.entry(), f"for {self.first} in range({last}, -1, -{self.length}):", *indented(inner)]

    def changed(self) -> list[str]:
        """The arrays that hold states and that the reverse sweep writes into."""
        return []

    def entry(self) -> list[str]:
        """What the loop's text reads and leaves as it is, by the names in it."""
        return [f"{n} = {v.name}" for n, v in entry_values(self.loop).items() if v.name != n]

    def rooms(self, count: str) -> list[str]:
        """Room for so many states."""
        kinds = self.values.program.kinds
        zeros = {"bool": "False", "int64": "0"}
        lines = [f"{n} = {zeros.get(kinds[n].dtype, '0.0')}" for n in self.unassigned]
        for n, state in self.states.items():
            sizes = "".join(f", {n}.shape[{k}]" for k in range(kinds[n].ndim or 0))
            dtype = "bool_" if kinds[n].dtype == "bool" else kinds[n].dtype
            lines.append(f"{state} = np.empty(({count}{sizes or ','}), np.{dtype})")
        return lines

    def restored(self, place: str) -> list[str]:
        """A state put back."""
        kinds = self.values.program.kinds
        return [f"{n if kinds[n].ndim is None else f'{n}[...]'} = {state}[{place}]" for n, state in self.states.items()]

    def range(self) -> str:
        """The iterations."""
        return range_text(self.origin.start, self.origin.stop, self.origin.step)

    def head(self, low: str, high: str) -> str:
        """The loop over some of the iterations."""
        start, step = expression_text(self.origin.start), expression_text(self.origin.step)
        if step == "1":
            offset = "" if start == "0" else f"{start} + "
            return f"for {self.origin.index} in range({offset}{low}, {offset}{high}):"
        return f"for {self.origin.index} in range({start} + ({low}) * ({step}), {start} + ({high}) * ({step}), {step}):"

    def index(self, number: str) -> str:
        """The loop's index in an iteration."""
        start, _, step = map(expression_text, self.loop.bounds)
        assert self.loop.index is not None
        place = number if step == "1" else f"{number} * ({step})"
        return f"{self.loop.index.name} = {place if start == '0' else f'{start} + {place}'}"

    def _stop(self) -> str:
        return f"min({self.first} + {self.length}, {self.trips})"


def indented(lines: Sequence[str]) -> list[str]:
    """The lines of a block."""
    return [f"    {line}" for line in lines]
