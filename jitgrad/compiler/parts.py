"""A function in parts: what can't be compiled runs as it is, the stretches between are functions, compiled each.

    loss = loss_of(net(x), y)          loss, = part0(x, y)
    loss.backward()
    if loss.item() < best:             if loss.item() < best:
        best = loss.item()                 best = loss.item()
    return loss * 2                    return part1(loss)

The function is cut at statements: of its body, of loops and branches in it, and of blocks without gradients. Variables
that are assigned before a border and read behind it are what a stretch returns, or gets. Errors and ``return`` leave
the function from anywhere, so nothing is cut in ``try``, nor where a variable might have no value yet.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from jitgrad.compiler.definitions import (
    DEFINITION,
    NotRewritable,
    code_of,
    definition,
    function_of,
    without_annotations,
    without_private_names,
)
from jitgrad.compiler.flow import Flow, names_of
from jitgrad.compiler.trust import static_attribute
from jitgrad.core.grad_mode import enable_grad, no_grad, set_grad_enabled
from jitgrad.core.inference import inference_mode
from jitgrad.kernels.words.syntax import copied
from jitgrad.nn.modules.global_hooks import call_hooks
from jitgrad.nn.modules.module import Module

__all__ = ["Cut", "Parts", "Stretch", "parts_of", "positional_names"]

_PART = "jitgrad_part"
_ADDED = "jitgrad_added"  # an attribute of statements that are not the function's
_DONE, _VALUE = "jitgrad_done", "jitgrad_value"
_MODES: tuple[Any, ...] = (no_grad, enable_grad, set_grad_enabled, inference_mode)
_WORTH = (ast.Call, ast.BinOp, ast.Subscript, ast.AugAssign, ast.UnaryOp, ast.Compare)
_REFUSED = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_FRAMES = {"locals", "vars", "eval", "exec", "dir"}  # which look at the variables of the function around them
_NEVER = (ast.Global, ast.Nonlocal, ast.ClassDef, ast.Match, ast.Import, ast.ImportFrom)


class Cut(NamedTuple):
    """Where a function is taken apart: statements on a line, and those that assign to or read variables, are left out.

    ``behind`` statements that assign to these it is cut, and they are compiled.
    """

    line: int | None = None
    assigned: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()


class Stretch(NamedTuple):
    """Statements that have become a function: which lines of the file they are on, what it returns."""

    function: FunctionType
    lines: tuple[int, int]
    results: tuple[str, ...]
    ends: bool  # whether it returns (True, what the whole function returns) or (False, results)


class Parts:
    """The function in parts: ``run`` does what the function does. Stretches are compiled by ``make``."""

    def __init__(self, target: _Target, cut: Cut, make: Callable[[Stretch, bool], Any]):
        self._target, self._cut, self._make = target, cut, make
        function = target.function
        node = vars(function).get(DEFINITION) or definition(function.__code__)
        if not isinstance(node, ast.FunctionDef) or not _may_be_cut(node, function.__code__):
            raise NotRewritable("it can't be taken apart")
        self._node = without_private_names(node, function.__qualname__)
        without_annotations(self._node.args)
        self._flow = Flow(self._node, {*function.__globals__, *function.__code__.co_freevars}, self._is_open)
        self._plain, self._opened, self._cuts = set[int](), set[int](), set[int]()
        self.left_out: list[tuple[int, int]] = []
        # Whether it says that gradients are differentiated again, on whatever branch.
        self.twice = any(isinstance(n, ast.keyword) and n.arg == "create_graph" for n in ast.walk(self._node))
        self._find(self._node.body)
        self.parts: list[Any] = []
        self._names: list[str] = []
        body = self._driven(self._node.body)
        if not self.parts or (len(self.parts) == 1 and not self.left_out):
            raise NotRewritable("nothing less of it could be compiled")
        self._node.body = body
        code = code_of(self._node, function.__code__, self._names)
        driver = function_of(code, function, dict(zip(self._names, self.parts, strict=True)))
        self.run = target.bound(driver)

    # -- which statements are left out --------------------------------------------------------------------

    def _find(self, statements: Sequence[Any]) -> bool:
        """Note which statements are left out, and which others are opened since such are in them."""
        found, cut = False, self._cut
        for number, s in enumerate(statements):
            if hasattr(s, _ADDED):
                continue
            names = names_of(s)
            if cut.behind & set(names.writes) and number + 1 < len(statements):
                self._cuts.add(id(statements[number + 1]))
            on_line = cut.line is not None and s.lineno <= cut.line <= s.end_lineno
            if not (on_line or cut.assigned & set(names.writes) or cut.read & names.reads):
                continue
            found = True
            if not self._can_open(s):
                self._leave_out(s, s.end_lineno)
            elif self._find(s.body) | self._find(getattr(s, "orelse", [])):
                self._opened.add(id(s))
            elif on_line or cut.read & names.reads:  # at its head
                self._opened.add(id(s))
                self.left_out.append((s.lineno, s.body[0].lineno - 1))
            else:
                self._leave_out(s, s.end_lineno)
        return found

    def _leave_out(self, s: Any, last: int) -> None:
        self._plain.add(id(s))
        self.left_out.append((s.lineno, last))

    def _can_open(self, s: Any) -> bool:
        if isinstance(s, ast.With):
            return self._is_open(s)
        return isinstance(s, (ast.If, ast.For, ast.While)) and s.body[0].lineno > s.lineno

    def _is_open(self, s: ast.With) -> bool:
        """Whether a with statement is a grad mode's: what it enters lets every error pass."""
        calls = [i.context_expr for i in s.items if isinstance(i.context_expr, ast.Call) and i.optional_vars is None]
        if len(calls) < len(s.items) or s.body[0].lineno == s.lineno:
            return False
        return all(any(self._value(c.func) is mode for mode in _MODES) for c in calls)

    def _value(self, node: Any) -> Any:
        """What a dotted name means that begins with a global one."""
        if isinstance(node, ast.Name):
            code = self._target.function.__code__
            own = node.id in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
            return None if own else self._target.function.__globals__.get(node.id)
        return getattr(self._value(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None

    # -- the function that calls the stretches ------------------------------------------------------------

    def _driven(self, statements: Sequence[Any]) -> list[ast.stmt]:
        """Statements with calls in the place of stretches."""
        made: list[ast.stmt] = []
        run: list[Any] = []
        for s in statements:
            if id(s) in self._cuts:
                made += self._stretch(run)
                run = []
            if id(s) in self._opened:
                made += self._stretch(run)
                run = []
                for name in ("body", "orelse"):
                    if getattr(s, name, None):
                        setattr(s, name, self._driven(getattr(s, name)))
                made.append(s)
            elif id(s) in self._plain or self._stays(s):
                made += [*self._stretch(run), s]
                run = []
            else:
                run.append(s)
        return made + self._stretch(run)

    def _stays(self, s: Any) -> bool:
        """Whether a statement only means the same in its own function."""
        names = names_of(s)
        if isinstance(s, ast.Return) and not any(isinstance(n, _WORTH) for n in ast.walk(s)):
            return True  # or what it returns would not be known by names
        if hasattr(s, _ADDED) or isinstance(s, _NEVER) or names.deletes or self._flow.declared & set(names.writes):
            return True
        return bool(self._flow.unsafe & (names.reads | set(names.writes))) or _leaves_loop(s)

    def _stretch(self, run: list[Any]) -> list[ast.stmt]:
        """A call in the place of statements that follow each other; themselves where that would not do."""
        flow = self._flow
        if not any(isinstance(n, _WORTH) for s in run for n in ast.walk(s)):
            return run
        results = flow.writes(run) & flow.live_after[id(run[-1])]
        for name in sorted(results - flow.bound_after(run)):
            at = next(k for k, s in enumerate(run) if name in names_of(s).writes)
            return [*self._stretch(run[:at]), run[at], *self._stretch(run[at + 1 :])]
        needed = flow.live(run, results, None) & flow.local
        here = names_of(run)
        if "super" in here.reads:
            needed |= {_first(self._node)}
        for name in sorted(needed - flow.bound_before[id(run[0])] - flow.sure(run[0])):
            at = next((k for k, s in enumerate(run) if name in names_of(s).reads), 0)
            if at == 0:
                return [run[0], *self._stretch(run[1:])]
            return [*self._stretch(run[:at]), *self._stretch(run[at:])]
        return self._call(run, sorted(needed), sorted(results))

    def _call(self, run: list[Any], needed: list[str], results: list[str]) -> list[ast.stmt]:
        given = sorted(needed, key=lambda name: name != _first(self._node))
        falls = not isinstance(run[-1], (ast.Return, ast.Raise))
        ends = falls and any(isinstance(n, ast.Return) for s in run for n in _own(s))
        number, place = len(self.parts), run[0]
        body: list[Any] = [_Returns().visit(s) if ends else s for s in map(copied, run)]
        value = ast.Tuple([_load(n) for n in results], ast.Load())
        if falls and (results or ends):
            last: Any = value if len(results) != 1 else value.elts[0]
            body.append(ast.Return(ast.Tuple([ast.Constant(False), last], ast.Load()) if ends else last))
            setattr(body[-1], _ADDED, True)
        stretch = self._function(run, given, body, tuple(results) if falls else (), ends)
        self.parts.append(self._make(stretch, self.twice))
        self._names.append(f"{_PART}{number}")
        call: Any = ast.Call(_load(self._names[-1]), [_load(n) for n in given], [])
        targets: Any = [ast.Name(n, ast.Store()) for n in results]
        target: Any = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())
        made: list[Any]
        if not falls:
            made = [ast.Return(call)]
        elif ends:
            both: list[Any] = [ast.Name(_DONE, ast.Store()), ast.Name(_VALUE, ast.Store())]
            made = [ast.Assign([ast.Tuple(both, ast.Store())], call)]
            made.append(ast.If(_load(_DONE), [ast.Return(_load(_VALUE))], []))
            made += [ast.Assign([target], _load(_VALUE))] if results else []
            made.append(ast.Delete([ast.Name(_VALUE, ast.Del())]))  # or it would hold on to what variables let go of
        else:
            made = [ast.Assign([target], call) if results else ast.Expr(call)]
        return [_at(m, place) for m in made]

    def _function(
        self, run: list[Any], given: list[str], body: list[Any], results: tuple[str, ...], ends: bool
    ) -> Stretch:
        original = self._target.function
        arguments = ast.arguments([], [ast.arg(n) for n in given], None, [], [], None, [])
        node = ast.FunctionDef(original.__name__, arguments, body, [], None, None)
        if "type_params" in ast.FunctionDef._fields:
            node.type_params = []  # type: ignore[attr-defined]
        node = ast.fix_missing_locations(ast.copy_location(node, run[0]))
        node.end_lineno = run[-1].end_lineno
        code = code_of(copied(node), original.__code__, [])
        made: Any = function_of(code, original, {})
        made.__defaults__ = made.__kwdefaults__ = None
        made.__qualname__ = original.__qualname__
        vars(made)[DEFINITION] = node
        return Stretch(made, (run[0].lineno, run[-1].end_lineno), results, ends)


def parts_of(function: Any, cut: Cut, where: CodeType | None, make: Callable[[Stretch, bool], Any]) -> Parts | None:
    """The parts of what was compiled; None if it can't be taken apart there.

    where: the code of the function that the cut's line is of.
    """
    target = _target(function)
    if target is None:
        return None
    code = target.function.__code__
    if where is not None and (where.co_name, where.co_filename) != (code.co_name, code.co_filename):
        return None
    try:
        return Parts(target, cut, make)
    except NotRewritable:
        return None


def positional_names(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters, in the order in which a call gives them."""
    target = _target(function)
    if target is None:
        return ()
    code = target.function.__code__
    return code.co_varnames[target.given : code.co_argcount]


class _Target(NamedTuple):
    """The Python function that runs when something is called, and how another one is run in its place.

    given: how many arguments it gets besides those of the call.
    """

    function: Any
    bound: Callable[[Any], Callable[..., Any]]
    given: int = 1


def _target(called: Any) -> _Target | None:
    if isinstance(called, FunctionType):
        return _Target(called, lambda driver: driver, 0)
    if isinstance(called, MethodType):
        inner, own = called.__func__, called.__self__
        return _Target(inner, lambda driver: MethodType(driver, own)) if _is_function(inner) else None
    inner = static_attribute(type(called), "__call__")
    if inner is not Module.__call__:
        return _Target(inner, lambda driver: MethodType(driver, called)) if _is_function(inner) else None
    forward: Any = static_attribute(type(called), "forward")
    if "forward" in vars(called) or not _is_function(forward):
        return None
    return _Target(forward, lambda driver: _instead(called, forward, driver))


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType) and not (value.__module__ or "").startswith("jitgrad.")


def _instead(module: Any, forward: FunctionType, driver: Any) -> Callable[..., Any]:
    """Call a module, another function in the place of its ``forward``, while nothing would come between."""

    def run(*args: Any, **kwargs: Any) -> Any:
        hooks = call_hooks or module._forward_hooks or module._forward_pre_hooks
        exchanged = type(module).forward is not forward or "forward" in vars(module)
        if hooks or exchanged or module._backward_hooks or module._backward_pre_hooks:
            return module(*args, **kwargs)
        return driver(module, *args, **kwargs)

    return run


# -- syntax -----------------------------------------------------------------------------------------------


def _may_be_cut(node: ast.FunctionDef, code: CodeType) -> bool:
    every = list(ast.walk(node))
    names = {n.id for n in every if isinstance(n, ast.Name)}
    ordinary = not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    return ordinary and not names & _FRAMES and not any(isinstance(n, _REFUSED) for s in node.body for n in _own(s))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it that are the same function's."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _own(child)


def _leaves_loop(s: ast.AST) -> bool:
    """Whether ``break`` or ``continue`` in a statement is for a loop around it."""
    if isinstance(s, (ast.Break, ast.Continue)):
        return True
    if isinstance(s, (ast.For, ast.While)):
        return any(map(_leaves_loop, s.orelse))
    if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(_leaves_loop(child) for child in ast.iter_child_nodes(s))


def _first(node: ast.FunctionDef) -> str:
    """The name of the first parameter, which ``super()`` is about."""
    every = [*node.args.posonlyargs, *node.args.args]
    return every[0].arg if every else ""


def _load(name: str) -> Any:
    return ast.Name(name, ast.Load())


def _at(node: Any, place: ast.stmt) -> Any:
    return ast.fix_missing_locations(ast.copy_location(node, place))


class _Returns(ast.NodeTransformer):
    """Makes ``return value`` of a stretch ``return (True, value)``."""

    def visit_Return(self, node: ast.Return) -> Any:
        pair = ast.Tuple([ast.Constant(True), node.value or ast.Constant(None)], ast.Load())
        return ast.copy_location(ast.Return(ast.copy_location(pair, node)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node
