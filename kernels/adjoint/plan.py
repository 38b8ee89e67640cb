"""How the reverse sweep gets the values that it needs.

A stretch of statements without loops (a segment) computes again what its own reverse needs, from the values that hold
at its beginning. What comes from elsewhere is computed again where that is cheap, else kept: one number for each time
that its block runs. Memory is put back: before an element is overwritten that the reverse sweep will read, its old
value is kept, and written back when the sweep comes to the statement. Kept numbers are therefore as many as the
statements that overwrite something needed run, and neither as many as operations nor as reads.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from jitgrad.kernels.adjoint.overlap import Overlap
from jitgrad.kernels.adjoint.pullback import Step, read_by
from jitgrad.kernels.adjoint.ssa import (
    Block,
    Branch,
    Define,
    Loop,
    New,
    Node,
    Permute,
    Value,
    Values,
    Write,
    inner_blocks,
    loaded,
    names,
)  # fmt: skip

__all__ = ["DEAR", "Plan", "Segment", "items"]

_CHEAP_NODES = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Call, ast.Subscript,
                ast.Attribute, ast.Tuple, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
                ast.expr_context)  # fmt: skip
_MOST_WORK = 8  # operations and loads up to which a value is computed again where it is needed


class Segment(list[Node]):
    """Neighbouring nodes without loops."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


Item = Segment | Node


def items(block: Block) -> list[Item]:
    """The block's nodes, those without loops in segments."""
    found: list[Item] = []
    for node in block.nodes:
        plain = isinstance(node, (Define, Write)) or (isinstance(node, Branch) and node.simple)
        if not plain:
            found.append(node)
        elif found and isinstance(found[-1], Segment):
            found[-1].append(node)
        else:
            found.append(Segment([node]))
    return found


