"""Forward mode: a program that computes derivatives along a direction beside its values.

Its language is the program's own, so a tangent can be differentiated again, forward or in reverse: the gradient of a
Jacobian-vector product is what the second derivative of a function needs.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Sequence

from jitgrad.kernels.adjoint import program as p
from jitgrad.kernels.adjoint.derivatives import partials, product
from jitgrad.kernels.adjoint.program import Kind, Program, Statement

__all__ = ["tangent_of"]


def tangent_of(program: Program, wanted: Collection[str], values: bool = True) -> Program:
    """The program with tangents: its inputs, their tangents ``x_t`` if in ``wanted``, and parameters that are outputs.

    Its outputs are the program's, unless values is false, and then the tangents of those that hold floats.
    """
    return _Tangent(program, wanted).program_of(values)


class _Tangent:
    def __init__(self, program: Program, wanted: Collection[str]):
        self.program, self.wanted = program, [n for n in program.parameters if n in wanted]
        self.varied = self._varied()
        self.names: dict[str, str] = {}
        for n in program.kinds:
            if program.kinds[n].floating:
                self.names[n] = self._unused(f"{n}_t")

    def _unused(self, name: str) -> str:
        taken = {*self.program.kinds, *self.names.values()}
        while name in taken:
            name += "_1"
        return name

    def program_of(self, values: bool) -> Program:
        source = self.program
        kinds: dict[str, Kind] = dict(source.kinds)
        kinds |= {t: source.kinds[n] for n, t in self.names.items()}
        body: list[Statement] = []
        local = {n for n in source.outputs if n in source.parameters}
        for n in source.outputs:
            if source.kinds[n].floating and (n in local or n not in self.varied):
                body += self._zero(n)  # an output that no input moves
        body += self._body(source.body)
        floats = [n for n in source.outputs if source.kinds[n].floating]
        outputs = [*(source.outputs if values else ()), *(self.names[n] for n in floats)]
        written = [n for n in source.parameters if n in source.outputs]
        inputs = [n for n in source.parameters if n not in written]
        parameters = [*inputs, *(self.names[n] for n in self.wanted), *written]
        name = f"{source.name}_tangent"
        return Program(name, source.file, parameters, outputs, body, kinds, len(outputs) == 1, source.source)

    def _zero(self, name: str) -> list[Statement]:
        """Tangents of an output where nothing else gives it one."""
        ndim = self.program.kinds[name].ndim
        if ndim is None:
            return [p.Assign(self.names[name], ast.Constant(0.0))]
        if name not in self.program.parameters:
            return []  # allocated with its array
        return [p.Allocate(self.names[name], tuple(_size(name, k) for k in range(ndim)), ast.Constant(0.0))]

    # -- what varies --------------------------------------------------------------------------------

    def _varied(self) -> set[str]:
        """The variables that depend on the wanted inputs, whatever the order of statements."""
        found = set(self.wanted)
        while True:
            before = len(found)
            for s in p.statements(self.program.body):
                target, value = _result(s)
                if target and self.program.kinds[target].floating and value is not None and _depends(value, found):
                    found.add(target)
                elif isinstance(s, p.Exchange) and found & {*s.targets}:
                    found.update(s.targets)
            if len(found) == before:
                return found

    # -- statements ---------------------------------------------------------------------------------

    def _body(self, body: Sequence[Statement]) -> list[Statement]:
        return [made for s in body for made in self._statement(s)]

    def _statement(self, s: Statement) -> list[Statement]:
        """Statements that do what ``s`` does, the tangent's first, as it is computed from the values before."""
        if isinstance(s, p.Assign):
            return [*self._assign(s), s]
        if isinstance(s, p.Store):
            return [*self._store(s), s]
        if isinstance(s, p.Allocate):
            return [*self._allocate(s), s]
        if isinstance(s, p.Exchange):
            if not (self.varied & {*s.targets}) or not self.program.kinds[s.targets[0]].floating:
                return [s]
            targets, sources = (tuple(self.names[n] for n in side) for side in (s.targets, s.sources))
            return [p.Exchange(targets, sources, line=s.line), s]
        if isinstance(s, p.If):
            return [p.If(s.test, self._body(s.body), self._body(s.orelse), line=s.line)]
        if isinstance(s, (p.For, p.While)):
            made = copy.copy(s)
            made.body = self._body(s.body)
            return [made]
        return [s]

    def _assign(self, s: p.Assign) -> list[Statement]:
        if s.target not in self.varied:
            return []
        return [p.Assign(self.names[s.target], self.of(s.value) or ast.Constant(0.0), line=s.line)]

    def _store(self, s: p.Store) -> list[Statement]:
        if s.array not in self.varied:
            return []
        value = self.of(s.value)
        if value is None and s.increment:
            return []
        return [p.Store(self.names[s.array], s.index, value or ast.Constant(0.0), s.increment, line=s.line)]

    def _allocate(self, s: p.Allocate) -> list[Statement]:
        is_output = s.array in self.program.outputs and self.program.kinds[s.array].floating
        if s.array not in self.varied and not is_output:
            return []
        fill = self.of(s.fill) if s.fill is not None else None
        return [p.Allocate(self.names[s.array], s.shape, fill or ast.Constant(0.0), line=s.line)]

    # -- expressions --------------------------------------------------------------------------------

    def of(self, e: ast.expr) -> ast.expr | None:
        """The tangent of an expression; None where it is zero."""
        if isinstance(e, ast.Name):
            return ast.Name(self.names[e.id], ast.Load()) if e.id in self.varied and e.id in self.names else None
        if isinstance(e, ast.Subscript) and isinstance(e.value, ast.Name):
            array = e.value.id
            if array not in self.varied:
                return None
            return ast.Subscript(ast.Name(self.names[array], ast.Load()), e.slice, ast.Load())
        if isinstance(e, ast.IfExp):
            yes, no = self.of(e.body), self.of(e.orelse)
            if yes is None and no is None:
                return None
            zero = ast.Constant(0.0)
            return ast.IfExp(e.test, yes or zero, no or zero)
        if isinstance(e, (ast.BinOp, ast.Call)) or (isinstance(e, ast.UnaryOp) and not isinstance(e.op, ast.Not)):
            return self._chain(e)
        return None

    def _chain(self, e: ast.expr) -> ast.expr | None:
        total: ast.expr | None = None
        for argument, slope in partials(e, e):
            inner = self.of(argument)
            if inner is None:
                continue
            term = product(inner, slope)
            if total is None:
                total = term
            elif isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
                total = ast.BinOp(total, ast.Sub(), term.operand)
            else:
                total = ast.BinOp(total, ast.Add(), term)
        return total


def _result(s: Statement) -> tuple[str, ast.expr | None]:
    """The variable that a statement changes, and what it gives to it."""
    if isinstance(s, p.Assign):
        return s.target, s.value
    if isinstance(s, p.Store):
        return s.array, s.value
    return (s.array, s.fill) if isinstance(s, p.Allocate) else ("", None)


def _depends(e: ast.expr, found: Collection[str]) -> bool:
    """Whether an expression has a derivative in any of the variables."""
    if isinstance(e, ast.Name):
        return e.id in found
    if isinstance(e, ast.Subscript):
        return isinstance(e.value, ast.Name) and e.value.id in found
    if isinstance(e, ast.IfExp):
        return _depends(e.body, found) or _depends(e.orelse, found)
    if isinstance(e, (ast.BinOp, ast.Call)) or (isinstance(e, ast.UnaryOp) and not isinstance(e.op, ast.Not)):
        return any(_depends(a, found) for a, _ in partials(e, e))
    return False


def _size(array: str, k: int) -> ast.expr:
    shape = ast.Attribute(ast.Name(array, ast.Load()), "shape", ast.Load())
    return ast.Subscript(shape, ast.Constant(k), ast.Load())


