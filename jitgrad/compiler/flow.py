"""Which variables of a function have a value where, and which are read later: what has to cross a border in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from typing import Any

__all__ = ["Flow", "Names", "names_of"]

Set = frozenset[str]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CONSUMERS = {"sum", "any", "all", "max", "min", "list", "tuple", "set", "sorted", "dict", "frozenset"}
_UNCERTAIN = (ast.Try, ast.With, ast.Match, getattr(ast, "TryStar", ast.Try))
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class Names(ast.NodeVisitor):
    """The names of a statement or expression in its function's own scope.

    ``captured``: of these, what functions inside of it have, which may live on; ``outer``: what those assign to.
    """

    def __init__(self) -> None:
        self.reads, self.writes, self.deletes = set[str](), list[str](), set[str]()
        self.captured, self.outer = set[str](), set[str]()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.reads.add(node.id)
        else:
            self.writes.append(node.id)
            if isinstance(node.ctx, ast.Del):
                self.reads.add(node.id)  # it has to have a value
                self.deletes.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.target)
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        consumed = isinstance(node.func, ast.Name) and node.func.id in _CONSUMERS and len(node.args) == 1
        if consumed and isinstance(node.args[0], ast.GeneratorExp):  # which is through when the call is
            self.visit(node.func)
            self._comprehension(node.args[0], False)
            for keyword in node.keywords:
                self.visit(keyword)
        else:
            self.generic_visit(node)

    def visit_ListComp(self, node: Any) -> None:
        self._comprehension(node, False)

    visit_SetComp = visit_DictComp = visit_ListComp

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node, True)

    def _comprehension(self, node: Any, lives_on: bool) -> None:
        inner, targets = Names(), Names()
        for part in ast.iter_child_nodes(node):
            inner.visit(part)
        for generator in node.generators:
            targets.visit(generator.target)
        own = set(targets.writes)
        self.reads |= inner.reads - own
        self.writes += [n for n in inner.writes if n not in own]  # by :=
        self.captured |= (inner.reads if lives_on else inner.captured) - own
        self.outer |= inner.outer

    def visit_Lambda(self, node: Any) -> None:
        self._function(node, [node.body])

    def visit_FunctionDef(self, node: Any) -> None:
        self.writes.append(node.name)
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.writes.append(node.name)
        inner = names_of(node.body)
        self.reads |= inner.reads
        self.captured |= inner.reads
        self.outer |= inner.outer
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)

    def _function(self, node: Any, body: Sequence[ast.AST]) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        inner = names_of(body)
        declared = {n for part in body for n in _declared(part)}
        own = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)} | (set(inner.writes) - declared)
        used = (inner.reads | inner.captured) - own
        self.reads |= used
        self.captured |= used
        self.outer |= (set(inner.writes) & declared) | (inner.outer - own)

    def visit_Import(self, node: Any) -> None:
        self.writes += [(a.asname or a.name).partition(".")[0] for a in node.names]

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.writes.append(node.name)
            self.deletes.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: Any) -> None:
        if name := getattr(node, "name", None) or getattr(node, "rest", None):
            self.writes.append(name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchMapping = visit_MatchAs


def names_of(nodes: ast.AST | Sequence[ast.AST]) -> Names:
    """The names of statements."""
    found = Names()
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        found.visit(node)
    return found


def _declared(node: ast.AST) -> set[str]:
    """Names that are declared global or nonlocal in a function's statement."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return set(node.names)
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.AsyncFunctionDef)):
        return set()
    return {n for child in ast.iter_child_nodes(node) for n in _declared(child)}


