"""Parts of arrays: indices and slices as offsets into the array that holds the elements."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeAlias

from jitgrad.kernels.adjoint.arrays import Arrays
from jitgrad.kernels.adjoint.operations import choice, compared
from jitgrad.kernels.adjoint.sizes import call, constant, integer, minus, plus, times
from jitgrad.kernels.adjoint.values import Array, Fixed, Known, Place, Scalar, Span, Value, stored

__all__ = ["Views"]

# What may stand between brackets: None adds a dimension.
Part: TypeAlias = Scalar | Array | ast.Slice | None
ZERO = Scalar(constant(0), "int64")


class Views(Arrays):
    """Subscripts of arrays."""

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def subscript(self, node: ast.Subscript, array: Array) -> Scalar | Array:
        """``array[...]``."""
        return self.chosen(node, array, self.parts(node, array))

    def chosen(self, node: ast.AST, array: Array, parts: Sequence[Part]) -> Scalar | Array:
        """The part, or the element, that is between brackets."""
        array = self.settled(array)
        gathered = [p for p in parts if isinstance(p, Array)]
        if gathered:
            return self.gathered(node, array, parts)
        if array.place is None:
            if all(isinstance(p, Scalar) for p in parts) and len(parts) == array.ndim:
                return array.at([self.wrapped(p, s) for p, s in zip(parts, array.shape)])  # type: ignore[arg-type]
            array = self.in_memory(array, "part")
        assert array.place is not None
        if len(parts) == array.ndim and all(isinstance(p, Scalar) for p in parts):
            index = [self.offset(p, array.place, k) for k, p in enumerate(parts)]  # type: ignore[arg-type]
            return array_element(array, index)
        return stored(self.part(node, array.place, parts), array.dtype)

    def parts(self, node: ast.Subscript, array: Array) -> list[Part]:
        """What stands between the brackets, ``...`` written out and missing dimensions added."""
        texts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts: list[Part] = []
        for text in texts:
            value = Known(...) if isinstance(text, ast.Slice) else self.value(text)
            if isinstance(text, ast.Slice):
                parts.append(text)
            elif isinstance(value, Known) and value.object is None:
                parts.append(None)
            elif isinstance(value, Known) and value.object is ...:
                used = len([t for t in texts if not (isinstance(t, ast.Constant) and t.value in (None, ...))])
                parts += [ast.Slice()] * (array.ndim - used)
            elif isinstance(value, (Scalar, Array)) and not (
                isinstance(value, Array) and value.dtype.startswith("float")
            ):
                parts.append(
                    value if isinstance(value, Scalar) else self.settled(value) if value.ndim else value.at([])
                )
            else:
                self.refuse(node, f"indexes by what is no integer: {ast.unparse(node)}")
            if isinstance(value, Scalar) and value.kind == "float64":
                self.refuse(node, f"indexes by a float: {ast.unparse(node)}; write int({ast.unparse(text)})")
        count = len([p for p in parts if p is not None])
        if count > array.ndim:
            self.refuse(node, f"has {count} indices for an array of {array.ndim} dimensions: {ast.unparse(node)}")
        return parts + [ast.Slice()] * (array.ndim - count)

    def offset(self, value: Scalar, place: Place, dimension: int) -> ast.expr:
        """An index as it goes into the part's dimension; those from the end counted from the start."""
        number = integer(value.expression)
        if number is not None and number < 0:
            return plus(place.shape[dimension], constant(number))
        slot = next((s for s in place.slots if isinstance(s, Span) and s.dimension == dimension), None)
        if slot is None:
            return value.expression  # a dimension that the text adds: every index means its one element
        if integer(slot.start) == 0 and slot.step == 1 and ast.unparse(place.shape[dimension]).endswith("]"):
            return value.expression  # all of the dimension: an index from the end means the same in the array
        return self.wrapped(value, place.shape[dimension])

    def wrapped(self, value: Scalar, size: ast.expr) -> ast.expr:
        """An index into a dimension of this size, where negative ones count from its end."""
        index = value.expression
        number = integer(index)
        if number is not None:
            return index if number >= 0 else plus(size, constant(number))
        if self.at_least_zero(index):
            return index
        return choice(compared(ast.GtE(), value, ZERO), value, Scalar(plus(index, size), "int64")).expression

    def part(self, node: ast.AST, place: Place, parts: Sequence[Part]) -> Place:
        """The part of a part."""
        shape: list[ast.expr] = []
        chosen: dict[int, Fixed | tuple[ast.expr, int, int]] = {}
        dimension = 0
        for p in parts:
            if p is None:
                shape.append(constant(1))
                continue
            if isinstance(p, Scalar):
                index = Scalar(self.offset(p, place, dimension), "int64")
                chosen[dimension] = Fixed(self.kept(index, "index").expression)
            else:
                assert isinstance(p, ast.Slice)
                start, step, size = self.bounds(p, place.shape[dimension])
                chosen[dimension] = (start, step, len(shape))
                shape.append(size)
            dimension += 1
        slots: list[Fixed | Span] = []
        for s in place.slots:
            if isinstance(s, Fixed):
                slots.append(s)
                continue
            choice_ = chosen[s.dimension]
            if isinstance(choice_, Fixed):
                slots.append(Fixed(plus(s.start, times(constant(s.step), choice_.index))))
            else:
                start, step, at = choice_
                slots.append(Span(plus(s.start, times(constant(s.step), start)), s.step * step, at))
        return Place(place.base, slots, shape)

    def bounds(self, node: ast.Slice, size: ast.expr) -> tuple[ast.expr, int, ast.expr]:
        """Start, step and number of elements of a slice."""
        step = 1
        if node.step is not None:
            found = self.value(node.step)
            number = integer(found.expression) if isinstance(found, Scalar) else None
            if not number or (number < 0 and (number != -1 or node.lower or node.upper)):
                self.refuse(
                    node, f"takes a slice {ast.unparse(node)}: steps must be positive constants, or all of [::-1]"
                )
            step = number
        if step == -1:
            return minus(size, constant(1)), -1, size
        start = self.bound(node.lower, size, True) if node.lower is not None else constant(0)
        stop = self.bound(node.upper, size, False) if node.upper is not None else size
        length = minus(stop, start)
        if step > 1:
            length = ast.BinOp(plus(length, constant(step - 1)), ast.FloorDiv(), constant(step))
        # A start behind the end leaves a negative number: a range over it has no elements, nor has the part.
        return start, step, length if self.steady(length) else self.length_of(length)

    def length_of(self, length: ast.expr) -> ast.expr:
        return self.temporary("length", Scalar(self.not_negative(length), "int64")).expression

    def bound(self, node: ast.expr, size: ast.expr, is_start: bool) -> ast.expr:
        """A slice's start or stop, brought into the dimension as Python does."""
        value = self.value(node)
        if isinstance(value, Known) and value.object is None:
            self.refuse(node, "takes a slice with a bound None; leave the bound out")
        if not isinstance(value, Scalar) or value.kind == "float64":
            self.refuse(node, f"takes a slice with a bound that is no integer: {ast.unparse(node)}")
        number = integer(value.expression)
        if is_start:
            if self.at_least_zero(value.expression):
                return self.kept(value, "start").expression
            inside = value.expression
        else:
            if number == 0 or (
                self.at_least_zero(minus(size, value.expression)) and self.at_least_zero(value.expression)
            ):
                return self.kept(value, "stop").expression
            inside = call("min", value.expression, size)
        if number is not None and number < 0:
            # What is negative still, as a stop, leaves a part without elements.
            end = plus(size, constant(number))
            if not is_start:
                return end
            inside = call("max", end, constant(0))
        elif number is None and not self.at_least_zero(value.expression):
            outside = Scalar(call("max", plus(size, value.expression), constant(0)), "int64")
            inside = choice(compared(ast.GtE(), value, ZERO), Scalar(inside, "int64"), outside).expression
        return self.temporary("start" if is_start else "stop", Scalar(inside, "int64")).expression

    def gathered(self, node: ast.AST, array: Array, parts: Sequence[Part]) -> Array:
        """``x[index]`` of an array of integers: the elements, or rows, that it names."""
        index, *rest = parts
        plain = all(isinstance(p, ast.Slice) and p.lower is p.upper is p.step is None for p in rest)
        if not isinstance(index, Array) or not plain:
            self.refuse(node, f"indexes by an array beside others: {ast.unparse(node)}; write a loop")
        if index.dtype == "bool":
            self.refuse(node, f"takes the elements where a mask is true: {ast.unparse(node)}; write a loop with an if")
        at = lambda i: array.at([self.wrapped(index.at(i[: index.ndim]), array.shape[0]), *i[index.ndim :]])
        scattered = {p.base for p in array.reads} | index.scattered
        return Array([*index.shape, *array.shape[1:]], array.dtype, at, [*array.reads, *index.reads], None, scattered)


def array_element(array: Array, index: Sequence[ast.expr]) -> Scalar:
    """The element of an array in memory."""
    from jitgrad.kernels.adjoint.values import category, element

    assert array.place is not None
    return Scalar(element(array.place.base, array.place.index(index)), category(array.dtype))
