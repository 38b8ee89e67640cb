"""What is known while a function is written out: its variables so far, and what the last reading of it has shown.

A function is written out several times, until nothing new is found: that an ``s = 0`` becomes a float further down, or
that a bound of a range is assigned to twice, is known only at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from jitgrad.kernels.adjoint.program import Allocate, Assign, Exchange, For, Kind, Refuse, Statement, Store, statements
from jitgrad.kernels.adjoint.routine import Routine
from jitgrad.kernels.adjoint.sizes import constant, integer, linear, minus, name, names_in, size_of
from jitgrad.kernels.adjoint.values import Array, Items, Scalar, Value, converted, wider

__all__ = ["TAKEN", "Facts", "Scope", "State", "array_of_size", "facts_of", "leaves", "loads"]

# What the generated text names itself.
TAKEN = {"np", "math", "inf", "nan", "range", "abs", "int", "float", "bool", "min", "max", "round"}


@dataclass
class Facts:
    """What one reading of the function has shown, for the next.

    kinds: of scalars. assigned: how many statements assign to a scalar. equal: what names and sizes equal throughout.
    steady: arrays whose sizes never change. carried: scalars that are read ahead of their first assignment in the text.
    first: nothing has been read yet. top: scalars that are assigned to
    once, and not in a loop or branch.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, int] = field(default_factory=dict)
    equal: dict[str, ast.expr] = field(default_factory=dict)
    steady: set[str] = field(default_factory=set)
    carried: set[str] = field(default_factory=set)
    first: bool = False
    top: set[str] = field(default_factory=set)

    def agrees(self, other: Facts) -> bool:
        """Whether both say the same."""
        texts = [{k: ast.unparse(v) for k, v in facts.equal.items()} for facts in (self, other)]
        return (self.kinds, self.assigned, self.steady, self.carried, texts[0]) == (
            other.kinds, other.assigned, other.steady, other.carried, texts[1]
        )  # fmt: skip


@dataclass
class Scope:
    """The names of one function, or of one call of it that is written out in place.

    variables: the variable that a name was given last if it is a number; arrays: if it is an array. deep: how many
    loops and branches of the function are around.
    """

    routine: Routine
    prefix: str = ""
    env: dict[str, Value] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, str] = field(default_factory=dict)
    deep: int = 0
    caller: Scope | None = None
    locals: set[str] = field(default_factory=set)
    body: list[ast.stmt] = field(default_factory=list)
    result: str = "result"
    ordinary: dict[str, bool] = field(default_factory=dict)


