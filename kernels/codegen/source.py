"""The text of a hand-written loop, made self-contained.

What a loop names besides its parameters is written out before it: numbers as constants, plain Python
functions and ``@njit`` functions as inlined functions. So the text alone decides the machine code.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Callable, Sequence, Set
from typing import Any

from jitgrad.kernels.codegen.rule_text import INLINE, retype
from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.syntax import (
    SourceError,
    Transformer,
    definition,
    lines_around,
    nodes,
    parameters,
    read_once,
    ships_with_jitgrad,
)  # fmt: skip

__all__ = ["ANY_ORDER", "ONE_VECTOR", "Definition", "LoopSource", "SourceError", "bases", "makes_arrays"]

# The end of a line ``for ...:`` that says that iterations may run at once: see `kernels/loop_marks.py`.
ANY_ORDER = "  # in any order"
# The same for a loop that is to be vectorised without interleaving.
ONE_VECTOR = "  # one vector at a time"

# Functions that write to an array, and the position of that among their arguments.
_WRITING = {
    "gemm": (5,), "gemm_part": (5,), "product_tile": (10,), "squares_tile": (10,), "sum_tile": (10,),
    "gradient_places": (4,), "tile_places": (4,), "tile_results": (4,), "copy_numbers": (3,), "draw": (0, 1),
    "stream": (0,), "drain": (),
}  # fmt: skip
_CHANGING = ("fill", "partition", "sort")  # methods of arrays that write to them
# Methods and functions of NumPy whose result may share memory with an array.
_VIEWS = (
    "asarray", "ascontiguousarray", "diagonal", "expand_dims", "ravel", "reshape", "squeeze", "swapaxes", "transpose",
    "view",
)  # fmt: skip
_NUMBERS = ("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides")  # attributes that hold no elements
# Names that every kernel's text may use: the compiler's prelude and the types that `Loop.text` defines.
_KNOWN = {*dir(builtins), "np", "math", "T", "A", "W", "prange", "njit", "matrix_in", "prefetch", "scratch", *_WRITING}
_CONSTANTS = (bool, int, float, complex, str)
# What makes arrays in a loop's text, and what returns something, which might be one.
_ALLOCATION = re.compile(r"\bnp\.(empty|zeros|ones|full|array|arange)\b|\.(copy|ravel)\(")
_RETURN = re.compile(r"\breturn .")


def makes_arrays(text: str) -> bool:
    """Whether a loop's text makes arrays, so that references to them have to be counted: 20 to 40 ns each time."""
    return _ALLOCATION.search(text) is not None


class Definition:
    """A function's syntax tree, with the line numbers of the file that it stands in."""

    def __init__(self, file: str, tree: ast.FunctionDef):
        self.file, self.tree = file, tree