class Plan:
    """Decisions for one program.

    steps: the reverse of each node that has one; divisors: what it divides by, too. asked: values to keep.
    """

    def __init__(
        self, values: Values, active: set[str], steps: dict[Node, list[Step]], divisors: dict[Node, dict[Value, None]],
        asked: Collection[Value] = (),
    ):  # fmt: skip
        self.values, self.active, self.steps, self.divisors, self.asked = values, active, steps, divisors, asked
        self.overlap = Overlap(values)
        self.place: dict[Node, Item] = {}  # the segment or node that a node is in, as the sweep goes through them
        self.kept: dict[Value, Block] = {}  # values kept, by the block that keeps one in each run
        self.again: dict[Value, Block] = {}  # values computed again where this block's reverse begins
        self.within: dict[Item, set[Value]] = {}  # values that a segment computes again
        self.early: dict[Item, set[Value]] = {}  # of those, the ones computed before memory is put back
        self.undone: set[Write] = set()  # writes that are put back
        self.redone: set[Write] = set()  # of those, the ones that the segment itself reads
        self.counts: set[Loop] = set()  # loops whose number of iterations is kept
        self.contents: set[New] = set()  # arrays of a block whose elements are kept when it ends
        self.replaced: set[New] = set()  # where a roaming array's name gets another one: what it was is kept
        self.exchanges: set[Permute] = set()  # those of arrays that the sweep deals with
        self.reached: set[Block] = set()  # blocks in which the sweep has anything to do
        self.written = {values.family(n.array) for n in values.nodes() if isinstance(n, Write)}
        self._settle(values.root)
        self._demand()

    def items(self, block: Block) -> list[Item]:
        """The block's segments and other nodes."""
        return self.parts[block]

    # -- where things are ---------------------------------------------------------------------------

    def _settle(self, block: Block) -> None:
        if not hasattr(self, "parts"):
            self.parts: dict[Block, list[Item]] = {}
        self.parts[block] = items(block)
        for item in self.parts[block]:
            for node in item if isinstance(item, Segment) else [item]:
                self._settle_node(node, item)

    def _settle_node(self, node: Node, item: Item) -> None:
        self.place[node] = item
        for inner in inner_blocks(node):
            if inner.simple:
                for n in inner.nodes:
                    self._settle_node(n, item)
            else:
                self._settle(inner)

    # -- demands ------------------------------------------------------------------------------------

    def _demand(self) -> None:
        for node, steps in self.steps.items():
            self._need_names([*read_by(steps), *(v.name for v in self.divisors.get(node, ()))], self.place[node])
            if steps:
                self._need_way_to(node)
        self._demand_of_paths()
        while True:
            before = len(self.undone), len(self.redone), self._size()
            self._protect_loads()
            self._demand_of_arrays()
            if before == (len(self.undone), len(self.redone), self._size()):
                break

    def _demand_of_paths(self) -> None:
        """Where derivatives of scalars go depends on the way even if no statement on it has a derivative."""
        for node in self.values.nodes():
            if isinstance(node, Branch) and any(m.value.name in self.active for m in node.merges):
                self._need_names(names(node.test), self.place[node])
                self._need_way_to(node)
            elif isinstance(node, Loop) and any({c.start.name, c.final.name} & self.active for c in node.carried):
                self._need_loop(node)
                self._need_way_to(node)
                self.reached.add(node.body)

    def _demand_of_arrays(self) -> None:
        """What allocations and exchanges need for the arrays that the sweep reads, and for their derivatives."""
        read = {self.values.family(_array(v)) for v in self.loads()} | self.measured
        for node in self.values.nodes():
            if not isinstance(node, (New, Permute)):
                continue
            array = node.array if isinstance(node, New) else node.targets[0]
            family = self.values.family(array)
            if family not in self.active and family not in read:
                continue
            if isinstance(node, Permute) or array in self.values.roaming:
                self._need_way_to(node)
                if isinstance(node, New):
                    self.replaced.add(node)
                else:
                    self.exchanges.add(node)
            elif node.block is not self.values.root:
                if family in read:
                    self.contents.add(node)
                self._need_names([n for e in node.shape for n in names(e)], node)

    @property
    def measured(self) -> set[str]:
        """The families of arrays whose sizes the sweep reads again."""
        found = {v for vs in self.within.values() for v in vs} | set(self.again)
        return {self.values.family(n.value.value.id) for v in found if v not in self.kept  # type: ignore[attr-defined]
                for n in ast.walk(v.expression or ast.Constant(0)) if _is_size(n)}  # fmt: skip

    def _size(self) -> int:
        found = len(self.kept) + len(self.again) + sum(map(len, self.within.values())) + len(self.counts)
        return found + len(self.contents) + len(self.replaced) + len(self.exchanges) + len(self.reached)

    def loads(self) -> list[Value]:
        """The elements that the reverse sweep reads again."""
        found = {v for vs in self.within.values() for v in vs} | set(self.again)
        return [v for v in found if loaded(v) is not None and v not in self.kept]

    def _need_way_to(self, node: Node) -> None:
        """What the sweep must know to get to a node: the tests and bounds around it."""
        for block in node.block.ancestors():
            self.reached.add(block)
            owner = block.owner
            if isinstance(owner, Branch):
                self._need_names(names(owner.test), self.place[owner])
            elif isinstance(owner, Loop):
                self._need_loop(owner)

    def _need_loop(self, loop: Loop) -> None:
        if loop.counted:
            self.counts.add(loop)
        if loop.index is not None:
            self._need_names([n for e in loop.bounds for n in names(e)], loop)

    def _need_names(self, wanted: Iterable[str], item: Item) -> None:
        for n in wanted:
            value = self.values.by_name.get(n)
            if value is not None:
                self.need(value, item)

    def need(self, value: Value, item: Item | None) -> None:
        """Have a value at hand in the reverse of an item; None: anywhere in its block."""
        if value.role in ("parameter", "index") or value in self.kept or value in self.again:
            return
        if value.block.holder() is self.values.root:
            self.keep(value)  # the root runs once, so a variable has it to the end
            return
        own = value.node is not None and self.place[value.node] is item and isinstance(item, Segment)
        if own and (value in self.asked or self._is_dear(value)):
            self.keep(value)
        elif own and value.role in ("defined", "merged"):
            assert item is not None
            within = self.within.setdefault(item, set())
            if value not in within:
                within.add(value)
                self._need_names(self._operands(value), item)
                self._need_names(self._tests_around(value), item)
        elif self._is_cheap(value):
            self.again[value] = value.block.holder()
            for n in self._operands(value):
                self.need(self.values.by_name[n], None)
        else:
            self.keep(value)

    def _is_dear(self, value: Value) -> bool:
        """Whether a value in a loop costs more to compute again than to keep: about ten operations."""
        e = value.expression
        called = isinstance(e, ast.Call) and e.func.id in DEAR  # type: ignore[attr-defined]
        if not (called or self._divides_by_dear(e)):
            return False
        # The forward sweep keeps a part of an expression ahead of it: not what may only be computed if a test says so.
        return bool(value.block.loops()) and not is_lazy(value.block)

    def _divides_by_dear(self, e: ast.expr | None) -> bool:
        """Whether an expression waits for a dear call, and then for a division."""
        divisors = [n.right for n in ast.walk(e) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)] if e else []
        values = [self.values.by_name[n].expression for d in divisors for n in names(d)]
        return any(isinstance(v, ast.Call) and v.func.id in DEAR for v in values)  # type: ignore[attr-defined]

    def keep(self, value: Value) -> None:
        """Keep a value in each run of its block."""
        self.kept[value] = value.block.holder()

    def _tests_around(self, value: Value) -> list[str]:
        found = []
        for block in value.block.ancestors():
            if block.simple and isinstance(block.owner, Branch):
                found += names(block.owner.test)
        return found

    def _operands(self, value: Value) -> list[str]:
        if value.role == "defined":
            return names(value.expression)
        branch = value.node
        assert isinstance(branch, Branch)
        merge = next(m for m in branch.merges if m.value is value)
        sides = [s.name for s in (merge.yes, merge.no) if s is not None]
        return [*names(branch.test), *sides]

    def _is_cheap(self, value: Value) -> bool:
        return not value.block.simple and self._work(value, value.block) <= _MOST_WORK

    def _work(self, value: Value, block: Block) -> int:
        """Operations to compute a value where its block's reverse begins."""
        if value.role in ("parameter", "index") or value in self.again or value in self.kept:
            return 0
        if value.block not in block.ancestors() or value.block is self.values.root:
            return 0  # of an outer block: asked for there
        if value.role != "defined" or value.expression is None:
            return _MOST_WORK + 1
        nodes = list(ast.walk(value.expression))
        if any(_is_size(n) and n.value.value.id in self.values.moving for n in nodes):  # type: ignore[attr-defined]
            return _MOST_WORK + 1
        if any(isinstance(n, ast.Call) and n.func.id in _COSTLY for n in nodes):  # type: ignore[attr-defined]
            return _MOST_WORK + 1
        if not all(isinstance(n, _CHEAP_NODES) for n in nodes):
            return _MOST_WORK + 1
        if loaded(value) is not None and self.values.family(_array(value)) in self.written:
            return _MOST_WORK + 1
        own = sum(isinstance(n, (ast.BinOp, ast.Subscript)) for n in nodes)
        return own + sum(self._work(self.values.by_name[n], block) for n in names(value.expression))

    # -- memory -------------------------------------------------------------------------------------

    def _protect_loads(self) -> None:
        """Put back what is overwritten after a load that the sweep repeats."""
        writes = [n for n in self.values.nodes() if isinstance(n, Write)]
        loads = self.loads()
        for write in writes:
            if write not in self.undone and any(self.overlap.overwrites(write, load) for load in loads):
                self.undone.add(write)
        for write in self.undone:
            item = self.place[write]
            assert isinstance(item, Segment)
            self._need_way_to(write)
            for n in [*(n for i in write.index for n in names(i)), *self._tests_of(write)]:
                self._need_early(self.values.by_name[n], item)
            if write not in self.redone and any(self._reads_later(write, load, item) for load in loads):
                self.redone.add(write)
                self._need_names(names(write.amount), item)

    def _tests_of(self, write: Write) -> list[str]:
        found = []
        for block in write.block.ancestors():
            if block.simple and isinstance(block.owner, Branch):
                found += names(block.owner.test)
        return found

    def _reads_later(self, write: Write, load: Value, item: Segment) -> bool:
        assert load.node is not None
        within = load in self.within.get(item, ()) and load.node.order > write.order
        return within and self.overlap.may_meet(write, load)

    def _need_early(self, value: Value, item: Segment) -> None:
        """A value that says what to put back: it can't be computed from what is not yet put back."""
        self.need(value, item)
        if value in self.kept or value not in self.within.get(item, ()):
            return
        closure = self.closure(value, item)
        changed = {self.values.family(w.array) for w in self.undone if self.place[w] is item}
        if any(loaded(v) is not None and self.values.family(_array(v)) in changed for v in closure):
            self.keep(value)
        else:
            self.early.setdefault(item, set()).update(closure)

    def keeps_in(self, loop: Loop) -> bool:
        """Whether numbers are kept in the iterations of a loop."""
        blocks = {*self.kept.values(), *(w.block for w in self.undone), *(x.block for x in self.counts)}
        blocks |= {n.block for n in (*self.contents, *self.replaced)}
        return any(loop in block.loops() for block in blocks)

    def closure(self, value: Value, item: Segment) -> set[Value]:
        """The value and what the segment computes it from."""
        found, waiting = set(), [value]
        while waiting:
            v = waiting.pop()
            if v in found or v in self.kept or v not in self.within.get(item, ()):
                continue
            found.add(v)
            operands: Sequence[str] = [*self._operands(v), *self._tests_around(v)]
            waiting += [self.values.by_name[n] for n in operands]
        return found


def _is_size(node: ast.AST) -> bool:
    """Whether it is ``A.shape[0]``."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)


def _array(value: Value) -> str:
    element = loaded(value)
    return element.value.id if element is not None else ""  # type: ignore[attr-defined]


def is_lazy(block: Block) -> bool:
    """Whether a block is an arm of a conditional expression: of no statement of the program's own."""
    arms = [b.owner for b in block.ancestors() if b.simple]
    return any(m.value.temporary for branch in arms for m in branch.merges)  # type: ignore[union-attr]


DEAR = {
    "exp", "expm1", "log", "log1p", "log2", "log10", "cbrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
    "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma", "digamma", "polygamma", "atan2",
    "hypot", "pow", "fmod", "sqrt",
}  # fmt: skip
_COSTLY = {*DEAR, "sqrt"}
