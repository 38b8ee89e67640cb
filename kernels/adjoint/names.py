"""Names: what one stands for behind an assignment, and which arrays may have two."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.adjoint.reductions import Reductions
from jitgrad.kernels.adjoint.routine import shortened
from jitgrad.kernels.adjoint.sizes import names_in
from jitgrad.kernels.adjoint.state import leaves, loads
from jitgrad.kernels.adjoint.stored import stored_in
from jitgrad.kernels.adjoint.values import (
    Array,
    Conflict,
    Fixed,
    Items,
    Known,
    Place,
    Scalar,
    Span,
    Value,
    category,
    stored,
    wider,
)  # fmt: skip

__all__ = ["Names", "changed_by", "names_of"]


class Names(Reductions):
    """Names of numbers, tuples and arrays."""

    def saved(self, value: Value) -> Value:
        """The value as it is now, whatever is assigned next."""
        if isinstance(value, Scalar):
            return self.temporary("value", value)
        if isinstance(value, Items):
            return Items([self.saved(v) for v in value.values])
        return self.materialised(value, "copy") if isinstance(value, Array) else value

    def bind(self, node: ast.AST, target: str, value: Value) -> None:
        if target == self.scope.result and not self.scope.deep and target not in self.scope.env:
            self.scope.env[target] = value  # nothing is executed between here and the use
        elif isinstance(value, Scalar):
            self.bind_scalar(node, target, value)
        elif isinstance(value, Array):
            self.bind_array(node, target, value)
        elif isinstance(value, Items):
            self.bind_items(node, target, value)
        else:
            self.scope.env[target] = value

    def bind_items(self, node: ast.AST, target: str, value: Items) -> None:
        """Give a name a tuple: a variable for each item, named after its place, unless it never changes."""
        env = self.scope.env
        once = not self.scope.deep and self.assigned_once(target)
        places = [f"{target}.{k}" for k in range(len(value.values))]
        values = list(value.values)
        written: set[str] = set()
        for k, place in enumerate(places):
            if changed_by(values[k], written):
                values[k] = self.saved(values[k])
            held = env.get(place)
            written |= names_of(held) if isinstance(held, (Scalar, Items)) else set()
        for place, v in zip(places, values):
            if once and isinstance(v, Scalar) and self.steady(v.expression):
                env[place] = v
            else:
                self.bind(node, place, v)
        env[target] = Items([env[p] for p in places])

    def assigned_once(self, target: str) -> bool:
        """Whether only one place in the function's text assigns to the name."""
        nodes = (n for s in self.scope.body for n in ast.walk(s))
        names = [n for n in nodes if isinstance(n, ast.Name) and n.id == target and isinstance(n.ctx, ast.Store)]
        return len(names) == 1

    def bind_scalar(self, node: ast.AST, target: str, value: Scalar) -> None:
        scope = self.scope
        variable = scope.variables.get(target)
        now = scope.env.get(target)
        other = isinstance(now, (Array, Items, Known, Conflict))
        if other and scope.deep:
            self.refuse(node, f"gives the name {target} to a number where it held an array or tuple: {shortened(node)}")
        if variable and not scope.deep and now is not None and (other or self.kind(variable) != value.kind):
            variable = None  # from here on another variable, with a kind of its own
        if variable is None:
            variable = self.fresh(target.replace(".", "_"))
            scope.variables[target] = variable
        self.assign(variable, value)
        scope.env[target] = self.variable(variable)

    def bind_array(self, node: ast.AST, target: str, value: Array) -> None:
        scope = self.scope
        now = scope.env.get(target)
        is_result = target.split(".")[0] == scope.result  # paths give it a value once
        if not value.ndim and value.place is None:
            self.bind_scalar(node, target, value.at([]))
        elif not scope.deep or now is None or isinstance(now, Conflict) or is_result:
            if isinstance(now, Scalar) and target in scope.variables:
                del scope.variables[target]
            if value.place is not None and not (is_result and scope.deep):
                scope.env[target] = self.lasting(node, target, value, value.place)
            else:
                scope.env[target] = self.into(self.array_variable(target, value), value)
        else:
            self.rebind(node, target, now, value)

    def lasting(self, node: ast.AST, target: str, value: Array, place: Place) -> Array:
        """The part as it will be wherever the name is read: later iterations may change indices and arrays.

        Where the name is read only further down in its block, nothing changes them in between.
        """
        name_ = target.split(".")[0]
        body, here = self.around[-1] if self.around else (self.scope.body, -1)
        if not self.scope.deep:
            return value
        if loads(body[here + 1 :], name_) == loads(self.scope.body, name_):
            self.passing[-1].add(target)
            return value
        if self.made_in.get(place.base, 0) not in (0, self.block_numbers[-1]):
            names = {name_, *self.holders(place.base, target)}
            if names & self.stored_names():
                what = f"gives {shortened(node)} a second name that is used outside of the block"
                self.refuse(node, f"{what}; take a copy: {name_} = ....copy()")
            return self.materialised(value, name_)
        slots = [
            Fixed(self.frozen(s.index)) if isinstance(s, Fixed) else Span(self.frozen(s.start), s.step, s.dimension)
            for s in place.slots
        ]
        return stored(Place(place.base, slots, [self.frozen(s) for s in place.shape]), value.dtype)

    def frozen(self, value: ast.expr) -> ast.expr:
        """The value as it is now."""
        names = {n.id for n in leaves(value) if isinstance(n, ast.Name)}
        if names <= self.parameters | self.facts.top:
            return value
        return self.temporary("index", Scalar(value, "int64")).expression

    def array_variable(self, target: str, value: Array) -> str:
        """The variable for a new array: within branches the one that another branch has made for the name."""
        scope = self.scope
        variable = scope.arrays.get(target)
        if variable and scope.deep and self.arrays[variable] == Kind(value.dtype, value.ndim):
            is_result = target.split(".")[0] == scope.result
            if (is_result or not self.holders(variable)) and all(p.base != variable for p in value.reads):
                return variable
        variable = scope.arrays[target] = self.fresh(target.replace(".", "_"))
        return variable

    def rebind(self, node: ast.AST, target: str, now: Value, value: Array) -> None:
        """Give the name of an array to another one, within a loop or a branch: its elements change."""
        if not isinstance(now, Array) or now.place is None or now.ndim != value.ndim:
            self.refuse(
                node, f"gives the name {target} to an array of other dimensions: {shortened(node)}; use a new name"
            )
        kind = category(value.dtype)
        if wider(kind, category(now.dtype)) != category(now.dtype):  # its elements would be cut to integers
            what = f"gives the name {target} of an array of {now.dtype} to one of {value.dtype}: {shortened(node)}"
            self.refuse(node, f"{what}; make the first one of {kind}, or use a new name")
        if value.place is not None and not now.place.is_whole:
            self.scope.env[target] = self.lasting(node, target, value, value.place)
            return
        base = now.place.base
        if base not in self.owned or not now.place.is_whole or self.holders(base, target):
            what = f"gives the name {target} to another array where the old one has a second name: {shortened(node)}; "
            self.refuse(node, what + f"write {target}[...] = , or take a copy of it first")
        if value.place is not None:
            self.check_alias(node, target, value)
        self.made_in[base] = self.block_numbers[-1]
        self.agree(value.shape, now.shape, f"{shortened(node)} changes the shape of {target}")
        self.store(node, now, value)

    def check_alias(self, node: ast.AST, target: str, value: Array) -> None:
        """Refuse ``x = y`` of arrays where a later store into one would have to show in the other."""
        stored = self.stored_names()
        others = self.holders(value.place.base, target) if value.place else []
        names = {target, *others} if others else set()
        if names & stored and not self.replaced_before_use(node, names - {target}):
            given = shortened(getattr(node, "value", node))
            what = f"gives the array {given} a second name in a loop or branch: {shortened(node)}"
            self.refuse(node, f"{what}; write {target}[:] = {given}")

    def replaced_before_use(self, node: ast.AST, names: set[str]) -> bool:
        """Whether the other name is given a new array in the same block ahead of the statement, and used only there."""
        other = node.value.id if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) else ""
        body, here = self.around[-1]
        views = (ast.Name, ast.Subscript, ast.Attribute, ast.IfExp)
        made = [k for k, s in enumerate(body[:here]) if isinstance(s, ast.Assign) and _is_name(s.targets[0], other)
                and not isinstance(s.value, views)]  # fmt: skip
        if names != {other} or not made or body[here] is not node:
            return False
        return loads(body[made[-1] : here + 1], other) == loads(self.scope.body, other)

    def stored_names(self, body: Sequence[ast.stmt] | None = None) -> set[str]:
        """The names of arrays of this function into which it stores elements; body: those of its statements."""
        return stored_in(self.scope.routine, self.scope.body if body is None else body, self.routine)


def changed_by(value: Value, written: set[str]) -> bool:
    """Whether assignments may change a value that is yet to be used.

    A part of an array shows what is stored into the array, as in NumPy.
    """
    names = names_of(value)
    if isinstance(value, Array) and value.make is not None and written:
        return True
    if isinstance(value, Array) and value.place is not None:
        return bool(names & written)
    return bool(names & written) or any(f"elements of {n}" in written for n in names)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def names_of(value: Value | None) -> set[str]:
    """The variables and arrays that a value is read from."""
    if isinstance(value, Scalar):
        return names_in(value.expression)
    if isinstance(value, Items):
        return {n for v in value.values for n in names_of(v)}
    if not isinstance(value, Array):
        return set()
    found = {p.base for p in value.reads} | value.scattered
    if value.place is None and value.make is None:  # not in memory: its elements are expressions
        found |= names_in(value.at([ast.Name("_", ast.Load())] * value.ndim).expression)
    return found
