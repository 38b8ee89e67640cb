"""From a user's function to a program of the language that is differentiated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jitgrad.kernels.adjoint.blocks import Blocks, scope_of
from jitgrad.kernels.adjoint.constructs import refuse_constructs
from jitgrad.kernels.adjoint.jumps import ends
from jitgrad.kernels.adjoint.program import Assign, For, Kind, Program, statements
from jitgrad.kernels.adjoint.routine import Routine
from jitgrad.kernels.adjoint.state import TAKEN, Facts, facts_of
from jitgrad.kernels.adjoint.values import Array, Conflict, Items, Known, Scalar, Value, category

__all__ = ["program_of", "refuse_constructs"]

_READINGS = 12


def program_of(function: Callable[..., Any], kinds: Sequence[Kind]) -> Program:
    """The function as a program, for parameters of these kinds.

    SourceError where it can't be differentiated.
    """
    refuse_constructs(function)
    routine = Routine(function)
    if len(kinds) != len(routine.parameters):
        raise routine.fault(routine.tree, f"has {len(routine.parameters)} parameters, not {len(kinds)}")
    facts, routines = Facts(first=True), dict[Any, Routine]()
    for _ in range(_READINGS):
        reading = _Reading(routine, kinds, facts, routines)
        program = reading.program()
        found = facts_of(reading.blocks)
        if found.agrees(facts):
            reading.refuse_unassigned(found)
            program.body = [*_first_values(found.carried, program), *program.body]
            return program
        facts = found
    raise AssertionError(f"{routine.name}: readings of the function do not settle")


class _Reading:
    """One reading of the function from its start to its end, with what the last one has shown."""

    def __init__(self, routine: Routine, kinds: Sequence[Kind], facts: Facts, routines: dict[Any, Routine]):
        self.routine = routine
        self.scope = scope_of(routine, None)
        self.blocks = Blocks(facts, self.scope, routines)
        self.kinds: dict[str, Kind] = dict(zip(routine.parameters, kinds))
        self.written = [p for p, k in self.kinds.items() if k.ndim is not None and p.startswith("out")]

    def program(self) -> Program:
        blocks, scope = self.blocks, self.scope
        for p, kind in self.kinds.items():
            self.parameter(p, kind)
        body = scope.body
        for p in self._assigned_deep(body):
            blocks.bind(self.routine.tree, p, scope.env[p])
        blocks.run(body)
        results, single = self.results()
        outputs = [*self.written, *results]
        if not outputs:
            raise self.routine.fault(
                self.routine.tree, "returns nothing; return a value, or write into a parameter named out..."
            )
        return Program(
            self.routine.name, self.routine.file, list(self.routine.parameters), outputs, blocks.out, self.all_kinds(),
            single and len(outputs) == 1, self.routine.lines,
        )  # fmt: skip

    def parameter(self, p: str, kind: Kind) -> None:
        blocks = self.blocks
        if p in TAKEN:
            raise self.routine.fault(self.routine.tree, f"has a parameter {p}, which names a function; rename it")
        blocks.parameters.add(p)
        blocks.taken.add(p)
        blocks.existing.add(p)
        if kind.ndim is None:
            blocks.found[p] = category(kind.dtype)
            self.scope.env[p] = blocks.variable(p)
            return
        blocks.arrays[p] = kind
        if p not in self.written:
            blocks.inputs.add(p)
        self.scope.env[p] = blocks.held(p)

    def _assigned_deep(self, body: Sequence[ast.stmt]) -> list[str]:
        """Scalar parameters that a loop or branch assigns to, which need a variable of their own from the start."""
        deep = [n for s in body if isinstance(s, (ast.If, ast.For, ast.While)) for n in ast.walk(s)]
        names = {n.id for n in deep if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return [p for p, k in self.kinds.items() if k.ndim is None and p in names]

    def refuse_unassigned(self, facts: Facts) -> None:
        """Refuse what is read ahead of its assignment and then assigned an array, or nothing."""
        for variable in sorted(facts.carried):
            if variable not in facts.assigned:
                routine, node = self.blocks.first_reads[variable]
                name = ast.unparse(node)
                raise routine.fault(node, f"reads {name} ahead of its assignment; give it a value ahead of the loop")

    # Results

    def results(self) -> tuple[list[str], bool]:
        """The variables that hold what is returned, and whether it is one value and not a tuple of one."""
        returned = [n for n in ast.walk(self.routine.tree) if isinstance(n, ast.Return)]
        given = [n for n in returned if not (n.value is None or _is_none(n.value))]
        if not given:
            return [], True
        bare = [n for n in returned if n not in given]
        if bare or not ends(self.routine.tree.body):
            at = bare[0] if bare else given[-1]
            raise self.routine.fault(at, "returns a value on some paths and none on others")
        value = self.scope.env[self.scope.result]
        if isinstance(value, Conflict):
            raise self.routine.fault(given[-1], "returns values of other numbers or dimensions on other paths")
        values = value.values if isinstance(value, Items) else [value]
        names: list[str] = []
        for v in values:
            names.append(self.result(given[-1], v, names))
        return names, not isinstance(value, Items)

    def result(self, at: ast.AST, value: Value, others: Sequence[str]) -> str:
        """The variable that holds one result."""
        blocks = self.blocks
        if isinstance(value, Array) and not value.ndim and value.place is None:
            value = value.at([])
        if isinstance(value, Scalar):
            held = value.expression.id if isinstance(value.expression, ast.Name) else ""
            if held and held not in self.kinds and held not in others:
                return held
            copy_ = blocks.temporary("result", value).expression
            assert isinstance(copy_, ast.Name)
            return copy_.id
        if not isinstance(value, Array):
            what = "returns what is no number or array"
            if isinstance(value, Known) and value.object is None:
                what = "returns None beside values"
            raise self.routine.fault(at, what)
        place = value.place
        taken = {*others, *self.written}
        if place is not None and place.is_whole and place.base in blocks.owned and place.base not in taken:
            return place.base
        new = blocks.materialised(value, "result").place
        assert new is not None
        return new.base

    def all_kinds(self) -> dict[str, Kind]:
        blocks = self.blocks
        indices = {s.index for s in statements(blocks.out) if isinstance(s, For)}
        scalars = {v: Kind(k) for v, k in blocks.found.items()}
        return {**scalars, **{i: Kind("int64") for i in indices}, **blocks.arrays}


def _first_values(carried: Collection[str], program: Program) -> list[Assign]:
    """Values for what the text reads ahead of its assignment, which a run never does: Numba asks for them."""
    zero = {"bool": False, "int64": 0}
    line = program.body[0].line if program.body else 0
    return [Assign(v, ast.Constant(zero.get(program.kinds[v].dtype, 0.0)), line=line) for v in sorted(carried)]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
