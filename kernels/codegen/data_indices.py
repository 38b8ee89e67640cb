"""Which parameters of a user's loop decide on its indices by their values.

The shapes of arrays and whole numbers are the same in each call of a combination, so the indices that follow from them
need one check. Those that follow from elements of arrays or from floats may differ from call to call:
``out[index[i]]``, ``x[int(f * i)]``, ``k`` in ``if x[i] > 0: k += 1``.

The text is read without the order of its statements: a variable depends on whatever it is assigned anywhere, on what
decides whether it is assigned, and on what decides how often its loop runs. Which statements run may differ as well:
in ``if x[i] > 0: out[i + 1] = 0`` the first call may not come to the index that is out of bounds. So what decides
whether a statement runs decides on its indices, but for plain variables and numbers (``out[i] = 0``), which loops
elsewhere have, and for those that stand where they are always evaluated, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from jitgrad.kernels.codegen.loop_faults import root
from jitgrad.kernels.words.syntax import copied

__all__ = ["deciding", "sizing"]

_Names = frozenset[str]
_NONE: _Names = frozenset()
# Attributes that say how large an array is, and functions whose arguments say how large their result is.
_SIZES = {"dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"}
_MAKERS = {"arange", "empty", "eye", "full", "identity", "linspace", "ones", "repeat", "reshape", "resize", "zeros"}
# Functions whose results are as large as the values of their arguments decide.
_FINDERS = {"argwhere", "extract", "flatnonzero", "nonzero", "setdiff1d", "unique", "where"}


def deciding(tree: ast.FunctionDef, helpers: dict[str, ast.FunctionDef], outputs: Sequence[str]) -> _Names:
    """The parameters whose values decide on an index of a loop or of one of the functions that it calls.

    outputs: parameters that start as zeros and have only what the loop stores.
    """
    return _Reading(tree, helpers, set(outputs)).found


def sizing(tree: ast.FunctionDef, arrays: Sequence[str]) -> _Names:
    """The parameters whose values decide on the sizes of some arrays of a function that calls no others."""
    sizes = _Reading(tree, {}, set()).sizes
    return _NONE.union(*(sizes.get(n, _NONE) for n in arrays))


class _Reading:
    """A function's variables: what their values depend on, and what their sizes do, by the names of parameters."""

    def __init__(self, tree: ast.FunctionDef, helpers: dict[str, ast.FunctionDef], outputs: set[str]):
        self.tree, self.helpers = tree, {n: t for n, t in helpers.items() if t is not tree}
        names = [a.arg for a in tree.args.args]
        self.values = {n: _NONE if n in outputs else frozenset({n}) for n in names}
        self.sizes: dict[str, _Names] = {}
        self.reads: dict[str, set[str]] = {}  # the variables that a variable is assigned from
        self.reached: dict[str, _Names] = {}  # what decides at least whether a call comes to an index
        self.within: dict[str, _Names] = {}  # of helpers: the parameters that decide on an index of theirs
        self.found: _Names = _NONE
        before: object = None
        while before != (before := self._state()):
            self.reached = {}
            self._statements(tree.body, _NONE, _NONE)
        self.found = self.found.union(*self.reached.values())

    def _state(self) -> object:
        """What grows until the function is read often enough."""
        return dict(self.values), dict(self.sizes), self.found, {n: len(r) for n, r in self.reads.items()}

    # -- statements -----------------------------------------------------------------------------------

    def _statements(self, statements: Sequence[ast.stmt], reach: _Names, leaving: _Names) -> None:
        """Read statements; reach: what decides whether they run; leaving: whether the loops around them are left."""
        for node in statements:
            self._indices(node, reach)
            match node:
                case ast.Assign(targets, value):
                    for target in targets:
                        self._assign(target, value, reach, leaving)
                case ast.AugAssign(target=target, value=value):
                    self._assign(target, ast.Tuple([_as_read(target), value], ast.Load()), reach, leaving)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value, reach, leaving)
                case ast.If(test, body, orelse):
                    self._statements([*body, *orelse], reach | self._value(test), leaving)
                case ast.While(test, body, orelse):
                    self._statements([*body, *orelse], reach | self._value(test), leaving | self._leaving(body))
                case ast.For(target, iterable, body, orelse):
                    # Its values are those of ``range``, whatever decides on the loop, up to the one where it is left.
                    self._assign(target, iterable, self._leaving(body), _NONE)
                    self._statements([*body, *orelse], reach | self._value(iterable), leaving | self._leaving(body))
                case _:
                    inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
                    self._statements(inner, reach, leaving)

    def _leaving(self, body: Sequence[ast.stmt]) -> _Names:
        """What decides on the ``break`` and ``continue`` of a loop, those of loops within it counted as well."""
        found = _NONE
        for node in ast.walk(ast.Module(list(body), [])):
            if isinstance(node, (ast.If, ast.While)):
                if any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node)):
                    found |= self._value(node.test)
        return found

    def _assign(self, target: ast.expr, value: ast.expr, reach: _Names, leaving: _Names) -> None:
        read = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
        for node in ast.walk(target):
            # In ``best[i] = k`` and ``best.real[i] = k`` the array's elements change.
            name = root(node) if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) else ""
            if name and isinstance(getattr(node, "ctx", None), ast.Store):
                self.reads.setdefault(name, set()).update(read)
                # When a loop is left is seen in what its iterations add up.
                control = reach | leaving if self._carried(name) else reach
                self.values[name] = self.values.get(name, _NONE) | self._value(value) | control
                if isinstance(node, ast.Name):
                    self.sizes[name] = self.sizes.get(name, _NONE) | self._size(value) | control

    def _carried(self, name: str) -> bool:
        """Whether a variable's new value follows from its old one, by whatever other variables."""
        seen, waiting = set[str](), [name]
        while waiting:
            new = self.reads.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return name in seen

    # -- expressions ----------------------------------------------------------------------------------

    def _value(self, node: ast.AST) -> _Names:
        """The parameters that an expression's value depends on."""
        match node:
            case ast.Name(name):
                return self.values.get(name, _NONE)
            case ast.Attribute(array, attribute) if attribute in _SIZES:
                return self._size(array)
            case ast.Call(ast.Name("len"), [array]):
                return self._size(array)
        return _NONE.union(*(self._value(n) for n in ast.iter_child_nodes(node)))

    def _size(self, node: ast.AST) -> _Names:
        """The parameters whose values the size of an expression's array depends on."""
        match node:
            case ast.Name(name):
                return self.sizes.get(name, _NONE)
            case ast.Subscript(array, index):
                # An index is a number or an array of them; only the bounds of a slice decide on sizes.
                bounds = [n for n in ast.walk(index) if isinstance(n, ast.Slice)]
                return self._size(array).union(*(self._value(n) for n in bounds))
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name)) if name in _MAKERS | _FINDERS:
                return self._value(node)
            case ast.Call(ast.Name(name)) if name in self.helpers:
                return self._value(node)
        return _NONE.union(*(self._size(n) for n in ast.iter_child_nodes(node)))

    def _indices(self, statement: ast.stmt, reach: _Names) -> None:
        """Add what decides on the indices of a statement, without those of statements within it."""
        for node in _own_nodes(statement):
            if isinstance(node, ast.Subscript):
                self.found |= self._size(node.value)
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                parts = [p for p in parts if not isinstance(p, (ast.Slice, ast.Constant))]
                self.found = self.found.union(*(self._value(p) for p in parts))
                place = f"{ast.unparse(node.value)}[{ast.unparse(node.slice)}]"
                if not all(isinstance(p, ast.Name) for p in parts) and reach <= self.reached.get(place, reach):
                    self.reached[place] = reach
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.helpers:
                self._helper(node.func.id, node)

    def _helper(self, name: str, call: ast.Call) -> None:
        tree = self.helpers[name]
        if name not in self.within:
            self.within[name] = _Reading(tree, self.helpers, set()).found
        given = dict(zip([a.arg for a in tree.args.args], call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg}
        for parameter, value in given.items():
            # An argument of a size that depends on values is indexed there.
            self.found |= self._size(value)
            if parameter in self.within[name]:
                self.found |= self._value(value)
            stored = {root(n) for n in ast.walk(tree) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
            if parameter in stored and (array := root(value)):  # whatever the helper was given may be stored there
                self.values[array] = self.values.get(array, _NONE) | self._value(call)


def _as_read(target: ast.expr) -> ast.expr:
    """The target of an assignment as an expression that reads it."""
    target = copied(target)
    target.ctx = ast.Load()  # type: ignore[attr-defined]
    return target


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, but not its inner statements."""
    waiting: list[ast.AST] = [n for n in ast.iter_child_nodes(statement) if not isinstance(n, ast.stmt)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += ast.iter_child_nodes(node)
