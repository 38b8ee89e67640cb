"""Einstein sums: the equation is read, operands are lined up by label, pairs are multiplied as matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jitgrad.core.errors import type_name
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, broadcast_shapes, cache
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_calls import observed
from jitgrad.dispatch.operand_checks import check_tensors
from jitgrad.dispatch.registry import public
from jitgrad.ops.linalg.matrix_products import Bmm
from jitgrad.ops.reduction.sums import SumDim
from jitgrad.ops.shape.expand import Unsqueeze
from jitgrad.ops.shape.permute import Permute, movedim
from jitgrad.ops.shape.slicing import Diagonal
from jitgrad.ops.shape.view import Reshaped, relaying, reshaped

__all__: list[str] = []

ELLIPSIS = "..."
_TOO_FEW = (
    "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts "
    "list"
)


def _labels(text: str, start: int, what: str) -> list[str]:
    """Letters and at most one ellipsis of one operand's part; ``start`` is its place in the equation."""
    found: list[str] = []
    k = 0
    while k < len(text):
        c = text[k]
        if c == ".":
            of_output = what == "output"
            if ELLIPSIS in found:
                again = "but an ellipsis (...)" if of_output else "for which an ellipsis"
                raise RuntimeError(f"einsum(): found '.' for {what} {again} was already found")
            if text[k : k + 3] != ELLIPSIS:
                dots = " (...)" if of_output else ""
                raise RuntimeError(f"einsum(): found '.' for {what} that is not part of any ellipsis{dots}")
            found.append(ELLIPSIS)
            k += 2
        elif c.isascii() and c.isalpha():
            found.append(c)
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + k} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
        k += 1
    return found


def _read(equation: str, operands: Sequence[Layout]) -> tuple[list[list[str]], list[str] | None]:
    """Labels of every operand, and of the output where the equation names them."""
    left, arrow, right = equation.partition("->")
    parts, at = left.split(","), 0
    if len(parts) != len(operands):
        raise RuntimeError(
            f"einsum(): {'fewer' if len(parts) > len(operands) else 'more'} operands were provided than specified in "
            "the equation"
        )
    inputs = []
    for k, part in enumerate(parts):
        inputs.append(_labels(part, at, f"operand {k}"))
        at += len(part) + 1
    output = _labels(right, len(left) + 2, "output") if arrow else None
    for label in output or ():
        if output.count(label) > 1:  # type: ignore[union-attr]
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
        if label != ELLIPSIS and not any(label in labels for labels in inputs):
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any input operand"
            )
    return inputs, output


def _expanded(labels: list[str], x: Layout, k: int) -> list[str]:
    """Labels with the ellipsis replaced by one numbered label for each dim, counted from its end."""
    letters, ndim = len(labels) - (ELLIPSIS in labels), x.ndim
    if ELLIPSIS not in labels and letters != ndim:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({letters}) does not match the number of dimensions "
            f"({ndim}) for operand {k} and no ellipsis was given"
        )
    if letters > ndim:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({letters}) is more than the number of dimensions "
            f"({ndim}) for operand {k}"
        )
    at = labels.index(ELLIPSIS) if ELLIPSIS in labels else 0
    hidden = [f"{ELLIPSIS}{d}" for d in range(ndim - letters, 0, -1)]
    return [*labels[:at], *hidden, *labels[at + 1 :]] if ELLIPSIS in labels else labels


_Step = tuple[Callable[..., Tensor], tuple[int, ...], tuple[Any, ...]]


def _run(steps: Sequence[_Step], operands: Sequence[Tensor]) -> list[Tensor]:
    """The operands and the results of the steps."""
    values = [*operands]
    for function, numbers, rest in steps:
        values.append(function(*[values[n] for n in numbers], *rest))
    return values


class _Value(NamedTuple):
    """A tensor of a program: its number and its shape."""

    number: int
    shape: tuple[int, ...]


