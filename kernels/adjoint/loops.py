"""Loops: over ranges and arrays, and while a condition holds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numba

from jitgrad.kernels.adjoint.assignments import Assignments
from jitgrad.kernels.adjoint.names import names_of
from jitgrad.kernels.adjoint.operations import either, inverted
from jitgrad.kernels.adjoint.program import For, If, Statement, While
from jitgrad.kernels.adjoint.routine import shortened
from jitgrad.kernels.adjoint.sizes import call, constant, integer, minus, name, plus
from jitgrad.kernels.adjoint.values import Array, Conflict, Items, Known, Scalar, Value, alike

__all__ = ["Loops"]

ZERO, ONE = Scalar(constant(0), "int64"), Scalar(constant(1), "int64")
Range = tuple[Scalar, Scalar, Scalar]


class Loops(Assignments):
    """What loops become."""

    def branch(self, body: Sequence[ast.stmt]) -> list[Statement]:
        raise NotImplementedError

    def merged(self, one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
        raise NotImplementedError

    # For

    def run_for(self, s: ast.For) -> None:
        call_ = s.iter
        function = self.scope.routine.resolve(call_.func) if isinstance(call_, ast.Call) else None
        if isinstance(call_, ast.Call) and function in (range, numba.prange):
            self.counts(s, self.range(call_), function is numba.prange)
        elif isinstance(call_, ast.Call) and function is reversed:
            self.counts(s, self.reversed(call_))
        elif isinstance(call_, ast.Call) and function in (enumerate, zip):
            values = [self.value(a) for a in call_.args[:1] if function is enumerate] or self.operands(call_.args)
            if function is enumerate and (len(call_.args) > 1 or call_.keywords):
                self.refuse(s, f"counts from another start: {shortened(call_)}; add it in the loop")
            if all(isinstance(v, Items) for v in values):
                items = [v.values for v in values if isinstance(v, Items)]
                numbers = (
                    [[Scalar(constant(k), "int64") for k in range(len(items[0]))]] if function is enumerate else []
                )
                self.unrolled(s, [Items(list(row)) for row in zip(*numbers, *items)])
            else:
                self.over(s, values, function is enumerate)
        else:
            value = self.value(call_)
            if isinstance(value, Items):
                self.unrolled(s, value.values)
            else:
                self.over(s, [value], None)

    def range(self, node: ast.Call) -> Range:
        """Start, stop and step of a ``range(...)``."""
        values = [self.bounded(self.whole_number(a)) for a in node.args]
        if not 1 <= len(values) <= 3 or node.keywords:
            self.refuse(node, f"counts by {shortened(node)}; write range(start, stop, step)")
        if len(values) == 1:
            return ZERO, values[0], ONE
        return values[0], values[1], values[2] if len(values) == 3 else ONE

    def bounded(self, value: Scalar) -> Scalar:
        return self.kept(value, "bound")

    def reversed(self, node: ast.Call) -> Range:
        inner = node.args[0]
        if not isinstance(inner, ast.Call) or self.scope.routine.resolve(inner.func) is not range:
            self.refuse(node, f"goes through {shortened(node)}; write a range from the end, with a step of -1")
        start, stop, step = self.range(inner)
        if integer(step.expression) != 1:
            self.refuse(node, f"goes through {shortened(node)}; write the range from its end, with a negative step")
        last, before = minus(stop.expression, constant(1)), minus(start.expression, constant(1))
        return Scalar(last, "int64"), Scalar(before, "int64"), Scalar(ast.UnaryOp(ast.USub(), constant(1)), "int64")

    def counts(self, s: ast.For, bounds: Range, rows: bool = False) -> None:
        """A loop over a range."""
        if not isinstance(s.target, ast.Name):
            self.refuse(s, f"counts by {shortened(s.target)}; a range gives one number")
        target = s.target.id
        if self.is_ordinary(target):
            index = self.index_name(f"{self.scope.prefix}{target}")
            self.loop(s, index, bounds, rows, lambda: self.bind(s, target, Scalar(name(index), "int64")))
            return
        index = self.index_variable(target)
        held = self.scope.env.get(target)

        def start() -> None:
            self.scope.env[target] = Scalar(name(index), "int64")

        self.loop(s, index, bounds, rows, start)
        if held is None:
            self.scope.env.pop(target, None)
        else:
            self.scope.env[target] = held

    def index_variable(self, target: str) -> str:
        """The name of the index of a loop whose text calls it ``target``: loops one behind another may share it."""
        base = f"{self.scope.prefix}{target}"
        if (
            base not in self.indices
            and (base in self.index_names or base not in self.existing)
            and (not self.scope.prefix or base not in self.taken or base in self.index_names)
        ):
            self.index_names.add(base)
            self.taken.add(base)
            return base
        return self.index_name(base)

    def is_ordinary(self, target: str) -> bool:
        """Whether a loop's index is assigned to elsewhere or read outside of the loop."""
        found = self.scope.ordinary.get(target)
        if found is None:
            found = self.scope.ordinary[target] = _is_ordinary(self.scope.body, target, False)
            found = self.scope.ordinary[target] = found or target in self.scope.routine.parameters
        return found

    def loop(self, s: ast.For, index: str, bounds: Range, rows: bool, start: Callable[[], None]) -> None:
        """The loop over a range, ``start`` ahead of its body."""
        first, stop, step = (b.expression for b in bounds)
        number = integer(step)
        self.own_memory(s, s.body)
        if number is not None and number > 0 and self.at_least_zero(first):
            self.positive.add(index)
            self.indices[index] = stop
            self.lows[index] = first
        elif number is not None and number < 0 and self.at_least_zero(plus(stop, constant(1))):
            self.positive.add(index)
            self.indices[index] = plus(first, constant(1))
        else:
            self.indices[index] = stop if number is not None and number > 0 else None
        line = self.line
        body, leave = self.repeated(s, start)
        self.line = line
        self.emit(For(index, first, stop, step, body, leave, rows))
        del self.indices[index]
        self.lows.pop(index, None)
        self.positive.discard(index)

    def over(self, s: ast.For, values: Sequence[Value], counted: bool | None) -> None:
        """A loop over arrays; counted: whether ``enumerate``, None for one array alone."""
        arrays: list[Array] = []
        for v in values:
            if not isinstance(v, Array) or not v.ndim:
                self.refuse(s, f"goes through {shortened(s.iter)}; loop over a range, an array or a tuple")
            arrays.append(self.iterated(s, self.in_memory(v, "part")))
        size = self.not_negative(arrays[0].shape[0])
        for v in arrays[1:]:
            if self.same(size, v.shape[0]) is not True:
                size = self.temporary("stop", Scalar(call("min", size, v.shape[0]), "int64")).expression
        size = self.bounded(Scalar(size, "int64")).expression
        target = s.target
        count = list(_counted(s))[0] if counted and _counted(s) else ""
        shown = bool(count) and not self.is_ordinary(count)
        index = self.index_variable(count) if shown else self.index_name(f"{self.scope.prefix}i")
        at = Scalar(name(index), "int64")
        node = ast.Subscript(ast.Name("_", ast.Load()), ast.Name("_i", ast.Load()), ast.Load())

        def start() -> None:
            elements: list[Value] = [self.taken_at(node, v, at) for v in arrays]
            if shown and isinstance(target, ast.Tuple):
                self.scope.env[count] = at
                self.to(target.elts[1], elements[0], s)
                return
            item: Value = Items([at, *elements]) if counted else elements[0] if counted is None else Items(elements)
            self.to(target, item, s)

        self.loop(s, index, (ZERO, Scalar(size, "int64"), ONE), False, start)

    def iterated(self, s: ast.For, array: Array) -> Array:
        """The array that a loop goes through: a copy where the body gives a name of it to another one.

        The memory behind the name then gets the other one's elements, which the loop is not to see.
        """
        assert array.place is not None
        base = array.place.base
        names = {n for n, v in self.scope.env.items() if base in names_of(v)}
        if not names & _given(s.body):
            return array
        if names & self.stored_names(s.body):
            what = f"goes through {shortened(s.iter)}, stores into it and gives its name to another array"
            self.refuse(s, f"{what}; go through a copy, or use a new name")
        return self.materialised(array, "part")

    def taken_at(self, node: ast.Subscript, array: Array, at: Scalar) -> Value:
        """``array[at]``."""
        hidden = "iterated index"
        self.scope.env[hidden] = at
        text = ast.Subscript(node.value, ast.Name(hidden, ast.Load()), ast.Load())
        value = self.subscript(text, array)
        del self.scope.env[hidden]
        return value

    def unrolled(self, s: ast.For, values: Sequence[Value]) -> None:
        """A loop over a tuple: its body once for each item."""
        leave: str | None = getattr(s, "leave", None)
        before = self.out
        depth = 0
        blocks: list[tuple[list[Statement], Scalar]] = []
        for k, value in enumerate(values):
            if (
                isinstance(s.target, ast.Name)
                and isinstance(value, (Scalar, Known))
                and not _assigns(s.body, s.target.id)
            ):
                self.scope.env[s.target.id] = value
            else:
                self.to(s.target, value, s)
            if leave:
                self.scope.deep += 1
                depth += 1
            self.run_all(s.body)
            if leave and k + 1 < len(values):
                flag = self.scalar(ast.copy_location(ast.Name(leave, ast.Load()), s))
                blocks.append((self.out, flag))
                self.out = []
        for outer, flag in reversed(blocks):
            inner, self.out = self.out, outer
            if inner:
                self.emit(If(inverted(flag).expression, inner, []))
        assert self.out is before
        self.scope.deep -= depth

    def run_all(self, body: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    # While

    def run_while(self, s: ast.While) -> None:
        self.own_memory(s, s.body)
        test, needed = self.attempt(lambda: self.condition(s.test))
        assert isinstance(test, Scalar)
        if not needed:
            if isinstance(test.expression, ast.Constant) and not test.expression.value:
                return
            body, leave = self.repeated(s, lambda: None)
            self.attempt(lambda: self.condition(s.test))  # refuses names that the body makes other arrays
            self.emit(While(test.expression, body, leave))
            return
        # The test needs statements of its own, which each iteration begins with.
        ended = self.numbered("ended")
        inner: list[Statement] = []
        leave = None

        def start() -> None:
            self.assign(ended, inverted(self.condition(s.test)))

        body, leave = self.repeated(s, start)
        at = next(k for k, b in enumerate(body) if getattr(b, "target", None) == ended)
        inner = body[at + 1 :]
        if leave:
            with self.block() as last:
                self.assign(ended, either([self.variable(ended), self.variable(leave)]))
            inner += last
        flag = self.variable(ended)
        with self.block() as guarded:
            self.emit(If(inverted(flag).expression, inner, []))
        self.emit(While(constant(True), [*body[: at + 1], *guarded], ended))

    # Bodies

    def repeated(self, s: ast.For | ast.While, start: Callable[[], None]) -> tuple[list[Statement], str | None]:
        """The statements of a loop's body, and the flag that ends the loop.

        The body is written out again where it gives a name to another array: ahead of that, in each iteration but the
        first, the name stands for the array of the iteration before.
        """
        before = dict(self.scope.env)
        conflicts: dict[str, Value] = {}
        while True:
            state = self.snapshot()
            self.scope.env.update(conflicts)
            self.scope.deep += 1
            line = self.line
            with self.block() as body, self.inner_block(s.body):
                start()
                self.run_all(s.body)
            self.line = line
            self.scope.deep -= 1
            changed = [
                n for n in before if n not in conflicts and self.differs(before[n], self.scope.env.get(n, before[n]))
            ]
            if not changed:
                break
            self.restore(state)
            for n in changed:
                what = f"uses {n}, which a loop makes another array or object; use two names, or store into one"
                conflicts[n] = Conflict(what)
        flag = getattr(s, "leave", None)
        leave = None
        if flag:
            held = self.scope.env[flag]
            assert isinstance(held, Scalar) and isinstance(held.expression, ast.Name)
            leave = held.expression.id
        self.scope.env = self.merged({**before, **conflicts}, self.scope.env)
        return body, leave

    def differs(self, one: Value, other: Value) -> bool:
        if isinstance(one, Scalar) and isinstance(other, Scalar):
            return ast.unparse(one.expression) != ast.unparse(other.expression)
        if isinstance(one, Items) and isinstance(other, Items) and len(one.values) == len(other.values):
            return any(map(self.differs, one.values, other.values))
        return not alike(one, other)

    def snapshot(self) -> dict[str, Any]:
        names = ("found", "carried", "arrays", "owned", "taken", "existing", "index_names")
        kept: dict[str, Any] = {n: getattr(self, n).copy() for n in names}
        return {
            **kept,
            "env": dict(self.scope.env),
            "variables": dict(self.scope.variables),
            "own": dict(self.scope.arrays),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.scope.env, self.scope.variables = state.pop("env"), state.pop("variables")
        self.scope.arrays = state.pop("own")
        for n, v in state.items():
            setattr(self, n, v)

    def own_memory(self, s: ast.stmt, body: Sequence[ast.stmt]) -> None:
        """Copies, ahead of a loop or branch, of arrays whose names it gives to new ones."""
        for target in _rebound(body):
            held = self.scope.env.get(target)
            if not isinstance(held, Array) or held.place is None:
                continue
            base = held.place.base
            others = self.holders(base, target)
            if base in self.owned and held.place.is_whole and not others:
                continue
            if (base not in self.inputs and base not in self.owned) or {target, *others} & self.stored_names():
                if base in self.owned or base not in self.inputs:
                    what = f"stores into {target} and gives the name to another array in a loop or branch"
                    self.refuse(s, f"{what}; write {target}[...] = , or take a copy of it first")
            self.scope.env[target] = self.materialised(held, target)


def _is_ordinary(body: Sequence[ast.AST], target: str, inside: bool) -> bool:
    for node in body:
        if isinstance(node, ast.Name) and node.id == target and (isinstance(node.ctx, ast.Store) or not inside):
            return True
        if isinstance(node, ast.For) and target in (found := _counted(node)):
            others = [t for n, t in found.items() if n != target]
            if inside or _is_ordinary([node.iter, *others], target, inside) or _is_ordinary(node.body, target, True):
                return True
            continue
        if _is_ordinary(list(ast.iter_child_nodes(node)), target, inside):
            return True
    return False


def _counted(node: ast.For) -> dict[str, ast.expr]:
    """{name: target} of a loop's index, and of what stands beside it as ``enumerate`` gives it."""
    function = ast.unparse(node.iter.func).split(".")[-1] if isinstance(node.iter, ast.Call) else ""
    targets: list[ast.expr] = []
    if function in ("range", "prange", "reversed"):
        targets = [node.target]
    elif function == "enumerate" and isinstance(node.target, ast.Tuple) and len(node.target.elts) == 2:
        targets = node.target.elts
    if not targets or not isinstance(targets[0], ast.Name):
        return {}
    return {t.id if isinstance(t, ast.Name) and k == 0 else f" {k}": t for k, t in enumerate(targets)}


def _assigns(body: Sequence[ast.stmt], target: str) -> bool:
    nodes = (n for s in body for n in ast.walk(s))
    return any(isinstance(n, ast.Name) and n.id == target and isinstance(n.ctx, ast.Store) for n in nodes)


def _given(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements give to other objects; ``x += y`` leaves x the array that it is."""
    nodes = [n for s in body for n in ast.walk(s)]
    kept = {id(n.target) for n in nodes if isinstance(n, ast.AugAssign)}
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in kept}


def _rebound(body: Sequence[ast.stmt]) -> list[str]:
    """The names that statements may give to new arrays, or exchange."""
    found: list[str] = []
    for node in (n for s in body for n in ast.walk(s)):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name) and not isinstance(
                node.value, (ast.Subscript, ast.Attribute, ast.Constant)
            ):
                found.append(target.id)
            elif isinstance(target, ast.Tuple):
                found += [t.id for t in target.elts if isinstance(t, ast.Name)]
    return list(dict.fromkeys(found))
