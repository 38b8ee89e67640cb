"""From a program to its values."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Sequence

from jitgrad.kernels.adjoint import program as p
from jitgrad.kernels.adjoint.lives import moving, roaming
from jitgrad.kernels.adjoint.program import Kind, Program, Statement
from jitgrad.kernels.adjoint.ssa import (
    Block,
    Branch,
    Carry,
    Define,
    Loop,
    Merge,
    New,
    Permute,
    Value,
    Values,
    Write,
    index_of,
)  # fmt: skip

__all__ = ["surely_assigned", "values_of"]

# Calls that cost less than keeping their value would.
_CHEAP = {"abs", "sign", "int", "float", "bool", "min", "max", "floor", "ceil", "trunc", "square", "isnan", "isinf",
          "isfinite", "degrees", "radians", "copysign"}  # fmt: skip
# The values of variables at a place in the text. Under the text of an element or a call, which no variable has as its
# name, the value that has been loaded or computed there and still holds.
Current = dict[str, Value]


def values_of(program: Program) -> Values:
    """The program by its values."""
    return _Builder(program).build()


class _Builder:
    def __init__(self, program: Program):
        self.program = program
        self.values: dict[str, Value] = {}
        self.order = 0
        self.taken = set(program.kinds)
        self.named: set[str] = set()
        self.often = Counter(program.parameters)
        for s in p.statements(program.body):
            if isinstance(s, p.Assign):
                self.often[s.target] += 1
            elif isinstance(s, p.For):
                self.often[s.index] += 1
        self.roaming = roaming(program)
        self.families = _families(program)
        self.moving = moving(program, self.families)
        self.sizes: dict[str, tuple[ast.expr, ...]] = {}

    def build(self) -> Values:
        root = Block(None)
        current: Current = {}
        for name in self.program.parameters:
            if self.program.kinds[name].ndim is None:
                current[name] = self._value(name, "parameter", root)
        self._statements(self.program.body, root, current)
        results = {n: current[n] for n in self.program.outputs if self.program.kinds[n].ndim is None}
        return Values(self.program, root, self.values, results, self.families, self.roaming, self.moving)

    # -- values -------------------------------------------------------------------------------------

    def _value(self, variable: str, role: str, block: Block, expression: ast.expr | None = None) -> Value:
        """A new value of a variable of the program."""
        # A variable's only value has its name; of several the first that is carried into a loop has, others a number.
        plain = (self.often[variable] == 1 and role != "final") or role == "carried"
        if plain and variable not in self.named:
            name = variable
            self.named.add(name)
        else:
            name = self._unique(variable)
        value = Value(name, self.program.kinds[variable], role, block, ast.Name(variable, ast.Load()), expression)
        self.values[name] = value
        return value

    def _temporary(self, base: str, dtype: str, block: Block, now: ast.expr, expression: ast.expr | None) -> Value:
        value = Value(self._unique(base), Kind(dtype), "defined", block, now, expression, temporary=True)
        self.values[value.name] = value
        return value

    def _unique(self, base: str) -> str:
        k = 1
        while f"{base}_{k}" in self.taken:
            k += 1
        self.taken.add(f"{base}_{k}")
        return f"{base}_{k}"

    def _define(self, value: Value, origin: Statement, block: Block) -> None:
        value.node = Define(origin, block, self._next(), value)
        block.nodes.append(value.node)

    def _next(self) -> int:
        self.order += 1
        return self.order

    # -- statements ---------------------------------------------------------------------------------

    def _statements(self, body: Sequence[Statement], block: Block, current: Current) -> None:
        for s in body:
            if isinstance(s, p.Assign):
                expression = self._flat(s.value, s, block, current, whole=True)
                value = self._value(s.target, "defined", block, expression)
                self._define(value, s, block)
                current[s.target] = value
                if isinstance(expression, (ast.Subscript, ast.Call)):
                    current.setdefault(ast.unparse(expression), value)
            elif isinstance(s, p.Store):
                index = tuple(self._flat(i, s, block, current) for i in s.index)
                self._store(s, index, block, current)
            elif isinstance(s, p.Allocate):
                shape = tuple(self._flat(n, s, block, current) for n in s.shape)
                fill = s.fill and self._filled_with(s, block, current)
                block.nodes.append(New(s, block, self._next(), s.array, shape, fill))
                if s.array not in self.moving:
                    self.sizes[s.array] = shape
            elif isinstance(s, p.Exchange):
                block.nodes.append(Permute(s, block, self._next(), s.targets, s.sources))
                _forget([s], current)
            elif isinstance(s, p.If):
                self._branch(s, block, current)
            elif isinstance(s, (p.For, p.While)):
                self._loop(s, block, current)

    def _filled_with(self, s: p.Allocate, block: Block, current: Current) -> ast.expr:
        """What an array is filled with: a constant, or a value with a name."""
        assert s.fill is not None
        fill = self._flat(s.fill, s, block, current)
        if isinstance(fill, (ast.Name, ast.Constant)):
            return fill
        value = self._temporary(s.array, _scalar(self.program.kinds[s.array].dtype), block, s.fill, fill)
        self._define(value, s, block)
        return ast.Name(value.name, ast.Load())

    def _store(self, s: p.Store, index: tuple[ast.expr, ...], block: Block, current: Current) -> None:
        amount = self._flat(s.value, s, block, current)
        dtype = self.program.kinds[s.array].dtype
        forwarded = not s.increment and dtype in ("float64", "int64", "bool")
        if forwarded and not isinstance(amount, (ast.Name, ast.Constant)):
            value = self._temporary(s.array, dtype, block, s.value, amount)
            self._define(value, s, block)
            amount = ast.Name(value.name, ast.Load())
        block.nodes.append(Write(s, block, self._next(), s.array, index, amount, s.increment))
        _forget([s], current)
        if forwarded and isinstance(amount, ast.Name):
            # A load of this element has the value itself, which spares the sweep a look at memory.
            current[ast.unparse(_element(s.array, index))] = self.values[amount.id]

    def _branch(self, s: p.If, block: Block, current: Current) -> None:
        test = self._named_test(s.test, s, block, current)
        simple = not any(isinstance(n, (p.For, p.While, p.Allocate, p.Exchange)) for n in p.statements([s]))
        node = Branch(s, block, self._next(), test, Block(block), Block(block), simple=simple)
        ends = []
        for inner, body in ((node.body, s.body), (node.orelse, s.orelse)):
            inner.owner, inner.simple = node, simple
            end = dict(current)
            self._statements(body, inner, end)
            ends.append(end)
        block.nodes.append(node)
        _forget(s.body + s.orelse, current)
        for variable in dict.fromkeys(v for v in [*ends[0], *ends[1]] if v.isidentifier()):
            yes, no = ends[0].get(variable), ends[1].get(variable)
            if yes is not no:
                value = self._value(variable, "merged", block)
                value.node = node
                node.merges.append(Merge(value, yes, no))
                current[variable] = value

    def _named_test(self, test: ast.expr, s: Statement, block: Block, current: Current) -> ast.expr:
        flat = self._flat(test, s, block, current)
        if isinstance(flat, (ast.Name, ast.Constant)):
            return flat
        value = self._temporary("test", "bool", block, test, flat)
        self._define(value, s, block)
        return ast.Name(value.name, ast.Load())

    def _loop(self, s: p.For | p.While, block: Block, current: Current) -> None:
        bounds: tuple[ast.expr, ...] = ()
        if isinstance(s, p.For):
            bounds = tuple(self._flat(b, s, block, current) for b in (s.start, s.stop, s.step))
        body = Block(block)
        counted = isinstance(s, p.While) or s.leave is not None
        node = Loop(s, block, self._next(), None, bounds, body, counted=counted)
        body.owner = node
        node.entry = {v: value for v, value in current.items() if v.isidentifier()}
        _forget(s.body, current)
        inner = dict(current)
        if isinstance(s, p.For):
            node.index = inner[s.index] = self._value(s.index, "index", body)
        assigned = dict.fromkeys(a.target for a in p.statements(s.body) if isinstance(a, p.Assign))
        sure = surely_assigned(s.body)  # another keeps what an earlier iteration gave it, even if it had nothing before
        starts = {v: self._value(v, "carried", body) for v in assigned if v in current or v not in sure}
        inner.update(starts)
        self._statements(s.body, body, inner)
        block.nodes.append(node)
        for variable in assigned:
            # What is assigned before it is read in each iteration has no value from the one before.
            start = starts.get(variable) or self._value(variable, "carried", body)
            final = self._value(variable, "final", block)
            final.node = start.node = node
            node.carried.append(Carry(start, current.get(variable), inner.get(variable), final))
            current[variable] = final

    # -- expressions --------------------------------------------------------------------------------

    def _flat(self, e: ast.expr, s: Statement, block: Block, current: Current, whole: bool = False) -> ast.expr:
        """The expression by values. whole: its result gets a name anyway."""
        if isinstance(e, ast.Name):
            return ast.Name(current[e.id].name, ast.Load())
        if isinstance(e, ast.Constant):
            return e
        if isinstance(e, ast.Subscript):
            if isinstance(e.value, ast.Attribute):
                return self._size(e, s, block)
            return self._load(e, s, block, current, whole)
        if isinstance(e, ast.Call):
            made = ast.Call(e.func, [self._flat(a, s, block, current) for a in e.args], [])
            name: str = e.func.id  # type: ignore[attr-defined]
            if name in _CHEAP:
                return made
            return self._named(made, name, "float64", e, s, block, current, whole)
        if isinstance(e, (ast.IfExp, ast.BoolOp)) and not _safe(e):
            return self._lazy(e, s, block, current)
        made_too = copy.copy(e)
        for name, child in ast.iter_fields(e):
            if isinstance(child, ast.expr):
                setattr(made_too, name, self._flat(child, s, block, current))
            elif isinstance(child, list) and child and isinstance(child[0], ast.expr):
                setattr(made_too, name, [self._flat(c, s, block, current) for c in child])
        return made_too

    def _size(self, e: ast.Subscript, s: Statement, block: Block) -> ast.expr:
        """``A.shape[0]``: of a local array what it was allocated with, as the reverse sweep may not have the array."""
        array, k = e.value.value.id, e.slice.value  # type: ignore[attr-defined]
        if array in self.moving:
            value = self._temporary("size", "int64", block, e, e)
            self._define(value, s, block)
            return ast.Name(value.name, ast.Load())
        return self.sizes[array][k] if array in self.sizes else e

    def _load(self, e: ast.Subscript, s: Statement, block: Block, current: Current, whole: bool) -> ast.expr:
        index = [self._flat(i, s, block, current) for i in index_of(e)]
        array: str = e.value.id  # type: ignore[attr-defined]
        dtype = _scalar(self.program.kinds[array].dtype)
        return self._named(_element(array, index), array, dtype, e, s, block, current, whole)

    def _named(
        self, made: ast.expr, base: str, dtype: str, now: ast.expr, s: Statement, block: Block, current: Current,
        whole: bool,
    ) -> ast.expr:  # fmt: skip
        """A load or call by the name of its value, which is made unless there is one."""
        text = ast.unparse(made)
        if text in current:
            return ast.Name(current[text].name, ast.Load())
        if whole:
            return made
        value = current[text] = self._temporary(base, dtype, block, now, made)
        self._define(value, s, block)
        return ast.Name(value.name, ast.Load())

    def _lazy(self, e: ast.IfExp | ast.BoolOp, s: Statement, block: Block, current: Current) -> ast.expr:
        """An expression whose parts may be computed only if the first one says so: as a branch."""
        if isinstance(e, ast.BoolOp):
            test, rest = e.values[0], e.values[1] if len(e.values) == 2 else ast.BoolOp(e.op, e.values[1:])
            known = ast.Constant(isinstance(e.op, ast.Or))
            arms: tuple[ast.expr, ast.expr] = (known, rest) if known.value else (rest, known)
        else:
            test, arms = e.test, (e.body, e.orelse)
        dtype = self._dtype(e)
        node = Branch(s, block, 0, self._named_test(test, s, block, current), Block(block), Block(block))
        node.order = self._next()
        sides = []
        for inner, arm in ((node.body, arms[0]), (node.orelse, arms[1])):
            inner.owner, inner.simple = node, True
            # What is loaded within one arm is not there behind it.
            value = self._temporary("side", dtype, inner, arm, self._flat(arm, s, inner, dict(current), whole=True))
            self._define(value, s, inner)
            sides.append(value)
        block.nodes.append(node)
        merged = self._temporary("chosen", dtype, block, e, None)
        merged.role, merged.node = "merged", node
        node.merges.append(Merge(merged, *sides))
        return ast.Name(merged.name, ast.Load())

    def _dtype(self, e: ast.expr) -> str:
        """The type of an expression of the program's variables."""
        if isinstance(e, ast.Constant):
            return {bool: "bool", int: "int64"}.get(type(e.value), "float64")
        if isinstance(e, ast.Name):
            return self.program.kinds[e.id].dtype
        if isinstance(e, ast.Subscript):
            local = isinstance(e.value, ast.Name)
            return _scalar(self.program.kinds[e.value.id].dtype) if local else "int64"  # type: ignore[attr-defined]
        if isinstance(e, (ast.Compare, ast.BoolOp)) or (isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.Not)):
            return "bool"
        parts: list[ast.expr] = [c for c in ast.iter_child_nodes(e) if isinstance(c, ast.expr)]
        if isinstance(e, ast.Call):
            name: str = e.func.id  # type: ignore[attr-defined]
            if name not in ("abs", "min", "max", "sign"):
                return {"int": "int64", "bool": "bool"}.get(name, "float64")
            parts = e.args
        elif isinstance(e, ast.IfExp):
            parts = [e.body, e.orelse]
        elif isinstance(e, ast.BinOp) and isinstance(e.op, ast.Div):
            return "float64"
        return "float64" if any(self._dtype(x) == "float64" for x in parts) else "int64"