class _Program:
    """The ops that an equation comes to for operands of some layouts: ``steps`` are (function, its tensors, the rest).

    It is written once, by the functions below, which look at shapes only, and then run on tensors.
    """

    def __init__(self, operands: Sequence[Layout]):
        self.count, self.steps = len(operands), list[_Step]()
        self.merged: list[_Step] | None = None

    def do(self, function: Callable[..., Tensor], shape: Sequence[int], *given: Any) -> _Value:
        """Add a step that calls ``function`` on values, then other arguments; ``shape`` is that of its result."""
        values = tuple([v.number for v in given if isinstance(v, _Value)])
        self.steps.append((function, values, given[len(values) :]))
        return _Value(self.count + len(self.steps) - 1, tuple(shape))

    def run(self, operands: Sequence[Tensor]) -> Tensor:
        """The result of the last step."""
        recorded = grad_state.enabled and any(x._requires_grad for x in operands)
        apart = recorded or grad_state.levels or observed()
        return _run(self.steps if apart else self.merged or self.merge(operands), operands)[-1]

    def merge(self, operands: Sequence[Tensor]) -> list[_Step]:
        """The steps for operands that nothing is recorded of, where several views, one of another, are one step."""
        values, steps = _run(self.steps, operands), list[_Step]()
        # {number of a value: its number among those of the new steps}, and for views that of what they are a view of
        places, roots = {k: k for k in range(self.count)}, dict[int, int]()

        def add(number: int, function: Any, numbers: tuple[int, ...], rest: tuple[Any, ...]) -> None:
            steps.append((function, tuple([places[n] for n in numbers]), rest))
            places[number] = self.count + len(steps) - 1

        def made(number: int) -> None:
            if number not in places:
                layout, root = values[number]._layout, roots[number]
                add(number, relaying(values[root]._layout, layout.shape, layout.strides), (root,), ())

        for number, (function, numbers, rest) in enumerate(self.steps, self.count):
            if values[number]._base is not None:
                roots[number] = roots.get(numbers[0], numbers[0])
                continue
            for n in numbers:
                made(n)
            add(number, function, numbers, rest)
        made(len(values) - 1)
        self.merged = steps
        return steps

    def permute(self, x: _Value, order: Sequence[int]) -> _Value:
        """The dims in another order."""
        return self.do(Permute.apply, [x.shape[d] for d in order], x, tuple(order))

    def sum(self, x: _Value, dims: int | tuple[int, ...], keepdim: bool) -> _Value:
        """The sum over dims."""
        gone = (dims,) if isinstance(dims, int) else dims
        kept = [1 if d in gone else n for d, n in enumerate(x.shape) if keepdim or d not in gone]
        return self.do(SumDim.apply, kept, x, dims, keepdim)


def _without_repeats(program: _Program, x: _Value, labels: list[str], k: int) -> tuple[_Value, list[str]]:
    """Dims that carry the same label become one: their diagonal."""
    kept: list[str] = []
    for label in labels:
        if label in kept:
            first, again = kept.index(label), len(kept)
            if x.shape[first] != x.shape[again]:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {k} but the sizes don't match, "
                    f"{x.shape[again]} != {x.shape[first]}"
                )
            # diagonal puts its dim last; it takes the place of the label's first.
            n, rest = x.shape[first], [m for d, m in enumerate(x.shape) if d not in (first, again)]
            x = program.do(Diagonal.apply, [*rest, n], x, 0, first, again)
            x = program.do(movedim, [*rest[:first], n, *rest[first:]], x, -1, first)
        else:
            kept.append(label)
    return x, kept


def _check_sizes(operands: Sequence[_Value], inputs: Sequence[list[str]]) -> None:
    seen: dict[str, int] = {}
    for k, (x, labels) in enumerate(zip(operands, inputs, strict=True)):
        for d, (label, n) in enumerate(zip(labels, x.shape, strict=True)):
            known = seen.get(label, 1)
            if n != 1 and known not in (1, n):
                if label.startswith(ELLIPSIS):
                    raise RuntimeError(
                        f"einsum(): dimension {d} covered by ellipsis in operand {k}has size {n} which does not "
                        f"broadcast with previously seen ellipsis with size {known} for the respective dimension"
                    )
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {n} for operand {k} which does not broadcast with "
                    f"previously seen size {known}"
                )
            seen[label] = n if known == 1 else known


def _lined_up(program: _Program, x: _Value, labels: list[str], order: Sequence[str]) -> _Value:
    """A dim for every label of ``order``, of size 1 where ``x`` has none."""
    present = list(labels)
    for label in order:
        if label not in present:
            present.append(label)
            x = program.do(Unsqueeze.apply, (*x.shape, 1), x, -1)
    return program.permute(x, [present.index(label) for label in order])


def _pair(program: _Program, x: _Value, y: _Value, summed: list[int]) -> _Value:
    """Product of two tensors with the same dims, summed over some that become 1: one bmm."""
    dims = range(len(x.shape))
    # Dims that both have are the stack, those of one alone its rows or columns: sum over k of x[b, n, k] y[b, k, m].
    kept = [d for d in dims if d not in summed]
    both = [d for d in kept if x.shape[d] != 1 and y.shape[d] != 1]
    left = [d for d in kept if x.shape[d] != 1 and y.shape[d] == 1]
    right = [d for d in kept if x.shape[d] == 1]
    sizes = {d: x.shape[d] if x.shape[d] != 1 else y.shape[d] for d in dims}
    stack, n, m, k = (math.prod([sizes[d] for d in part]) for part in (both, left, right, summed))
    a = program.permute(x, [*both, *left, *summed, *right])
    a = program.do(reshaped, (stack, n, k), a, (stack, n, k))
    b = program.permute(y, [*both, *summed, *right, *left])
    b = program.do(reshaped, (stack, k, m), b, (stack, k, m))
    order = [*both, *left, *summed, *right]
    shape = tuple([1 if d in summed else sizes[d] for d in order])
    out = program.do(Reshaped.apply, shape, program.do(Bmm.apply, (stack, n, m), a, b), shape)
    return program.permute(out, [order.index(d) for d in dims])


