"""Which names of a function stand for arrays that it stores into, by itself or through functions that it calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.known import is_known
from jitgrad.kernels.adjoint.routine import Routine, calls_into
from jitgrad.kernels.codegen.loop_faults import root, stores

__all__ = ["stored_in"]

RoutineOf = Callable[[Any], Routine]
# Known functions whose results may be parts of their arguments.
_VIEWS = (np.asarray, np.ascontiguousarray, np.transpose, np.flip, enumerate, zip, reversed)
_NEW = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Constant)


def stored_in(
    routine: Routine, body: Sequence[ast.stmt], routine_of: RoutineOf, around: Sequence[Routine] = ()
) -> set[str]:
    """The names of arrays into which statements of a function store; around: the functions that call it."""
    names = {root(s) for s in stores(body)}
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.AugAssign):
            names.add(root(node.target))
        elif isinstance(node, ast.Call):
            names |= _stored_by(node, routine, routine_of, around)
    return names


def _stored_by(call: ast.Call, routine: Routine, routine_of: RoutineOf, around: Sequence[Routine]) -> set[str]:
    """The names that a call may store into."""
    function = routine.resolve(call.func)
    named = {k.arg: k.value for k in call.keywords}
    if function is np.copyto:
        return {root(a) for a in (*call.args, *named.values())}
    if isinstance(call.func, ast.Attribute) and call.func.attr == "fill":
        return {root(call.func)}
    if not calls_into(function) or is_known(function):
        return set()
    callee = routine_of(function)
    given: dict[str | None, ast.expr] = {**dict(zip(callee.parameters, call.args)), **named}
    if callee in around:  # it is refused where it is written out
        return {root(a) for a in given.values()}
    if callee.stored is None:
        callee.stored = _with_sources(callee, stored_in(callee, callee.tree.body, routine_of, (*around, routine)))
    return {root(a) for n, a in given.items() if n in callee.stored}


def _with_sources(routine: Routine, names: set[str]) -> set[str]:
    """The names, and all others that may stand for parts of the same arrays."""
    found = set(names)
    while True:
        before = len(found)
        for target, value in _assignments(routine.tree.body):
            # A store into an element copies a value; it gives a name to none.
            if found & {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}:
                found |= set(_sources(routine, value))
        if len(found) == before:
            return found


def _assignments(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in (n for s in body for n in ast.walk(s)):
        if isinstance(node, ast.Assign):
            yield from ((t, node.value) for t in node.targets)
        elif isinstance(node, ast.For):
            yield node.target, node.iter


def _sources(routine: Routine, value: ast.expr) -> Iterator[str]:
    """The names of arrays of which a value may be a part."""
    if isinstance(value, _NEW):
        return
    if isinstance(value, ast.Call):
        function = routine.resolve(value.func)
        copies = isinstance(value.func, ast.Attribute) and value.func.attr == "copy"
        if copies or (is_known(function) and function not in _VIEWS):
            return
    yield from (n.id for n in ast.walk(value) if isinstance(n, ast.Name))