class State:
    """The program so far."""

    def __init__(self, facts: Facts, scope: Scope, routines: dict[Any, Routine] | None = None):
        self.facts, self.scope = facts, scope
        self.routines = {} if routines is None else routines  # of functions that are called
        self.found: dict[str, str] = {}
        self.carried: set[str] = set()
        self.arrays: dict[str, Kind] = {}
        self.parameters: set[str] = set()
        self.inputs: set[str] = set()  # array parameters that are only read
        self.owned: set[str] = set()  # arrays that the program allocates
        self.taken: set[str] = set(TAKEN) | scope.locals
        self.existing: set[str] = set()  # variables that exist
        self.indices: dict[str, ast.expr | None] = {}  # of the loops around; the bound that they stay below, if known
        self.positive: set[str] = set()  # indices that are never negative
        self.lows: dict[str, ast.expr] = {}  # what indices are not less than
        self.index_names: set[str] = set()
        self.out: list[Statement] = []
        self.first_reads: dict[str, tuple[Routine, ast.AST]] = {}  # of variables that are carried
        self.block_numbers = [0]  # of the loops and branches around
        self.made_in: dict[str, int] = {}  # the block in which an array was made, or given other elements, last
        self._blocks = 0
        self.passing: list[set[str]] = [set()]  # by block: names of arrays that are used in it only, further down
        self.around: list[tuple[Sequence[ast.stmt], int]] = []  # the blocks around, and their statements that run
        self.line = scope.routine.tree.lineno

    def routine(self, function: Any) -> Routine:
        """The text of a function that is called."""
        if function not in self.routines:
            self.routines[function] = Routine(function)
        return self.routines[function]

    # Errors and statements

    def refuse(self, node: ast.AST | int, what: str) -> NoReturn:
        """Raise the error that names the function and the line."""
        raise self.scope.routine.fault(node, what)

    def emit(self, statement: Statement) -> None:
        statement.line = self.line
        self.out.append(statement)

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Statements within go to a list of their own."""
        before, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = before

    @contextmanager
    def inner_block(self, body: Sequence[ast.stmt]) -> Iterator[None]:
        """The statements of a loop or branch of the text."""
        self._blocks += 1
        self.block_numbers.append(self._blocks)
        self.around.append((body, -1))
        self.passing.append(set())
        try:
            yield
        finally:
            for n in self.passing.pop():
                self.scope.env.pop(n, None)
            self.around.pop()
            self.block_numbers.pop()

    # Variables

    def fresh(self, base: str) -> str:
        """A variable's name that nothing else has."""
        if self.scope.prefix and not base.startswith(self.scope.prefix):
            base = self.scope.prefix + base
        own = base in self.scope.locals and base not in TAKEN and base not in self.existing and not self.scope.prefix
        candidate, k = base, 0
        while not own and candidate in self.taken:
            k += 1
            candidate = f"{base}_{k}"
        self.taken.add(candidate)
        self.existing.add(candidate)
        return candidate

    def numbered(self, base: str) -> str:
        """``base_1`` or the next."""
        self.taken.add(base)
        return self.fresh(base)

    def kind(self, variable: str) -> str:
        """The kind of a scalar, as far as it is known."""
        kinds = [k for k in (self.facts.kinds.get(variable), self.found.get(variable)) if k]
        return wider(*kinds) if kinds else "bool"

    def assign(self, variable: str, value: Scalar) -> None:
        """``variable = value``, and the variable is of the value's kind at least."""
        self.found[variable] = wider(self.found.get(variable, "bool"), value.kind)
        self.emit(Assign(variable, converted(value, self.kind(variable))))

    def variable(self, variable: str) -> Scalar:
        return Scalar(name(variable), self.kind(variable))

    def temporary(self, base: str, value: Scalar) -> Scalar:
        """The value in a new variable."""
        variable = self.numbered(base)
        self.assign(variable, value)
        return self.variable(variable)

    def steady(self, value: ast.expr) -> bool:
        """Whether the expression, of numbers and sizes, keeps its value wherever it can be read."""
        if any(isinstance(n, ast.Call) for n in ast.walk(value)):
            return False
        return all(self._steady_leaf(leaf) for leaf in leaves(value))

    def _steady_leaf(self, leaf: ast.expr) -> bool:
        if isinstance(leaf, ast.Name):
            if leaf.id in self.indices:
                return True
            if self.facts.first and leaf.id not in self.parameters:
                return False
            return self.facts.assigned.get(leaf.id, 0) <= 1 and leaf.id not in self.facts.carried
        if not isinstance(leaf, ast.Subscript):
            return True
        return array_of_size(leaf) is not None

    def kept(self, value: Scalar, base: str) -> Scalar:
        """The value, in a variable of its own unless it is steady."""
        return value if self.steady(value.expression) else self.temporary(base, value)

    # Sizes

    def expanded(self, value: ast.expr) -> ast.expr:
        """What a name or a size equals."""
        return self.facts.equal.get(ast.unparse(value), value)

    def same(self, left: ast.expr, right: ast.expr) -> bool | None:
        """Whether two sizes are equal; None where only the run can tell."""
        difference = linear(left, self.expanded).add(linear(right, self.expanded), -1)
        return None if difference.terms else difference.number == 0

    def at_least_zero(self, value: ast.expr) -> bool:
        """Whether a size or an index is known not to be negative."""
        sum_ = linear(value, self.expanded)
        for index in reversed(self.indices):  # the innermost first, whose bounds may name those around
            factor = sum_.terms.get(index, (None, 0))[1]
            low, stop = self.lows.get(index), self.indices[index]
            bound = low if factor > 0 else minus(stop, constant(1)) if factor < 0 and stop is not None else None
            if bound is not None:
                sum_ = sum_.add(linear(name(index)), -factor).add(linear(bound, self.expanded), factor)
        return sum_.number >= 0 and all(f > 0 and self._positive_term(t) for t, f in sum_.terms.values())

    def _positive_term(self, term: ast.expr) -> bool:
        if isinstance(term, ast.BinOp) and isinstance(term.op, (ast.FloorDiv, ast.Mod)):
            divisor = integer(term.right)
            return (
                divisor is not None and divisor > 0 and (isinstance(term.op, ast.Mod) or self.at_least_zero(term.left))
            )
        return array_of_size(term) is not None or (isinstance(term, ast.Name) and term.id in self.positive)

    def not_negative(self, size: ast.expr) -> ast.expr:
        """The size of a part, which has no elements where the array is shorter than the part's bounds."""
        if self.at_least_zero(size) or isinstance(size, ast.Name):
            return size
        return ast.Call(name("max"), [size, constant(0)], [])

    def agree(self, sizes: Sequence[ast.expr], others: Sequence[ast.expr], message: str) -> None:
        """A check that the sizes are equal, where that is not known."""
        for one, other in zip(sizes, others, strict=True):
            if self.same(one, other) is None:
                # Parts that begin behind the array's end have no elements, however far behind.
                test = ast.Compare(self.not_negative(one), [ast.NotEq()], [self.not_negative(other)])
                self.check(test, message)
            elif not self.same(one, other):
                self.emit(Refuse(constant(True), "ValueError", message))

    def check(self, test: ast.Compare, message: str) -> None:
        """Refuse sizes that differ, unless that has been done just ahead."""
        texts = {ast.unparse(t) for t in (test, ast.Compare(test.comparators[0], test.ops, [test.left]))}
        names = names_in(test)
        for s in reversed(self.out):
            if isinstance(s, Refuse) and ast.unparse(s.test) in texts:
                return
            if not isinstance(s, (Refuse, Store, For)) or names & {
                t.array for t in statements([s]) if isinstance(t, Allocate)
            }:
                break
            if names & {n for t in statements([s]) if isinstance(t, Exchange) for n in t.targets}:
                break
            if names & {t.target for t in statements([s]) if isinstance(t, Assign)}:
                break
        self.emit(Refuse(test, "ValueError", message))

    # Names

    def is_past(self, name_: str) -> bool:
        """Whether a name of an array is not read any more."""
        body, here = self.around[-1] if self.around else ([], 0)
        return name_ in self.passing[-1] and not loads(body[here + 1 :], name_)

    def holders(self, array: str, but: str = "") -> list[str]:
        """The names, of this function and of those that call it, that stand for a part of the array."""
        found, scope = [], self.scope
        inner: Scope | None = scope
        while inner is not None:
            found += [
                n for n, v in inner.env.items()
                if (inner is not scope or not (n == but or self.is_past(n))) and _stands_for(v, array)
            ]  # fmt: skip
            inner = inner.caller
        return found