def _sure(node: Any) -> set[str]:
    """Names that are read whenever an expression is computed."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, (ast.Lambda, *_COMPREHENSIONS)) or node is None:
        return set()
    if isinstance(node, ast.BoolOp):
        return _sure(node.values[0])
    if isinstance(node, ast.IfExp):
        return _sure(node.test)
    if isinstance(node, ast.Compare):
        return _sure(node.left) | _sure(node.comparators[0])
    return {n for child in ast.iter_child_nodes(node) for n in _sure(child)}


class Flow:
    """The flow of values through the variables of a function.

    around: names outside of it. is_open: whether a with statement is of a kind that lets every error pass.
    ``bound_before`` and ``live_after`` are of statements, by id: names that certainly have a value, names that may be
    read before they are assigned. ``unsafe``: variables that functions inside may find changed, or change.
    """

    def __init__(self, node: ast.FunctionDef, around: Collection[str], is_open: Callable[[ast.With], bool]):
        self._is_open = is_open
        every = names_of(node.body)
        self.declared = {n for s in node.body for n in _declared(s)}
        given = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        self.local: Set = frozenset((set(every.writes) | given) - self.declared)
        self.bound_before: dict[int, Set] = {}
        self.live_after: dict[int, Set] = {}
        self._bind(node.body, frozenset(given))
        self.live(node.body, frozenset(), None)
        self.unsafe = self._unsafe(node, every, given)
        if _CONSUMERS & {*self.local, *around}:  # a generator given to one of these may live on
            self.unsafe |= self.local

    def _unsafe(self, node: ast.FunctionDef, every: Names, given: set[str]) -> set[str]:
        shared = every.captured & self.local
        writes = [*given, *_writes(node.body)]
        unsafe = {n for n in shared if writes.count(n) != 1} | (every.outer & self.local)
        seen = set(given)
        for statement in _simple(node.body):
            here = names_of(statement)
            unsafe |= here.captured & shared - seen - set(here.writes)
            seen |= set(here.writes)
        return unsafe

    # -- which have a value -----------------------------------------------------------------------------

    def bound_after(self, statements: Sequence[ast.stmt]) -> Set:
        """What certainly has a value behind statements that follow each other."""
        return self._bind(statements, self.bound_before[id(statements[0])])

    def _bind(self, statements: Sequence[ast.stmt], bound: Set) -> Set:
        for s in statements:
            self.bound_before[id(s)] = bound
            bound = self._bind_one(s, bound)
        return bound

    def _bind_one(self, s: Any, bound: Set) -> Set:
        deleted = names_of(s).deletes
        if isinstance(s, _ENDS):
            return self.local
        bound |= self.sure(s)
        if isinstance(s, ast.If):
            return self._bind(s.body, bound) & self._bind(s.orelse, bound)
        if isinstance(s, (ast.For, ast.While)):
            bound -= deleted
            target = names_of(s.target).writes if isinstance(s, ast.For) else ()
            self._bind(s.body, bound | frozenset(target))
            self._bind(s.orelse, bound)
            return bound
        if isinstance(s, ast.With) and self._is_open(s):
            return self._bind(s.body, bound)
        if isinstance(s, (*_UNCERTAIN, ast.AsyncFor, ast.AsyncWith)):
            return bound - deleted
        return (bound | (frozenset(names_of(s).writes) & self.local)) - deleted if not _walrus(s) else bound - deleted

    def sure(self, s: Any) -> Set:
        """Names that a statement reads, or fails, before it does anything else but compute."""
        if isinstance(s, (ast.If, ast.While)):
            found = _sure(s.test)
        elif isinstance(s, ast.For):
            found = _sure(s.iter)
        elif isinstance(s, (ast.Expr, ast.Return, ast.Assign, ast.AugAssign)):
            found = _sure(s.value)
            if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
                found.add(s.target.id)
        else:
            found = set()
        return self.local & found

    # -- which are read later ---------------------------------------------------------------------------

    def live(self, statements: Sequence[ast.stmt], after: Set, loop: tuple[Set, Set] | None) -> Set:
        """What may be read before it is assigned, from these statements on.

        after: the same behind them; loop: the same where ``continue`` and where ``break`` lead.
        """
        for s in reversed(statements):
            self.live_after[id(s)] = self.live_after.get(id(s), frozenset()) | after
            after = self._live_before(s, after, loop)
        return after

    def _live_before(self, s: Any, after: Set, loop: tuple[Set, Set] | None) -> Set:
        if isinstance(s, ast.If):
            return self._reads(s.test) | self.live(s.body, after, loop) | self.live(s.orelse, after, loop)
        if isinstance(s, (ast.For, ast.While)):
            return self._live_loop(s, after, loop)
        if isinstance(s, (ast.Break, ast.Continue)):
            return (loop or (after, after))[isinstance(s, ast.Break)]
        if isinstance(s, (ast.Return, ast.Raise)):
            return self._reads(s)
        if isinstance(s, ast.With) and self._is_open(s):
            return self._reads(*s.items) | self.live(s.body, after, loop)
        if isinstance(s, (*_UNCERTAIN, ast.AsyncFor, ast.AsyncWith)):
            return after | self._reads(s) | (loop[0] | loop[1] if loop else frozenset())
        written = frozenset() if _walrus(s) else frozenset(names_of(s).writes)
        return (after - written) | self._reads(s)

    def _live_loop(self, s: Any, after: Set, loop: tuple[Set, Set] | None) -> Set:
        leave = self.live(s.orelse, after, loop)
        header = self._reads(s.test) if isinstance(s, ast.While) else self._reads(s.target)
        target = frozenset(names_of(s.target).writes) if isinstance(s, ast.For) else frozenset()
        head = leave | header
        while True:
            new = head | (self.live(s.body, head, (head, after)) - target)
            if new == head:
                return head | (self._reads(s.iter) if isinstance(s, ast.For) else frozenset())
            head = new

    def _reads(self, *nodes: ast.AST) -> Set:
        return self.local & names_of(list(nodes)).reads

    def writes(self, statements: Collection[ast.stmt]) -> Set:
        """The variables that statements may assign to."""
        return self.local & set(names_of(list(statements)).writes)


def _writes(statements: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign to, those in loops twice."""
    found: list[str] = []
    for s in statements:
        here = names_of(s)
        found += here.writes * (2 if isinstance(s, (ast.For, ast.While)) else 1) + list(here.deletes)
    return found


def _walrus(s: ast.AST) -> bool:
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(s))


def _simple(statements: Sequence[ast.stmt]) -> list[Any]:
    """Statements without others in them, and the heads of the others, in the order of the text."""
    found: list[Any] = []
    for s in statements:
        if isinstance(s, (ast.If, ast.For, ast.While, ast.With)):
            found += [n for n in ast.iter_child_nodes(s) if not isinstance(n, ast.stmt)]
            found += _simple([*s.body, *getattr(s, "orelse", [])])
        else:
            found.append(s)
    return found