class LoopSource:
    """Syntax tree of a loop, the words it calls, and the text of everything else that it names.

    It is parsed when first asked for: a process runs few of all loops.
    """

    def __init__(
        self, function: Callable[..., Any], also: Set[str] = frozenset(), inline: str = INLINE,
        uncounted: str | None = None,
    ):  # fmt: skip
        """``also``: further names that the text may use; ``inline``: what decorates helper functions.

        uncounted: what decorates those that need not count references to arrays, since they neither make nor return
        any; by default the same.
        """
        self.known, self.inline, self.uncounted = _KNOWN | also, inline, uncounted or inline
        self.function = getattr(function, "py_func", function)  # an @njit function's Python original
        self.name = self.function.__name__
        self.file = self.function.__code__.co_filename
        self.parameters = list(parameters(self.function))
        # A user's file may be edited, or its notebook cell run again, before the loop is parsed.
        self._lines = None if ships_with_jitgrad(self.function.__module__) else lines_around(self.function)
        self._named: dict[str, str | Definition] = {}
        self._words: set[str] = set()

    @read_once
    def tree(self) -> ast.FunctionDef:
        """The loop's definition, everything that it names resolved."""
        return self._resolve(self.function, _tree(self.function, self._lines))

    @property
    def words(self) -> set[str]:
        """The words that the loop and its helpers call."""
        return self._words if self.tree else set()

    @property
    def named(self) -> dict[str, str | Definition]:
        """What the loop names, in order of need: a constant's text or a helper's definition, by name."""
        return self._named if self.tree else {}

    @read_once
    def writes(self) -> tuple[int, ...]:
        """Positions of the parameters that the loop or a helper that it calls stores into."""
        return self._written(self.tree)

    def _written(self, tree: ast.FunctionDef) -> tuple[int, ...]:
        """Positions of a function's parameters that it stores into."""
        names = [a.arg for a in tree.args.args]
        roots = _roots(tree, names)
        every = list(nodes(tree))
        places: list[ast.expr] = [n for n in every if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
        for call in [n for n in every if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]:
            name = call.func.id  # type: ignore[attr-defined]
            places += [call.args[k] for k in _WRITING.get(name, ()) if k < len(call.args)]
            helper = self.named.get(name)
            if isinstance(helper, Definition) and helper.tree is not tree:
                places += [call.args[k] for k in self._written(helper.tree) if k < len(call.args)]
        methods = [n.func for n in every if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        places += [m.value for m in methods if m.attr in _CHANGING]
        stored = {root for place in places for base in bases(place) for root in roots.get(base, ())}
        return tuple(k for k, p in enumerate(names) if p in stored)

    def text(self) -> str:
        """Constants, helper functions and the loop; words are the emitter's to add."""
        loop = retype(ast.unparse(self.tree))
        named = [n if isinstance(n, str) else self._helper(ast.unparse(n.tree)) for n in self.named.values()]
        return "\n".join([*named, loop]) + "\n"

    def _helper(self, text: str) -> str:
        counts = makes_arrays(text) or _RETURN.search(text)
        return f"{self.inline if counts else self.uncounted}\n{retype(text)}"

    def _resolve(self, function: Callable[..., Any], tree: ast.FunctionDef) -> ast.FunctionDef:
        closure = inspect.getclosurevars(function)
        scope = {**closure.globals, **closure.nonlocals}
        tree = _NamePrange(scope).visit(tree)
        for name in _free_names(tree):
            if name in self._named or name in (self.name, tree.name):
                continue
            value: Any = scope.get(name)
            # A word's name, unless the file has a function of its own under it.
            if name in WORDS and not inspect.isfunction(value):
                self._words.add(name)
            elif _is_constant(value):
                self._named[name] = f"{name} = {value!r}"
            elif inspect.isfunction(getattr(value, "py_func", value)):
                self._inline(name, getattr(value, "py_func", value))
            elif name not in self.known:
                self._unknown(function, tree, name, value)
        return tree

    def _inline(self, name: str, helper: Callable[..., Any]) -> None:
        tree = _tree(helper)
        tree.name = name
        # First what the helper names, for it must stand before the helper.
        tree = self._resolve(helper, tree)
        self._named[name] = Definition(helper.__code__.co_filename, tree)

    def _unknown(self, function: Callable[..., Any], tree: ast.FunctionDef, name: str, value: Any) -> None:
        line = next(n.lineno for n in nodes(tree) if isinstance(n, ast.Name) and n.id == name)
        what = f"a {type(value).__name__}" if value is not None else "not defined"
        raise SourceError(
            f"{self.name}: the name {name!r} at {function.__code__.co_filename}:{line} is {what}; a loop kernel may "
            "name its parameters, np, math, the dtype T, numbers, words such as exp, and Python functions"
        )


class _NamePrange(Transformer):
    """Writes Numba's ``prange`` as the name ``prange``, however a file imports it."""

    def __init__(self, scope: dict[str, Any]):
        # Who names Numba's ``prange`` has imported it; another thread may be importing it now.
        self.scope, self.numba = scope, sys.modules.get("numba")
        self.prange = getattr(self.numba, "prange", self)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if self.scope.get(node.id) is self.prange:
            node.id = "prange"
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        of_numba = isinstance(node.value, ast.Name) and self.scope.get(node.value.id, self) is self.numba
        if node.attr == "prange" and of_numba:
            return ast.copy_location(ast.Name("prange", ast.Load()), node)
        return self.generic_visit(node)


def _is_constant(value: Any) -> bool:
    return isinstance(value, _CONSTANTS) or (isinstance(value, tuple) and all(map(_is_constant, value)))


def _tree(function: Callable[..., Any], lines: list[str] | None = None) -> ast.FunctionDef:
    tree = definition(function, "loop", lines)
    tree.returns = None
    tree.name = function.__name__  # `loops.loss.pointwise` makes loops of one text and names them apart
    for argument in tree.args.args:
        argument.annotation = None
    return tree


def _free_names(tree: ast.FunctionDef) -> list[str]:
    local = {a.arg for a in tree.args.args}
    names = [n for n in nodes(tree) if isinstance(n, ast.Name)]
    local |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return [name for name in dict.fromkeys(n.id for n in names if isinstance(n.ctx, ast.Load)) if name not in local]


def bases(node: ast.expr) -> set[str]:
    """The names of the arrays that an expression may be, or be an element or a part of."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Call):
        return _viewed(node)
    if isinstance(node, (ast.Subscript, ast.Attribute, ast.Starred, ast.NamedExpr)):
        return set() if getattr(node, "attr", "") in _NUMBERS else bases(node.value)
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else getattr(node, "elts", [])
    return {name for part in parts for name in bases(part)}


def _viewed(call: ast.Call) -> set[str]:
    """The names of the arrays that a call's result may be a view of."""
    function = call.func
    if isinstance(function, ast.Name):
        looked_at = {"matrix_in": 1, "enumerate": 1, "reversed": 1, "zip": len(call.args)}.get(function.id, 0)
        return {n for a in call.args[:looked_at] for n in bases(a)}
    if not isinstance(function, ast.Attribute) or function.attr not in _VIEWS:
        return set()
    of_numpy = isinstance(function.value, ast.Name) and function.value.id == "np"
    return bases(call.args[0]) if of_numpy and call.args else bases(function.value)


def _bindings(tree: ast.FunctionDef) -> list[tuple[str, ast.expr]]:
    """The names that a function gives, each with the expression that it stands for, or for a part of."""
    found: list[tuple[str, ast.expr]] = []

    def bind(target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            found.append((target.id, value))
        elif isinstance(target, ast.Starred):
            bind(target.value, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            given = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            starred = any(isinstance(e, ast.Starred) for e in [*target.elts, *given])
            each = len(given) == len(target.elts) and not starred
            for k, element in enumerate(target.elts):
                bind(element, given[k] if each else value)

    for node in nodes(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind(target, node.value)
        elif isinstance(node, ast.For):
            bind(node.target, node.iter)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            bind(node.target, node.value)
    return found


def _roots(tree: ast.FunctionDef, parameters: Sequence[str]) -> dict[str, set[str]]:
    """For each name the parameters into whose memory a store to it may go: of ``row = out[r]`` that is ``out``."""
    bindings = [(name, bases(value)) for name, value in _bindings(tree)]
    roots = {p: {p} for p in parameters}
    for _ in bindings:  # a part of a part: as many rounds as there can be steps
        before = {name: set(found) for name, found in roots.items()}
        for name, known in bindings:
            if found := {root for base in known for root in roots.get(base, ())}:
                roots.setdefault(name, set()).update(found)
        if roots == before:
            break
    return roots
