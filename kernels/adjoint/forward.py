"""The forward sweep: the program's own statements, and what the reverse sweep needs kept on the way.

Each block that keeps something counts its runs (``at_i``). What it keeps is an array for each value, with one element
for each run; it is made as long as needed where the number of runs is known beforehand, and grows where it isn't.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jitgrad.kernels.adjoint import program as p
from jitgrad.kernels.adjoint.bases import bases_of, by_bases, openings
from jitgrad.kernels.adjoint.checkpoint import Stretches
from jitgrad.kernels.adjoint.overlap import sum_text
from jitgrad.kernels.adjoint.plan import Plan
from jitgrad.kernels.adjoint.program import Statement
from jitgrad.kernels.adjoint.rows import is_plain
from jitgrad.kernels.adjoint.ssa import Block, Branch, Loop, New, Value, Values, Write, names
from jitgrad.kernels.adjoint.write import element, expression_text, place_in_row, range_text, statement_lines
from jitgrad.kernels.words.syntax import copied

__all__ = ["Forward"]

# What a counter begins with. A literal has a type of its own in Numba, which goes through the whole function again for
# every loop around until it has found that the counter is an integer: a tenth of the time of compiling.
_NONE_YET = "int(0)"


class Forward:
    """The forward sweep of a plan. unique: makes names that are not in use."""

    def __init__(
        self, plan: Plan, unique: Callable[[str], str], stretches: Sequence[Stretches] = (),
        straight: Collection[Loop] = (),
    ):  # fmt: skip
        self.straight = {*straight, *(n for n in plan.values.nodes() if isinstance(n, Loop) and is_plain(plan, n))}
        self.counted: dict[Value | Write | Loop, str] = {}  # what is kept, by counters
        # (the row that holds it, the array that the row is a part of)
        self.rows: dict[Block, dict[Value | Write | Loop, tuple[str, str]]] = defaultdict(dict)
        self.lengths: dict[Block, str] = {}
        self.plan, self.values, self.unique = plan, plan.values, unique
        self.stretches = {id(s.origin): s for s in stretches}
        self.program, self.root = plan.values.program, plan.values.root
        self.before: dict[int, list[str]] = defaultdict(list)  # lines ahead of a statement, by its id
        self.after: dict[int, list[str]] = defaultdict(list)
        self.begin: dict[int, list[str]] = defaultdict(list)  # lines where a list of statements begins
        self.end: dict[int, list[str]] = defaultdict(list)
        self.first: list[str] = []
        self.counters: dict[Block, str] = {}
        self.fields: dict[Block, list[tuple[str, str]]] = defaultdict(list)  # (array of kept numbers, dtype)
        self.field_of: dict[Value | Write | Loop, str] = {}
        self.content_of: dict[New, tuple[str, str]] = {}  # (array of kept numbers, its counter)
        self.replaced: dict[str, tuple[str, str, str, str]] = {}  # {array: what it stood for}:
        # the names of an array of sizes, of its counter, of an array of elements and of its counter
        self.together = self._kept_together()
        self.columns: Counter[Block] = Counter()
        self.trips: dict[Loop, str] = {}
        self.named: dict[int, dict[str, str]] = defaultdict(dict)  # a statement's calls that have got names, by dump
        self.bases = defaultdict(list, {id(x.origin): bases_of(plan, x, self._known, unique) for x in self.straight})
        self._place()

    def lines(self) -> list[str]:
        """The sweep's lines, without its end."""
        return [*self.first, *self._body(self.program.body)]

    # -- what is kept -------------------------------------------------------------------------------

    def _place(self) -> None:
        for value, block in sorted(self.plan.kept.items(), key=lambda kept: _place_and_name(kept[0])):
            self._keep_value(value, block)
        for write in sorted(self.plan.undone, key=lambda w: w.order):
            name = self._field(write, write.block.holder(), write.array, self.values.program.kinds[write.array].dtype)
            store = write.origin
            assert isinstance(store, p.Store)
            self.before[id(store)].append(f"{name} = {element(store.array, store.index)}")
        for loop in sorted(self.plan.counts, key=lambda loop: loop.order):
            self._count(loop)
        for new in sorted(self.plan.contents, key=lambda n: n.order):
            self._keep_content(new)
        for array in sorted({n.array for n in self.plan.replaced}):
            # The name has an array on all paths.
            kind = self.program.kinds[array]
            self.first.append(f"{array} = np.empty(({'0, ' * (kind.ndim or 0)}), {_type(kind.dtype)})")
            self._keep_replaced([n for n in self.plan.replaced if n.array == array])
        for block in {**self.fields, **self.columns}:
            if self.fields[block] or self.columns[block]:
                self._make_room(block)
        for block in self.rows:
            if self._by_rows(block):
                self._take_rows(block)

    def _kept_together(self) -> dict[Block, str]:
        """Arrays with a row for each run of a block that keeps several floats.

        In arrays of their own, which often lie as far apart as memory's pages are long, stores would wait for loads.
        """
        kept = [b for v, b in self.plan.kept.items() if v.kind.dtype == "float64"]
        kept += [w.block.holder() for w in self.plan.undone if self.program.kinds[w.array].dtype == "float64"]
        blocks = [b for b in dict.fromkeys(kept) if b is not self.root and b.owner not in self.straight]
        return {b: self.unique("saved") for b in blocks if kept.count(b) > 1}

    def _keep_value(self, value: Value, block: Block) -> None:
        dtype = value.kind.dtype
        if _may_lack(value, set()):
            # The line that keeps it runs on all paths, also on those that assign nothing to the variable.
            line = f"{expression_text(value.now)} = {_zero(dtype)}"
            self.first += [] if line in self.first else [line]
        if block is self.root:
            if ast.unparse(value.now) != value.name:
                if value.block.simple:
                    self.first.append(f"{value.name} = {_zero(dtype)}")
                self._put(value, f"{value.name} = {expression_text(value.now)}")
            elif value.block.simple:
                self.first.append(f"{value.name} = {_zero(dtype)}")
            return
        name = self._field(value, block, value.name, dtype)
        self._put(value, f"{name} = {expression_text(value.now)}")

    def _put(self, value: Value, line: str) -> None:
        if value.role == "carried":
            self.begin[id(_statements_of(value.block))].append(line)
            return
        node = value.node
        assert node is not None
        if not value.temporary:
            self.after[id(node.origin)].append(line)
        elif not isinstance(value.expression, ast.Call):
            self.before[id(node.origin)].append(line)
        else:  # a call that costs: the statement then reads the name
            computed = expression_text(self._with_names(value.now, node.origin))
            self.named[id(node.origin)][ast.dump(value.now)] = value.name
            place = line.split(" = ")[0]
            self.before[id(node.origin)].append(f"{value.name} = {computed}")
            if place != value.name:
                self.before[id(node.origin)].append(f"{place} = {value.name}")

    def _field(self, key: Value | Write | Loop, block: Block, base: str, dtype: str) -> str:
        """Where a number is kept: ``saved_x[at_i]``; at the root, where there is one, ``saved_x``."""
        if dtype == "float64" and block in self.together:
            column = self.columns[block]
            self.columns[block] += 1
            self.field_of[key] = f"{self.together[block]}[{self._counter(block)}, {column}]"
            return self.field_of[key]
        name = self.unique(f"saved_{base}")
        if block is self.root:
            self.field_of[key] = name
            if isinstance(key, Write) and key.block.simple:
                self.first.append(f"{name} = {_zero(dtype)}")
            return name
        counter = self._counter(block)
        self.fields[block].append((name, dtype))
        self.field_of[key] = self.counted[key] = f"{name}[{counter}]"
        if block.owner in self.straight:
            row = self.unique(f"row_{base}")
            self.rows[block][key] = row, name
            if self._by_rows(block):
                self.field_of[key] = f"{row}[{self._place_in_row(block)}]"
        return self.field_of[key]

    def _by_rows(self, block: Block) -> bool:
        """Whether what is kept of a loop goes into rows: there is room for all of it when the loop begins."""
        return block.owner in self.straight and self._hoisted(block)[0] is not None

    def _place_in_row(self, block: Block) -> str:
        origin = block.owner.origin  # type: ignore[union-attr]
        assert isinstance(origin, p.For)
        return place_in_row(ast.Name(origin.index, ast.Load()), origin.start, origin.step)

    def _take_rows(self, block: Block) -> None:
        """Rows ahead of a loop."""
        loop, counter, length = block.owner, self.counters[block], self.lengths[block]
        assert isinstance(loop, Loop) and isinstance(loop.origin, p.For)
        origin = loop.origin
        lines = [f"{length} = len({range_text(origin.start, origin.stop, origin.step)})"]
        lines += [f"{row} = {name}[{counter}:{counter} + {length}]" for row, name in self.rows[block].values()]
        self.before[id(origin)] += lines
        self.after[id(origin)].insert(0, f"{counter} += {length}")

    def _counter(self, block: Block) -> str:
        if block not in self.counters:
            owner = block.owner
            name = "at"
            if isinstance(owner, Loop) and isinstance(owner.origin, p.For):
                name = f"at_{owner.origin.index}"
            self.counters[block] = self.unique(name)
            self.first.append(f"{self.counters[block]} = {_NONE_YET}")
            if isinstance(owner, Loop) and owner in self.straight:
                self.lengths[block] = self.unique(f"n_{owner.origin.index}")  # type: ignore[attr-defined]
            if not self._by_rows(block):
                self.end[id(_statements_of(block))].append(f"{self.counters[block]} += 1")
        return self.counters[block]

    def _count(self, loop: Loop) -> None:
        counter = self.trips[loop] = self.unique("trips")
        self.before[id(loop.origin)].append(f"{counter} = {_NONE_YET}")
        self.begin[id(_statements_of(loop.body))].insert(0, f"{counter} += 1")
        holder = loop.block.holder()
        if holder is not self.root:
            self.after[id(loop.origin)].append(f"{self._field(loop, holder, counter, 'int64')} = {counter}")
        else:
            self.field_of[loop] = counter

    def _keep_content(self, new: New) -> None:
        """All elements of an array that a block allocates, when the block ends."""
        array, kind = new.array, self.program.kinds[new.array]
        name, counter = self.unique(f"saved_{array}"), self.unique(f"at_{array}")
        self.first += [f"{name} = np.empty(0, {_type(kind.dtype)})", f"{counter} = {_NONE_YET}"]
        self.content_of[new] = name, counter
        lines = [
            f"if {counter} + {array}.size > {name}.size:",
            f"    {name} = grown({name}, {counter} + {array}.size)",
            f"{name}[{counter}:{counter} + {array}.size] = {array}.ravel()",
            f"{counter} += {array}.size",
        ]
        self.end[id(_statements_of(new.block.holder()))] += lines

    def _keep_replaced(self, news: Sequence[New]) -> None:
        """The sizes and elements of the array that a name stands for, when the name gets another one."""
        array, kind = news[0].array, self.program.kinds[news[0].array]
        sizes, at = self.unique(f"sizes_{array}"), self.unique(f"at_sizes_{array}")
        name, counter = self.unique(f"replaced_{array}"), self.unique(f"at_replaced_{array}")
        self.first += [f"{sizes} = np.empty(0, np.int64)", f"{at} = {_NONE_YET}"]
        self.first += [f"{name} = np.empty(0, {_type(kind.dtype)})", f"{counter} = {_NONE_YET}"]
        self.replaced[array] = sizes, at, name, counter
        ndim = kind.ndim or 0
        for new in news:
            self.before[id(new.origin)] += [
                f"if {at} + {ndim} > {sizes}.size:",
                f"    {sizes} = grown({sizes}, {at} + {ndim})",
                *(f"{sizes}[{at} + {k}] = {array}.shape[{k}]" for k in range(ndim)),
                f"{at} += {ndim}",
                f"if {counter} + {array}.size > {name}.size:",
                f"    {name} = grown({name}, {counter} + {array}.size)",
                f"{name}[{counter}:{counter} + {array}.size] = {array}.ravel()",
                f"{counter} += {array}.size",
            ]

    # -- room for it --------------------------------------------------------------------------------

    def _make_room(self, block: Block) -> None:
        loop, trips = self._hoisted(block)
        counter = self.counters[block]
        arrays = [(name, dtype, 0) for name, dtype in self.fields[block]]
        if self.columns[block]:
            arrays.append((self.together[block], "float64", self.columns[block]))
        for name, dtype, columns in arrays:
            shape = f"({{}}, {columns})" if columns else "{}"
            if loop is not None and loop.block is self.root:
                room = shape.format(" * ".join(trips))
                self.before[id(loop.origin)].append(f"{name} = np.empty({room}, {_type(dtype)})")
                continue
            self.first.append(f"{name} = np.empty({shape.format(0)}, {_type(dtype)})")
            need = f"{counter} + {' * '.join(trips) or '1'}"
            lines = [f"if {need} > {name}.shape[0]:", f"    {name} = grown({name}, {need})"]
            if loop is not None:
                self.before[id(loop.origin)] += lines
            else:
                statements = id(_statements_of(block))
                self.begin[statements] = lines + self.begin[statements]

    def _hoisted(self, block: Block) -> tuple[Loop | None, list[str]]:
        """The outermost loop around a block ahead of which it is known how often the block runs, and the factors."""
        found: Loop | None = None
        trips: list[str] = []
        inner: list[Loop] = []
        for loop in block.loops():
            if id(loop.origin) in self.stretches:
                break  # its iterations are run in stretches
            inner.append(loop)
            if loop.index is None:
                break
            lengths = [self._length(one, loop, inner) for one in reversed(inner)]
            if None in lengths:
                break
            found, trips = loop, [n for n in lengths if n is not None]
        return found, trips

    def _length(self, loop: Loop, outer: Loop, around: Sequence[Loop]) -> str | None:
        """How often a loop's body runs at most in each run of it, by what is known ahead of a loop around it.

        Elements that aren't used cost no memory: the system gives it out when it is written to.
        """
        if all(self._known(n, outer) for b in loop.bounds for n in names(b)):
            return self._trips(loop)
        overlap = self.plan.overlap
        start, stop, step = overlap.sum_of(loop.bounds[0]), overlap.sum_of(loop.bounds[1]), ast.unparse(loop.bounds[2])
        if start is None or stop is None or step not in ("1", "-1"):
            return None
        sign = int(step)
        number = {n: sign * (stop.get(n, 0) - start.get(n, 0)) for n in {*start, *stop}}
        most = overlap.extreme(number, True, {x.index.name for x in around if x.index is not None})
        if most is None or not all(self._known(n, outer) for n, f in most.items() if n and f and "." not in n):
            return None
        variables = {n: expression_text(self.values.by_name[n].now) for n in most if n in self.values.by_name}
        return f"max(0, {sum_text(most, variables)})"

    def _known(self, name: str, loop: Loop) -> bool:
        """Whether a value's variable holds it ahead of a loop and as long as that runs."""
        value = self.values.by_name[name]
        if loop.body in value.block.ancestors() or not isinstance(value.now, ast.Name):
            return False
        return loop.entry.get(value.now.id) is value and self._unchanged(value, loop)

    def _unchanged(self, value: Value, loop: Loop) -> bool:
        variable = value.now.id  # type: ignore[attr-defined]
        return not any(isinstance(s, p.Assign) and s.target == variable for s in p.statements([loop.origin]))

    def _trips(self, loop: Loop) -> str:
        start, stop, step = (_in_variables(b, self.values) for b in loop.bounds)
        return f"len({range_text(start, stop, step)})"

    # -- lines --------------------------------------------------------------------------------------

    def _body(self, body: list[Statement]) -> list[str]:
        lines = list(self.begin[id(body)])
        for s in body:
            lines += [*self.before[id(s)], *self._statement(s), *self.after[id(s)]]
        return [*lines, *self.end[id(body)]]

    def iteration(self, loop: Loop) -> list[str]:
        """The lines of a loop's body, what is kept in it included."""
        return self._body(_statements_of(loop.body))

    def _with_names(self, e: ast.expr, s: Statement) -> ast.expr:
        """An expression of a statement with the names of calls that were computed ahead of it."""
        found: ast.expr = _Names(self.named[id(s)]).visit(copied(e)) if self.named[id(s)] else e
        return found

    def _statement(self, s: Statement) -> list[str]:
        if self.named[id(s)]:
            parts = {f.name: getattr(s, f.name) for f in dataclasses.fields(s)}
            changed: dict[str, Any] = {
                n: self._with_names(e, s) for n, e in parts.items() if isinstance(e, ast.expr)
            }
            if isinstance(s, p.Store):
                changed["index"] = tuple(self._with_names(i, s) for i in s.index)
            return self._plain_statement(dataclasses.replace(s, **changed))
        return self._plain_statement(s)

    def _plain_statement(self, s: Statement) -> list[str]:
        if isinstance(s, p.If):
            lines = [f"if {expression_text(s.test)}:", *_indented(self._body(s.body) or ["pass"])]
            orelse = self._body(s.orelse)
            return [*lines, "else:", *_indented(orelse)] if orelse else lines
        if isinstance(s, p.For) and id(s) in self.stretches:
            return self.stretches[id(s)].forward()
        if isinstance(s, (p.For, p.While)):
            test = f"while {expression_text(s.test)}:" if isinstance(s, p.While) else (
                f"for {s.index} in {range_text(s.start, s.stop, s.step)}:")  # fmt: skip
            leave = [f"if {s.leave}:", "    break"] if s.leave else []
            bases = self.bases[id(s)]
            inner = by_bases([*self._body(s.body), *leave], bases)
            return [*openings(bases), test, *_indented(inner or ["pass"])]
        return statement_lines([s], self.program.kinds)


