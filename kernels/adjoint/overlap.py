"""Whether a write may change an element that was read before.

Indices are compared as sums of loop indices, constants and values that don't change meanwhile. Two that differ by a
constant meet in iterations that lie that far apart: ``R[i - 1, j]`` is written one iteration of ``i`` earlier by
``R[i, j] = ...``, so that this never overwrites what that one reads. Where an index may be negative, and so mean an
element at the array's end, nothing is concluded.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from jitgrad.kernels.adjoint.ssa import Loop, New, Value, Values, Write, index_of, loaded

__all__ = ["Overlap", "Sum", "sum_text"]

Sum = dict[str, int]  # {name or "": factor or constant}


class Overlap:
    """Answers for the elements of one program."""

    def __init__(self, values: Values):
        self.values = values
        self.exchanged = set(values.families.values())
        news = [n for n in values.nodes() if isinstance(n, New) and n.array not in values.roaming]
        self.made_in = {n.array: n.block for n in news}

    def overwrites(self, write: Write, load: Value) -> bool:
        """Whether ``write`` may change, later, the element that ``load`` read."""
        element, node = loaded(load), load.node
        assert element is not None and node is not None
        array: str = element.value.id  # type: ignore[attr-defined]
        family = self.values.family(array)
        if family != self.values.family(write.array):
            return False
        later = write.order > node.order
        # Loops around the allocation of an array get another one in each iteration.
        home = self.made_in.get(array)
        outer = home.loops() if home is not None else []
        common = [loop for loop in write.block.loops() if loop in node.block.loops() and loop not in outer][::-1]
        if not common and not later:
            return False
        if family in self.exchanged:
            return bool(common) or later
        distances = self.distances(index_of(element), write.index, common)
        if distances is None:
            return False
        for loop in common:
            step = _step(loop)
            if loop.index is None or loop.index.name not in distances or not step:
                return True
            far = distances[loop.index.name] * (1 if step > 0 else -1)
            if far:
                return far > 0
        return later

    def may_meet(self, write: Write, load: Value) -> bool:
        """Whether both may be one element in one execution of the code that both are in."""
        element = loaded(load)
        assert element is not None
        if element.value.id != write.array:  # type: ignore[attr-defined]
            return False
        assert load.node is not None
        common = [loop for loop in write.block.loops() if loop in load.node.block.loops()]
        distances = self.distances(index_of(element), write.index, common)
        return distances is not None and not any(distances.values())

    def distances(
        self, read: Sequence[ast.expr], written: Sequence[ast.expr], common: Sequence[Loop]
    ) -> dict[str, int] | None:
        """How much a loop's index must grow from a read until the write meets it; None if it never does."""
        indices = {loop.index.name for loop in common if loop.index is not None}
        found: dict[str, int] = {}
        for a, b in zip(read, written, strict=True):
            first, second = self.sum_of(a), self.sum_of(b)
            if first is None or second is None or not (self.natural_sum(first) and self.natural_sum(second)):
                continue
            if any(first.get(n, 0) != second.get(n, 0) for n in {*first, *second} - {""}):
                continue
            moving = [n for n in first if n and first[n] and not self._fixed(n, common)]
            difference = first.get("", 0) - second.get("", 0)
            if not moving:
                if difference:
                    return None
            elif len(moving) == 1 and moving[0] in indices:
                far, rest = divmod(difference, first[moving[0]])
                if rest or found.get(moving[0], far) != far:
                    return None
                found[moving[0]] = far
        return found

    def _fixed(self, name: str, common: Sequence[Loop]) -> bool:
        """Whether a value stays as it is while the loops run."""
        if "." in name or not common:
            return True
        return all(loop.body not in self.values.by_name[name].block.ancestors() for loop in common)

    def sum_of(self, e: ast.expr, sign: int = 1) -> Sum | None:
        """An integer expression as a sum; None if it is none."""
        if isinstance(e, ast.Constant) and type(e.value) is int:
            return {"": sign * e.value}
        if isinstance(e, ast.Name):
            value = self.values.by_name[e.id]
            if value.role == "defined" and loaded(value) is None and value.expression is not None:
                inner = self.sum_of(value.expression, sign)
                if inner is not None:
                    return inner
            return {e.id: sign}
        if isinstance(e, ast.Subscript) and isinstance(e.value, ast.Attribute):
            array: str = e.value.value.id  # type: ignore[attr-defined]
            return None if array in self.values.moving else {ast.unparse(e): sign}
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            return self.sum_of(e.operand, -sign)
        if isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Add, ast.Sub)):
            left = self.sum_of(e.left, sign)
            right = self.sum_of(e.right, sign if isinstance(e.op, ast.Add) else -sign)
            if left is not None and right is not None:
                return {n: left.get(n, 0) + right.get(n, 0) for n in {*left, *right}}
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
            for factor, other in ((e.left, e.right), (e.right, e.left)):
                if isinstance(factor, ast.Constant) and type(factor.value) is int:
                    inner = self.sum_of(other, sign)
                    return None if inner is None else {n: f * factor.value for n, f in inner.items()}
        return None

    def natural_sum(self, sum_: Sum) -> bool:
        """Whether the sum is surely not negative."""
        least = self._least(sum_)
        return least is not None and least >= 0

    def _least(self, sum_: Sum | None) -> int | None:
        """The least that a sum can be; None if unknown."""
        least = None if sum_ is None else self.extreme(sum_, most=False)
        if least is None or any(factor < 0 or "." not in n for n, factor in least.items() if n and factor):
            return None  # sizes are not negative
        return least.get("", 0)

    def extreme(self, sum_: Sum, most: bool, of: Collection[str] | None = None) -> Sum | None:
        """A bound of a sum, with those of all indices or some in their place; None if there is none."""
        for _ in range(10):
            indices = [n for n, factor in sum_.items() if n and factor and "." not in n and (of is None or n in of)]
            name = next((n for n in indices if self.values.by_name[n].role == "index"), None)
            if name is None:
                return sum_
            factor = sum_[name]
            bound = self._bound(name, most == (factor > 0))
            if bound is None:
                return None
            sum_ = {n: sum_.get(n, 0) + factor * (bound.get(n, 0) - (n == name)) for n in {*sum_, *bound, name}}
        return None

    def _bound(self, index: str, most: bool) -> Sum | None:
        """What a loop's index is at most, or at least."""
        loop = self.values.by_name[index].block.owner
        assert isinstance(loop, Loop)
        step = _step(loop)
        if not step:
            return None
        if (step > 0) is not most:
            return self.sum_of(loop.bounds[0])
        stop = self.sum_of(loop.bounds[1])
        return None if stop is None else {**stop, "": stop.get("", 0) - (1 if step > 0 else -1)}



def sum_text(sum_: Sum, variables: Mapping[str, str]) -> str:
    """A sum in Python."""
    text = ""
    for n, factor in sorted(sum_.items(), key=lambda term: (term[1] < 0, not term[0], term[0])):
        if factor:
            term = str(abs(factor)) if not n else variables.get(n, n) if abs(factor) == 1 else (
                f"{abs(factor)} * {variables.get(n, n)}")  # fmt: skip
            text += (" + " if factor > 0 else " - ") + term if text else term if factor > 0 else f"-{term}"
    return text or "0"


def _step(loop: Loop) -> int:
    """The constant by which a loop's index grows; 0 if it is no constant."""
    if not loop.bounds:
        return 0
    step, sign = loop.bounds[2], 1
    if isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub):
        step, sign = step.operand, -1
    return sign * step.value if isinstance(step, ast.Constant) and type(step.value) is int else 0
