"""Assignments: what a name stands for behind them, and stores into arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitgrad.kernels.adjoint.names import Names, changed_by, names_of
from jitgrad.kernels.adjoint.operations import operated
from jitgrad.kernels.adjoint.program import Exchange, If, Store
from jitgrad.kernels.adjoint.routine import shortened
from jitgrad.kernels.adjoint.values import (
    Array,
    Items,
    Scalar,
    Value,
    category,
    element,
)
from jitgrad.kernels.adjoint.views import Part

__all__ = ["Assignments"]


class Assignments(Names):
    """Statements that assign."""

    def assigns(self, node: ast.Assign) -> None:
        if self.exchanges(node):
            return
        value = self.value(node.value)
        for target in node.targets:
            self.to(target, value, node)
            if len(node.targets) > 1 and isinstance(target, ast.Name):
                value = self.scope.env[target.id]  # the next target takes what the first holds

    def to(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        """``target = value``."""
        if isinstance(target, ast.Name):
            self.bind(node, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpacks(target, value, node)
        elif isinstance(target, ast.Subscript):
            self.stores(target, value, node)
        else:
            self.refuse(node, f"assigns to {shortened(target)}; keep numbers in arrays or variables")

    # Several at once

    def unpacks(self, target: ast.Tuple | ast.List, value: Value, node: ast.stmt) -> None:
        if isinstance(value, Array) and value.shape:
            count = len(target.elts)
            value = Items([self.first(value, k) for k in range(count)])
        if not isinstance(value, Items) or len(value.values) != len(target.elts):
            self.refuse(node, f"takes a tuple apart into other than its number of values: {shortened(node)}")
        values = list(value.values)
        written: set[str] = set()
        for k, part in enumerate(target.elts):
            if changed_by(values[k], written):
                values[k] = self.saved(values[k])
            written |= self.written_by(part)
        for part, v in zip(target.elts, values):
            self.to(part, v, node)

    def first(self, value: Array, k: int) -> Value:
        from jitgrad.kernels.adjoint.sizes import constant

        text = ast.Subscript(ast.Name("_", ast.Load()), constant(k), ast.Load())
        return self.subscript(text, value)

    def written_by(self, target: ast.expr) -> set[str]:
        """The variables and arrays that an assignment to the target changes, ``elements of`` those through an index."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return {n for t in target.elts for n in self.written_by(t)}
        if isinstance(target, ast.Subscript):
            value = self.value(target.value)
            return {f"elements of {value.place.base}"} if isinstance(value, Array) and value.place else set()
        held = self.scope.env.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(held, Array) and not self.scope.deep:
            return set()  # the name is given another array, which leaves the first as it is
        return names_of(held)

    def exchanges(self, node: ast.Assign) -> bool:
        """``a, b = b, a`` of arrays: their names permuted."""
        target, value = node.targets[0], node.value
        if len(node.targets) > 1 or not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
            return False
        if not all(isinstance(t, ast.Name) for t in (*target.elts, *value.elts)):
            return False
        left, right = ([t.id for t in side.elts if isinstance(t, ast.Name)] for side in (target, value))
        env = self.scope.env
        held = [env.get(n) for n in right]
        if sorted(left) != sorted(right) or not all(isinstance(v, Array) and v.place for v in held):
            return False
        if not self.scope.deep:
            env.update(zip(left, held))  # type: ignore[arg-type]
            return True
        bases = {}
        for n in left:
            v = env[n]
            assert isinstance(v, Array) and v.place is not None
            if not v.place.is_whole or v.place.base not in self.owned or self.holders(v.place.base, n):
                what = f"exchanges {n}, which is a part of an array or has another name: {shortened(node)}"
                self.refuse(node, f"{what}; exchange copies")
            bases[n] = v.place.base
        if len({self.arrays[b] for b in bases.values()}) > 1:
            self.refuse(node, f"exchanges arrays of different kinds: {shortened(node)}")
        self.made_in.update(dict.fromkeys(bases.values(), self.block_numbers[-1]))
        self.emit(Exchange(tuple(bases[n] for n in left), tuple(bases[n] for n in right)))
        return True

    # Elements

    def stores(self, target: ast.Subscript, value: Value, node: ast.stmt) -> None:
        array = self.value(target.value)
        if not isinstance(array, Array) or array.place is None:
            self.refuse(node, f"stores into what is no array: {shortened(node)}")
        self.writes(node, array.place.base)
        parts = self.parts(target, array)
        if self.is_mask(parts, array):
            self.store_where(node, array, parts[0], value)
            return
        where = self.target(target, array, parts)
        if isinstance(where, Array):
            self.store(node, where, value)
            return
        if isinstance(value, Array) and not value.ndim:
            value = value.at([])
        if not isinstance(value, Scalar):
            self.refuse(node, f"stores what is no number into an element: {shortened(node)}")
        base, index = where
        self.emit(Store(base, index, self.number(value, array.dtype)))

    def is_mask(self, parts: Sequence[Part], array: Array) -> bool:
        first = parts[0] if parts else None
        return isinstance(first, Array) and first.dtype == "bool" and first.ndim == array.ndim

    def store_where(
        self, node: ast.stmt, array: Array, mask: Part, value: Value, op: ast.operator | None = None
    ) -> None:
        """``x[mask] = number``."""
        assert isinstance(mask, Array) and array.place is not None
        if isinstance(value, Array) and not value.ndim:
            value = value.at([])
        if not isinstance(value, Scalar):
            self.refuse(node, f"stores an array where a mask is true: {shortened(node)}; write a loop with an if")
        mask, place, number = self.settled(mask), array.place, self.once(value)
        self.fits(mask, array)
        if not self.reads_in_place(mask, place):
            mask = self.materialised(mask, "mask")
        chosen = mask

        def body(at: list[ast.expr]) -> None:
            with self.block() as inner:
                self.change(node, place.base, place.index(at), array.dtype, number, op)
            self.emit(If(chosen.at(at).expression, inner, []))

        self.nest(array.shape, body)

    def target(
        self, target: ast.Subscript, array: Array, parts: Sequence[Part]
    ) -> Array | tuple[str, tuple[ast.expr, ...]]:
        """The part or the element that a store goes to."""
        found = self.chosen(target, array, parts)
        if isinstance(found, Array):
            if found.place is None:
                self.refuse(target, f"stores into {shortened(target)}, which an array of indices chooses; write a loop")
            return found
        element = found.expression
        assert isinstance(element, ast.Subscript) and isinstance(element.value, ast.Name)
        index = element.slice.elts if isinstance(element.slice, ast.Tuple) else [element.slice]
        return element.value.id, tuple(index)

    def augments(self, node: ast.AugAssign) -> None:
        """``target op= value``."""
        if isinstance(node.target, ast.Name):
            held = self.value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
            if isinstance(held, Array) and held.place is not None:
                self.store(node, held, self.value(node.value), node.op)
                return
            loaded: ast.expr = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            value = self.of_binop(ast.copy_location(ast.BinOp(loaded, node.op, node.value), node))
            self.bind(node, node.target.id, value)
            return
        if not isinstance(node.target, ast.Subscript):
            self.refuse(node, f"assigns to {shortened(node.target)}; keep numbers in arrays or variables")
        array = self.value(node.target.value)
        if not isinstance(array, Array) or array.place is None:
            self.refuse(node, f"stores into what is no array: {shortened(node)}")
        self.writes(node, array.place.base)
        parts = self.parts(node.target, array)
        if self.is_mask(parts, array):
            self.store_where(node, array, parts[0], self.value(node.value), node.op)
            return
        where = self.target(node.target, array, parts)
        value = self.value(node.value)
        if isinstance(where, Array):
            self.store(node, where, value, node.op)
            return
        if isinstance(value, Array) and not value.ndim:
            value = value.at([])
        if not isinstance(value, Scalar):
            self.refuse(node, f"stores what is no number into an element: {shortened(node)}")
        self.change(node, *where, array.dtype, value, node.op)

    def change(
        self, node: ast.AST, base: str, index: tuple[ast.expr, ...], dtype: str, value: Scalar, op: ast.operator | None
    ) -> None:
        """``base[index] op= value``, or ``=`` without an operator."""
        new: Scalar | None = value
        if op is not None:
            if self.incremented(base, index, op, value):
                return
            new = operated(op, Scalar(element(base, index), category(dtype)), value)
        if new is None:
            self.refuse(node, f"uses an operator that can't be differentiated: {shortened(node)}")
        self.emit(Store(base, index, self.number(new, dtype)))
