"""Calls: functions of numbers and arrays by what they are in the language, the user's own written out in place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.creation import Creation
from jitgrad.kernels.adjoint.expressions import as_value
from jitgrad.kernels.adjoint.operations import TABLE
from jitgrad.kernels.adjoint.routine import MISSING, Routine, calls_into, plain_function, shortened
from jitgrad.kernels.adjoint.sizes import constant
from jitgrad.kernels.adjoint.state import Scope
from jitgrad.kernels.adjoint.values import Array, Items, Known, Scalar, Value

__all__ = ["Calls"]


class Calls(Creation):
    """What a call becomes."""

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Write out statements."""
        raise NotImplementedError

    def bind(self, node: ast.AST, target: str, value: Value) -> None:
        """Give a name a value."""
        raise NotImplementedError

    def scope_of(self, routine: Routine, caller: Scope | None) -> Scope:
        """The scope of a call: its statements without jumps."""
        raise NotImplementedError

    def of_call(self, node: ast.Call) -> Value:
        function = self.called(node)
        if isinstance(function, str):
            return self.method(node, function)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            self.refuse(node, f"passes arguments by * in {shortened(node)}; write them out")
        if function in (max, min, sum) and len(node.args) == 1:
            return self.of_all(node, function)
        made = self.made(node, function)
        if made is not None:
            return made
        if function in (np.round, round) and len(node.args) + len(node.keywords) > 1:
            self.refuse(node, f"rounds to decimals: {shortened(node)}; write round(x * 100) / 100")
        if function in TABLE:
            if node.keywords:
                self.refuse(
                    node, f"passes {node.keywords[0].arg} by name in {shortened(node)}; write the arguments in order"
                )
            return self.function(node, function)
        if function is len:
            return self.length(node)
        if calls_into(function):
            return self.inlined(node, plain_function(function))
        self.refuse(node, f"calls {shortened(node.func)}, which can't be differentiated")

    def called(self, node: ast.Call) -> Any:
        """The function object that is called, or the name of an array's method."""
        found = self.scope.routine.resolve(node.func)
        if found is not MISSING and not (isinstance(node.func, ast.Name) and node.func.id in self.scope.env):
            return found
        if isinstance(node.func, ast.Name):
            value = self.value(node.func)
            if isinstance(value, Known):
                return value.object
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
        self.refuse(node, f"calls {shortened(node.func)}, which is not a function")

    def function(self, node: ast.Call, function: Any) -> Value:
        """A function of numbers, of each element of its arguments."""
        values = self.operands(node.args)
        if function is np.where and len(values) != 3:
            self.refuse(node, f"asks where a condition holds: {shortened(node)}; write a loop, or np.where(c, a, b)")
        if function in (float, int, bool) and values and isinstance(values[0], Array) and values[0].ndim:
            self.refuse(node, f"makes a number of an array: {shortened(node)}; write x.astype(...)")
        try:
            return self.elementwise(node, TABLE[function], values)
        except TypeError as error:
            if type(error) is not TypeError:  # a SourceError, which says what is wrong
                raise
            self.refuse(node, f"calls {shortened(node.func)} with {len(values)} arguments: {shortened(node)}")

    def length(self, node: ast.Call) -> Value:
        value = self.value(node.args[0])
        if isinstance(value, Items):
            return Scalar(constant(len(value.values)), "int64")
        if not isinstance(value, Array) or not value.ndim:
            self.refuse(node, f"takes the length of what is no array: {shortened(node)}")
        return Scalar(self.not_negative(value.shape[0]), "int64")

    # Functions of the user's

    def inlined(self, node: ast.Call, function: Callable[..., Any]) -> Value:
        """The function's statements in place of its call."""
        scope: Scope | None = self.scope
        while scope is not None:
            if scope.routine.function is function:
                self.refuse(node, f"calls {function.__name__} within itself: {shortened(node)}; write a loop")
            scope = scope.caller
        arguments = self.arguments(node, function)
        routine = self.routine(function)
        inner = self.scope_of(routine, self.scope)
        changed = {
            n.id for s in inner.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        outer, self.scope = self.scope, inner
        try:
            for name, value in arguments.items():
                if name in changed or not self.passes(value):
                    if isinstance(value, Array) and value.place is not None:
                        inner.env[name] = value
                    else:
                        self.bind(node, name, value)
                else:
                    inner.env[name] = value
            self.run(inner.body)
            if inner.result not in inner.env:
                return Known(None)
            return self.value(ast.copy_location(ast.Name(inner.result, ast.Load()), routine.tree))
        finally:
            self.scope = outer

    def passes(self, value: Value) -> bool:
        """Whether a parameter can stand for the argument itself, which nothing changes during the call."""
        if isinstance(value, Scalar):
            return isinstance(value.expression, ast.Name) or self.steady(value.expression)
        if isinstance(value, Items):
            return all(self.passes(v) for v in value.values)
        return isinstance(value, Known) or (isinstance(value, Array) and value.place is not None)

    def arguments(self, node: ast.Call, function: Callable[..., Any]) -> dict[str, Value]:
        """{parameter: its value} of a call."""
        routine = self.routine(function)
        arguments = routine.tree.args
        if arguments.vararg or arguments.kwarg:
            self.refuse(node, f"calls {function.__name__}, which takes * arguments; write its parameters out")
        named = {k.arg: k.value for k in node.keywords}
        texts: dict[str | None, ast.expr] = {**dict(zip(routine.parameters, node.args)), **named}
        unknown = set(named) - set(routine.parameters)
        if unknown or len(node.args) > len(routine.parameters) - len(arguments.kwonlyargs):
            self.refuse(node, f"calls {function.__name__} with arguments that it does not take: {shortened(node)}")
        order = [n for n in texts if n is not None]
        found: dict[str, Value] = dict(zip(order, self.operands([texts[n] for n in order])))
        defaults = routine.defaults()
        for name in routine.parameters:
            if name in found:
                continue
            value = as_value(defaults[name]) if name in defaults else None
            if value is None:
                self.refuse(node, f"calls {function.__name__} without its argument {name}: {shortened(node)}")
            found[name] = value
        return {n: found[n] for n in routine.parameters}
