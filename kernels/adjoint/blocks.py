"""Statements of the user's text: branches, loops, refusals."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from jitgrad.kernels.adjoint.jumps import without_jumps
from jitgrad.kernels.adjoint.loops import Loops
from jitgrad.kernels.adjoint.operations import inverted
from jitgrad.kernels.adjoint.program import If, Refuse, Statement
from jitgrad.kernels.adjoint.routine import Routine, shortened
from jitgrad.kernels.adjoint.sizes import constant
from jitgrad.kernels.adjoint.state import Scope
from jitgrad.kernels.adjoint.values import Conflict, Items, Scalar, Value, alike
from jitgrad.kernels.words.syntax import copied

__all__ = ["Blocks", "scope_of"]


def scope_of(routine: Routine, caller: Scope | None, prefix: str = "") -> Scope:
    """The scope of a function, its statements without jumps."""
    taken = routine.locals | {n.id for n in ast.walk(routine.tree) if isinstance(n, ast.Name)}
    body, result = without_jumps([copied(s) for s in routine.tree.body], taken)
    names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    scope = Scope(routine, prefix, caller=caller, locals={*routine.parameters, *names}, body=body)
    scope.result = result
    return scope


class Blocks(Loops):
    """What statements become."""

    def scope_of(self, routine: Routine, caller: Scope | None) -> Scope:
        return scope_of(routine, caller, f"{routine.name.strip('_') or 'f'}_")

    def run_all(self, body: Sequence[ast.stmt]) -> None:
        self.run(body)

    def run(self, body: Sequence[ast.stmt]) -> None:
        self.around.append((body, 0))
        for k, s in enumerate(body):
            self.around[-1] = (body, k)
            if self.scope.caller is None:
                self.line = getattr(s, "lineno", self.line)
            method = getattr(self, f"run_{type(s).__name__.lower()}", None)
            if method is None:
                self.refuse(s, f"uses {shortened(s)}, which can't be differentiated")
            method(s)
        self.around.pop()

    def run_assign(self, s: ast.Assign) -> None:
        self.assigns(s)

    def run_annassign(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.to(s.target, self.value(s.value), s)

    def run_augassign(self, s: ast.AugAssign) -> None:
        self.augments(s)

    def run_pass(self, s: ast.Pass) -> None:
        pass

    def run_expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Constant):
            return
        self.value(s.value)

    # Refusals

    def run_assert(self, s: ast.Assert) -> None:
        message = self.message(s.msg) if s.msg is not None else ""
        test = inverted(self.condition(s.test))
        if not (isinstance(test.expression, ast.Constant) and not test.expression.value):
            self.emit(Refuse(test.expression, "AssertionError", message))

    def run_raise(self, s: ast.Raise) -> None:
        self.emit(self.refusal(s, constant(True)))

    def refusal(self, s: ast.Raise, test: ast.expr) -> Refuse:
        error = s.exc.func if isinstance(s.exc, ast.Call) else s.exc
        arguments = s.exc.args if isinstance(s.exc, ast.Call) else []
        found = self.scope.routine.resolve(error) if error is not None else None
        known = (
            isinstance(found, type) and issubclass(found, Exception) and getattr(builtins, found.__name__, 0) is found
        )
        if found is None or not known or len(arguments) > 1:
            self.refuse(s, f"raises what is no built-in exception with one message: {shortened(s)}")
        return Refuse(test, found.__name__, self.message(arguments[0]) if arguments else "")

    def message(self, node: ast.expr) -> str:
        """An error's message: a constant text."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        self.refuse(node, f"makes a message of values: {shortened(node)}; write a constant text")

    # Branches

    def run_if(self, s: ast.If) -> None:
        if not s.body and not s.orelse:
            return
        test = self.condition(s.test)
        if isinstance(test.expression, ast.Constant):
            self.run(s.body if test.expression.value else s.orelse)
            return
        if len(s.body) == 1 and isinstance(s.body[0], ast.Raise):
            refusal = self.refusal(s.body[0], test.expression)
            self.emit(refusal)
            self.run(s.orelse)  # what is behind a refusal runs where the condition is false
            return
        self.own_memory(s, [*s.body, *s.orelse])
        before = dict(self.scope.env)
        first = self.branch(s.body)
        after, self.scope.env = self.scope.env, dict(before)
        second = self.branch(s.orelse)
        if refuses(first) or refuses(second):
            self.scope.env = self.scope.env if refuses(first) else after
        else:
            self.scope.env = self.merged(after, self.scope.env)
        if not first:
            if not second:
                return
            test, first, second = inverted(test), second, first
        self.emit(If(test.expression, first, second))

    def branch(self, body: Sequence[ast.stmt]) -> list[Statement]:
        """The statements of a branch or a loop."""
        self.scope.deep += 1
        line = self.line
        with self.block() as statements, self.inner_block(body):
            self.run(body)
        self.line = line
        self.scope.deep -= 1
        return statements

    def merged(self, one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
        """What names stand for behind two branches."""
        result = dict(one)
        for name, value in other.items():
            if name in one:
                result[name] = self.either_of(name, one[name], value)
            else:
                result[name] = value
        return result

    def either_of(self, name: str, one: Value, other: Value) -> Value:
        if alike(one, other):
            return one
        if (
            isinstance(one, Scalar)
            and isinstance(other, Scalar)
            and alike(Scalar(one.expression, ""), Scalar(other.expression, ""))
        ):
            return self.variable(one.expression.id) if isinstance(one.expression, ast.Name) else one
        if isinstance(one, Items) and isinstance(other, Items) and len(one.values) == len(other.values):
            return Items([self.either_of(name, a, b) for a, b in zip(one.values, other.values)])
        return Conflict(
            f"uses {name}, which a branch or loop makes another array or object; use two names, or store into one"
        )


def refuses(body: list[Statement]) -> bool:
    """Whether a block always ends in an error."""
    return bool(body) and isinstance(body[-1], Refuse) and isinstance(body[-1].test, ast.Constant)