def _contract(program: _Program, operands: list[_Value], outputs: int) -> None:
    """Multiply from left to right; a label is summed as soon as no operand to come has it."""
    result, *rest = operands
    for k, other in enumerate(rest):
        later = rest[k + 1 :]
        summed = []
        for d in range(outputs, len(result.shape)):
            if any(t.shape[d] != 1 for t in later):
                continue
            if result.shape[d] != 1 and other.shape[d] != 1:
                summed.append(d)
            elif (
                result.shape[d] != 1
            ):  # a label of one operand alone is summed before the product, which is smaller then
                result = program.sum(result, d, True)
            elif other.shape[d] != 1:
                other = program.sum(other, d, True)
        if summed:
            result = _pair(program, result, other, summed)
        else:
            result = program.do(operator.mul, broadcast_shapes(result.shape, other.shape), result, other)
    left = tuple(range(outputs, len(result.shape)))
    if left and rest:
        program.do(Reshaped.apply, result.shape[:outputs], result, result.shape[:outputs])  # all others are 1
    elif left:
        program.sum(result, left, False)


_programs: dict[Any, _Program] = cache()


def _program(equation: str, operands: Sequence[Layout]) -> _Program:
    """What ``equation`` comes to; RuntimeError where it does not fit the operands."""
    inputs, output = _read(equation, operands)
    lists = [_expanded(labels, x, k) for k, (labels, x) in enumerate(zip(inputs, operands, strict=True))]
    order, outputs = _order(lists, output)
    program = _Program(operands)
    values = [_Value(k, x.shape) for k, x in enumerate(operands)]
    single = [_without_repeats(program, *given, k) for k, given in enumerate(zip(values, lists, strict=True))]
    _check_sizes([x for x, _ in single], [labels for _, labels in single])
    _contract(program, [_lined_up(program, x, labels, order) for x, labels in single], outputs)
    return program


def _from_lists(arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """``einsum(x, [0, 1], y, [1, 2], [0, 2])`` as an equation."""

    def text(labels: Sequence[Any]) -> str:
        if any(d is not ... and not 0 <= d < 52 for d in labels):
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
        return "".join(ELLIPSIS if d is ... else chr(65 + d if d < 26 else 71 + d) for d in labels)

    lists = arguments[1::2] if len(arguments) % 2 == 0 else arguments[1:-1:2]
    operands = arguments[: 2 * len(lists) : 2]
    equation = ",".join(text(labels) for labels in lists)
    return (equation if len(arguments) % 2 == 0 else f"{equation}->{text(arguments[-1])}"), operands


def einsum(*args: Any) -> Tensor:
    """Sum of products over labelled dims: ``einsum("ij,jk->ik", a, b)`` is the matrix product.

    Labels that the output lacks are summed. Without "->" it has, in alphabetic order, those that
    occur once. "..." stands for dims that broadcast. A label twice in one operand takes the diagonal.
    RuntimeError where the equation does not fit the operands.
    """
    if args and isinstance(args[0], Tensor):
        args = (lambda read: (read[0], *read[1]))(_from_lists(args))
    if len(args) < 2:
        raise ValueError(_TOO_FEW)
    equation, *given = args
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type_name(equation)}")
    operands: list[Tensor] = list(given[0]) if isinstance(given[0], (tuple, list)) else given
    if not operands:
        raise ValueError(_TOO_FEW)
    check_tensors(operands, 1)
    layouts = [x._layout for x in operands]
    program = _programs.get((equation, *layouts))
    if program is None:
        program = _programs[equation, *layouts] = _program(equation, layouts)
    return program.run(operands)


def _order(lists: list[list[str]], output: list[str] | None) -> tuple[list[str], int]:
    """All labels, those of the output first, and how many these are."""
    every = [label for labels in lists for label in labels]
    hidden = sorted({x for x in every if x.startswith(ELLIPSIS)}, key=lambda x: -int(x[len(ELLIPSIS) :]))
    letters = sorted({x for x in every if not x.startswith(ELLIPSIS)})
    if output is None:
        first = [*hidden, *(x for x in letters if every.count(x) == 1)]
    else:
        first = [x for label in output for x in (hidden if label == ELLIPSIS else [label])]
    return [*first, *(x for x in (*hidden, *letters) if x not in first)], len(first)


public(einsum, method_too=False)
