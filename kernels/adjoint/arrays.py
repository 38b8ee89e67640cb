"""Whole arrays: expressions of them element by element, new arrays, and loops that store into one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np

from jitgrad.kernels.adjoint.program import Allocate, For, Kind, Store
from jitgrad.kernels.adjoint.routine import shortened
from jitgrad.kernels.adjoint.sizes import constant, integer, minus, name, names_in
from jitgrad.kernels.adjoint.state import State, array_of_size, leaves
from jitgrad.kernels.adjoint.values import Array, Fixed, Place, Scalar, Span, Value, converted, stored, whole

__all__ = ["Arrays"]

BROADCAST = "operands could not be broadcast together"


class Arrays(State):
    """What is written out for arrays as a whole."""

    def held(self, variable: str) -> Array:
        """A variable that is an array, all of it."""
        kind = self.arrays[variable]
        return stored(whole(variable, kind.ndim or 0), kind.dtype)

    def nest(self, shape: Sequence[ast.expr], body: Callable[[list[ast.expr]], None]) -> None:
        """Loops over all indices of a shape, and ``body`` within them."""
        names: list[str] = []
        blocks = []
        before, self.out = self.out, self.out
        for k, size in enumerate(shape):
            names.append(self.index_name("ijklmnpqr"[k]))
            self.indices[names[-1]] = size
            self.positive.add(names[-1])
            blocks.append(self.out)
            self.out = []
        body([name(n) for n in names])
        for k in reversed(range(len(shape))):
            inner, self.out = self.out, blocks[k]
            self.emit(For(names[k], constant(0), shape[k], constant(1), inner))
            del self.indices[names[k]]
            self.positive.discard(names[k])
        assert self.out is before

    def index_name(self, letter: str) -> str:
        """The name of a loop's index: ``i_1`` or the first that no loop around has."""
        k = 1
        while True:
            found = f"{letter}_{k}"
            if found not in self.indices and (found not in self.taken or found in self.index_names):
                self.index_names.add(found)
                self.taken.add(found)
                return found
            k += 1

    # Expressions

    def elementwise(
        self, node: ast.AST, build: Callable[..., Scalar], operands: Sequence[Value], dtype: str = ""
    ) -> Value:
        """The function of numbers applied to each element; of numbers only, its value. dtype: the result's."""
        values: list[Scalar | Array] = []
        for v in operands:
            if isinstance(v, Array) and not v.ndim:
                v = v.at([])
            if not isinstance(v, (Scalar, Array)):
                self.refuse(node, f"computes with what is no number: {ast.unparse(node)}")
            values.append(self.settled(v) if isinstance(v, Array) else v)
        arrays = [v for v in values if isinstance(v, Array)]
        if not arrays:
            return build(*values)
        # A number that is one for all elements is computed once, ahead of the loop.
        values = [v if isinstance(v, Array) else self.once(v) for v in values]
        shape = self.broadcast(node, arrays)
        at = lambda index: build(*[v.at(_own(v, index)) if isinstance(v, Array) else v for v in values])
        kind = at([name("_")] * len(shape)).kind
        reads = [_stretched(p, v, len(shape)) for v in arrays for p in v.reads]
        scattered = {a for v in arrays for a in v.scattered}
        dtype = dtype or result_dtype(kind, arrays, len(arrays) == len(values))
        # Elements are computed with 64 bits. Those of small integers wrap in memory, so they are read from there.
        make = (lambda variable: self.fills(variable, shape, dtype, at)) if _is_small(dtype) else None
        return Array(shape, dtype, at, reads, None, scattered, make)

    def once(self, value: Scalar) -> Scalar:
        """A number for use in a loop that may store into arrays: in a variable if it costs or reads elements."""
        costs = any(isinstance(n, (ast.Call, ast.Div, ast.Pow, ast.IfExp)) for n in ast.walk(value.expression))
        reads = any(isinstance(n, ast.Subscript) and not array_of_size(n) for n in leaves(value.expression))
        return self.temporary("value", value) if costs or reads else value

    def broadcast(self, node: ast.AST, arrays: Sequence[Array]) -> list[ast.expr]:
        """The shape that arrays have together; dimensions of size 1 stretch only where the text makes them."""
        ndim = max(v.ndim for v in arrays)
        shape: list[ast.expr] = []
        message = f"{BROADCAST}: {shortened(node)}; a size of 1 stretches only if the text makes it, as x[:, None] does"
        for k in range(ndim):
            sizes = [v.shape[k - ndim + v.ndim] for v in arrays if k >= ndim - v.ndim]
            sizes = [s for s in sizes if integer(s) != 1] or sizes[:1]
            self.agree(sizes[1:], [sizes[0]] * len(sizes[1:]), message)
            shape.append(sizes[0])
        return shape

    # Memory

    def allocate(self, base: str, shape: Sequence[ast.expr], dtype: str, fill: ast.expr | None = None) -> Array:
        """A new array, in a variable of its own."""
        variable = self.fresh(base)
        return self.allocated(variable, shape, dtype, fill)

    def allocated(self, variable: str, shape: Sequence[ast.expr], dtype: str, fill: ast.expr | None) -> Array:
        self.arrays[variable] = Kind(dtype, len(shape))
        self.owned.add(variable)
        self.made_in[variable] = self.block_numbers[-1]
        self.emit(Allocate(variable, tuple(self.not_negative(s) for s in shape), fill))
        return self.held(variable)

    def materialised(self, value: Array, base: str) -> Array:
        """The array in new memory."""
        return self.into(self.fresh(base), value)

    def into(self, variable: str, value: Array) -> Array:
        """The variable becomes a new array of the value's elements."""
        fill = converted(value.fill, _stored_kind(value.dtype)) if value.fill else None
        new = self.allocated(variable, value.shape, value.dtype, fill)
        if value.make is not None:
            value.make(variable)
        elif not value.fill and not value.empty:
            # The sizes as the text gives them; those of the new array are the same.
            self.fills(variable, value.shape, value.dtype, value.at)
        return new

    def fills(
        self, variable: str, shape: Sequence[ast.expr], dtype: str, at: Callable[[Sequence[ast.expr]], Scalar]
    ) -> None:
        """Loops that store each element of an array into a variable."""
        self.nest(shape, lambda index: self.emit(Store(variable, tuple(index), self.number(at(index), dtype))))

    def number(self, value: Scalar, dtype: str) -> ast.expr:
        """The number as it is stored into an array."""
        return converted(value, "float64") if dtype.startswith("float") else value.expression

    def settled(self, value: Array) -> Array:
        """The array with elements that can be asked for one by one."""
        return value if value.make is None else self.materialised(value, "part")

    def in_memory(self, value: Array, base: str) -> Array:
        """The array if it is in memory, else a new one of its elements."""
        return value if value.place is not None else self.materialised(value, base)

    # Stores

    def store(self, node: ast.AST, target: Array, value: Value, op: ast.operator | None = None) -> None:
        """``target[...] = value`` or, with an operator, ``target[...] op= value``."""
        from jitgrad.kernels.adjoint.operations import operated

        place = target.place
        assert place is not None
        self.writes(node, place.base)
        if isinstance(value, Array) and not value.ndim:
            value = value.at([])
        if isinstance(value, Scalar):
            value = self.once(value)
            source = lambda at: value
        elif isinstance(value, Array):
            if value.ndim > target.ndim:
                self.refuse(
                    node, f"stores an array of {value.ndim} dimensions into one of {target.ndim}: {ast.unparse(node)}"
                )
            value = self.settled(value)
            self.fits(value, target)
            if not self.reads_in_place(value, place):
                value = self.materialised(value, "copy")
            array = value
            source = lambda at: array.at(_own(array, at))
        else:
            self.refuse(node, f"stores what is no number: {ast.unparse(node)}")

        def body(at: list[ast.expr]) -> None:
            new, index = source(at), place.index(at)
            if op is not None:
                result = self.incremented(place.base, index, op, new)
                if result:
                    return
                changed = operated(op, target.at(at), new)
                if changed is None:
                    self.refuse(node, f"uses an operator that can't be differentiated: {ast.unparse(node)}")
                new = changed
            self.emit(Store(place.base, index, self.number(new, target.dtype)))

        self.nest(target.shape, body)

    def incremented(self, base: str, index: Sequence[ast.expr], op: ast.operator, value: Scalar) -> bool:
        """``base[index] += value`` where it can be written so."""
        if not isinstance(op, (ast.Add, ast.Sub)) or base in names_in(value.expression):
            return False
        from jitgrad.kernels.adjoint.operations import negated

        if any(base in names_in(i) for i in index):
            return False
        amount = value if isinstance(op, ast.Add) else negated(value)
        self.emit(Store(base, tuple(index), self.number(amount, self.arrays[base].dtype), True))
        return True

    def fits(self, value: Array, target: Array) -> None:
        """A check that the array has the target's shape, but for dimensions that the text gives size 1."""
        offset = target.ndim - value.ndim
        pairs = [(s, target.shape[offset + k]) for k, s in enumerate(value.shape) if integer(s) != 1]
        if pairs:
            self.agree(
                [a for a, _ in pairs], [b for _, b in pairs], "could not broadcast input array into the array's shape"
            )

    def reads_in_place(self, value: Array, place: Place) -> bool:
        """Whether each element can be computed when those before it have been stored."""
        if place.base in value.scattered:
            return False
        text = place.text()
        return all(p.base != place.base or p.text() == text or self.apart(p, place) for p in value.reads)

    def apart(self, one: Place, other: Place) -> bool:
        """Whether parts of one array are known to share no element: they differ in an index."""
        for a, b in zip(one.slots, other.slots, strict=True):
            if not isinstance(a, Span) and not isinstance(b, Span):
                difference = minus(a.index, b.index)
                if any(self.at_least_zero(minus(d, constant(1))) for d in (difference, minus(constant(0), difference))):
                    return True
        return False

    def writes(self, node: ast.AST, array: str) -> None:
        """Refuse to write into an input."""
        if array in self.inputs:
            instead = "write into a parameter named out..., or into a copy"
            self.refuse(node, f"writes into its input {array}: {shortened(node)}; {instead}")