class _Names(ast.NodeTransformer):
    """Puts names in the place of expressions, which are given by their dumps."""

    def __init__(self, names: dict[str, str]):
        self.names = names

    def visit(self, node: ast.AST) -> Any:
        name = self.names.get(ast.dump(node)) if isinstance(node, ast.Call) else None
        return ast.Name(name, ast.Load()) if name is not None else self.generic_visit(node)


def _place_and_name(value: Value) -> tuple[int, str]:
    return value.node.order if value.node is not None else 0, value.name


def _statements_of(block: Block) -> list[Statement]:
    """The program's statements that a block stands for."""
    owner = block.owner
    assert owner is not None
    origin = owner.origin
    if isinstance(owner, Branch):
        assert isinstance(origin, p.If)
        return origin.body if block is owner.body else origin.orelse
    return origin.body  # type: ignore[attr-defined]


def _may_lack(value: Value | None, seen: set[Value]) -> bool:
    """Whether there are paths to where a value is defined on which nothing was assigned to its variable."""
    if value is None:
        return True
    node = value.node
    if value in seen or value.role not in ("carried", "final", "merged"):
        return False
    seen.add(value)
    if isinstance(node, Loop):
        carry = next(c for c in node.carried if value in (c.start, c.final))
        return _may_lack(carry.first, seen)
    assert isinstance(node, Branch)
    merge = next(m for m in node.merges if m.value is value)
    return _may_lack(merge.yes, seen) or _may_lack(merge.no, seen)


def _in_variables(e: ast.expr, values: Values) -> ast.expr:
    """An expression of values by the program's variables that hold them."""

    class Renamed(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return values.by_name[node.id].now if node.id in values.by_name else node

    return Renamed().visit(copied(e))


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _zero(dtype: str) -> str:
    return {"bool": "False", "int64": "0"}.get(dtype, "0.0")


def _type(dtype: str) -> str:
    return "np.bool_" if dtype == "bool" else f"np.{dtype}"