def loads(body: Sequence[ast.stmt], name_: str) -> int:
    """How often statements read a name."""
    nodes = (n for s in body for n in ast.walk(s))
    return sum(isinstance(n, ast.Name) and n.id == name_ and isinstance(n.ctx, ast.Load) for n in nodes)


def _stands_for(value: Value, array: str) -> bool:
    if isinstance(value, Items):
        return any(_stands_for(v, array) for v in value.values)
    return isinstance(value, Array) and any(p.base == array for p in value.reads)


def leaves(value: ast.expr) -> list[ast.expr]:
    """The names, constants, sizes and elements that an expression is made of."""
    if isinstance(value, (ast.Name, ast.Constant, ast.Subscript)):
        return [value]
    return [leaf for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr) for leaf in leaves(child)]


def array_of_size(node: ast.expr) -> str | None:
    """The array of ``array.shape[0]``."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        assert isinstance(node.value.value, ast.Name)
        return node.value.value.id
    return None


def facts_of(state: State) -> Facts:
    """What a reading has shown, for the next."""
    assigned: dict[str, int] = {}
    allocated: dict[str, list[Allocate]] = {}
    exchanged: set[str] = set()
    for s in statements(state.out):
        if isinstance(s, Assign):
            assigned[s.target] = assigned.get(s.target, 0) + 1
        elif isinstance(s, Allocate):
            allocated.setdefault(s.array, []).append(s)
        elif isinstance(s, Exchange):
            exchanged |= set(s.targets)
    loops = {s.index for s in statements(state.out) if isinstance(s, For)}
    top = {s.target for s in state.out if isinstance(s, Assign)}
    changing = {n for n, k in assigned.items() if k > 1 or n not in top or n in state.carried} | loops | exchanged
    changing |= {a for a, found in allocated.items() if len(found) > 1}
    facts = Facts(dict(state.found), assigned, {}, set(), set(state.carried))
    facts.top = top - changing
    for array, found in allocated.items():
        if array not in changing and not any(names_in(size) & changing for size in found[0].shape):
            facts.steady.add(array)
            facts.equal |= {ast.unparse(size_of(array, k)): size for k, size in enumerate(found[0].shape)}
    changing |= set(allocated) - facts.steady
    for s in state.out:
        if isinstance(s, Assign) and s.target not in changing and state.kind(s.target) == "int64":
            if _of_sizes(s.value) and not names_in(s.value) & changing:
                facts.equal[s.target] = s.value
    facts.equal = {k: v for k, v in facts.equal.items() if _of_sizes(v) and not names_in(v) & changing}
    return facts


def _of_sizes(value: ast.expr) -> bool:
    """Whether an expression is made of names, constants and sizes only."""
    plain = all(array_of_size(n) or isinstance(n, (ast.Name, ast.Constant)) for n in leaves(value))
    return plain and not any(isinstance(n, ast.Call) for n in ast.walk(value))