def _own(value: Array, index: Sequence[ast.expr]) -> list[ast.expr]:
    """The index of an operand's element, from the index of the result that the operand is broadcast to."""
    last = index[len(index) - value.ndim :]
    return [constant(0) if integer(s) == 1 else i for s, i in zip(value.shape, last, strict=True)]


def _stretched(place: Place, value: Array, ndim: int) -> Place:
    """The part of memory that an operand reads, by the index of the result that it is broadcast to."""
    if value.place is not None and value.ndim == ndim and not any(integer(s) == 1 for s in value.shape):
        return place
    missing = ndim - value.ndim
    slots: list[Fixed | Span] = []
    for s in place.slots:
        if isinstance(s, Span):
            literal = s.dimension < len(place.shape) and integer(place.shape[s.dimension]) == 1
            slots.append(Span(s.start, 0 if literal else s.step, s.dimension + missing))
        else:
            slots.append(s)
    return Place(place.base, slots, [constant(1)] * (ndim - len(place.shape)) + list(place.shape))


def _stored_kind(dtype: str) -> str:
    return "float64" if dtype.startswith("float") else "bool" if dtype == "bool" else "int64"


def result_dtype(kind: str, arrays: Sequence[Array], alone: bool) -> str:
    """The dtype of a computed array; numbers beside arrays don't make floats wider, as in NumPy.

    alone: whether there are no numbers beside them. Integers beside numbers are int64, as Numba has it.
    """
    if kind == "float64":
        return "float32" if all(v.dtype == "float32" for v in arrays) else "float64"
    together = str(np.result_type(*[np.dtype(v.dtype) for v in arrays]))
    return together if kind == "int64" and alone and _is_small(together) else kind


def _is_small(dtype: str) -> bool:
    """Whether numbers of the dtype are integers that wrap where the language's do not."""
    return dtype.startswith(("int", "uint")) and np.dtype(dtype).itemsize < 8