def _element(array: str, index: Sequence[ast.expr]) -> ast.expr:
    inner = index[0] if len(index) == 1 else ast.Tuple(list(index), ast.Load())
    return ast.Subscript(ast.Name(array, ast.Load()), inner, ast.Load())


def _forget(body: Sequence[Statement], current: Current) -> None:
    """Drop the values of elements that statements may change."""
    changed: set[str] = set()
    for s in p.statements(body):
        if isinstance(s, (p.Store, p.Allocate)):
            changed.add(s.array)
        elif isinstance(s, p.Exchange):
            changed.update(s.targets)
    for text in [t for t in current if "[" in t and t.split("[")[0] in changed]:
        del current[text]


def surely_assigned(body: Sequence[Statement]) -> set[str]:
    """The variables that each run of statements assigns to."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, p.Assign):
            found.add(s.target)
        elif isinstance(s, p.If):
            found |= surely_assigned(s.body) & surely_assigned(s.orelse)
    return found


def _scalar(dtype: str) -> str:
    """The type of a variable that holds an element of an array."""
    return dtype if dtype == "bool" else "float64" if dtype.startswith("float") else "int64"


def _safe(e: ast.expr) -> bool:
    """Whether all parts of an expression may be computed even if it doesn't ask for them."""
    return not any(
        isinstance(n, ast.Call) or (isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name))
        or (isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)))
        for n in ast.walk(e)
    )  # fmt: skip


def _families(program: Program) -> dict[str, str]:
    """For arrays whose names are exchanged one name for all that may share memory over time."""
    found: dict[str, str] = {}
    for s in p.statements(program.body):
        if isinstance(s, p.Exchange):
            together = {found.get(n, n) for n in s.targets}
            first = min(together)
            found.update({n: first for n in found if found[n] in together})
            found.update(dict.fromkeys(s.targets, first))
    return found
