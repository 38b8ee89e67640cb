"""One launch for a group of elementwise launches on the same number of elements, and for row sums of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.kernels.codegen.emit_cpu import converted
from jitgrad.kernels.program.addresses import is_on_device
from jitgrad.kernels.program.dependences import Launch, Span, span_of
from jitgrad.kernels.program.fused_device import fused_device_kernel
from jitgrad.kernels.program.fused_kernel import fused_kernel
from jitgrad.kernels.program.fused_text import FusedLoop, Step
from jitgrad.kernels.program.operands import ALL, COLUMN, ONCE, ROW, Form

__all__ = ["fused_launch"]


def fused_launch(
    launches: Sequence[tuple[Launch, Form]], sums: Sequence[Launch], needed: Callable[[int, int], bool]
) -> list[Launch]:  # fmt: skip
    """The launch that does what these do, in order, or none if nothing that they leave is needed.

    launches: with their forms, of one compute dtype, on the same number of elements, and of one width, if of any.
    sums: of rows, of results of these, with one number of rows. ``needed(low, high)``: whether anything else reads what
    the launches leave in this range of addresses; what nobody needs is not stored.
    """
    group = _Group(launches[0][1].dtype)
    for _, form in launches:
        group.add(form)
    return group.launch([*(launch for launch, _ in launches), *sums], sums, needed)


class _Group:
    """Steps of a loop, with a name for each value."""

    def __init__(self, dtype: str):
        self.dtype = dtype
        self.steps: list[Step] = []
        self.values: dict[Span, tuple[str, str]] = {}  # the name and the dtype of what memory holds now
        self.read: dict[Span, tuple[str, str]] = {}  # (array's name, value's name)
        self.apart: dict[str, dict[Span, tuple[str, str]]] = {ONCE: {}, ROW: {}, COLUMN: {}}
        self.width: int | None = None
        self.written: dict[Span, Any] = {}
        self.given: dict[str, Any] = {}  # arguments by name
        self.numbers: dict[Any, str] = {}
        self._made: dict[Any, tuple[str, ...]] = {}  # results of a step, by what it computes
        self._count = 0

    def add(self, form: Form) -> None:
        """Let the group do a launch of this form as well."""
        arrays, numbers = iter(form.inputs), iter(form.numbers)
        self.width = self.width or form.width
        operands = [
            self._operand(a, *next(arrays)) if a.kind == "array" else self._number(next(numbers))
            for a in form.arguments if a.kind != "literal"
        ]  # fmt: skip
        arguments = tuple(a._replace(once=False) for a in form.arguments)
        key = form.rules, arguments, form.out_dtypes, form.conjugate, tuple(operands)
        results = self._made.get(key)
        if results is None:
            results = self._made[key] = tuple(f"v{self._count + k}" for k in range(len(form.outputs)))
            self._count += len(form.outputs)
            self.steps.append(Step(*key, results))
        for array, name, kind in zip(form.outputs, results, form.out_dtypes, strict=True):
            self.values[span_of(array)] = name, kind
            self.written[span_of(array)] = array

    def _operand(self, argument: Any, array: Any, role: str) -> str:
        span = span_of(array)
        if role != ALL and (role != ONCE or span not in self.values):  # a loop of one element may have computed it
            known, letter = self.apart[role], role[0]
            if span not in known:
                known[span] = f"{role}{len(known)}", f"{letter}{len(known)}_value"
                self.given[known[span][0]] = array
            name, kind = known[span][1], array.dtype.name
        else:
            if span not in self.values:
                self.read[span] = f"a{len(self.read)}", f"x{len(self.read)}"
                self.values[span] = self.read[span][1], array.dtype.name
                self.given[self.read[span][0]] = array
            name, kind = self.values[span]
        if argument.condition:
            return f"bool({name})"
        return name if kind == self.dtype else converted(name, self.dtype)

    def _number(self, number: Any) -> str:
        # Equal numbers are one argument; of those that may change, only what is one number.
        key = (type(number), getattr(number, "key", None), repr(number))
        if key not in self.numbers:
            self.numbers[key] = f"s{len(self.numbers)}"
            self.given[f"n{len(self.numbers) - 1}"] = number
        return self.numbers[key]

    def launch(
        self, every: Sequence[Launch], sums: Sequence[Launch], needed: Callable[[int, int], bool]
    ) -> list[Launch]:
        """The launch of the group's kernel, see `fused_launch`."""
        stored: list[tuple[str, str, str]] = []
        for span, array in self.written.items():
            if needed(span.low, span.low + array.nbytes):
                name = self.read[span][0] if span in self.read else f"o{len(stored)}"
                self.given[name] = array
                stored.append((name, *self.values[span]))
        summed: list[tuple[str, str, str]] = []
        for number, launch in enumerate(sums):
            x, out = launch.args
            self.given[f"sum{number}"] = out
            summed.append((f"sum{number}", *self.values[span_of(x)]))
        if not stored and not summed:
            return []
        steps, used = self._used_steps({value for _, value, _ in (*stored, *summed)})
        if not stored and not any(value in used for _, value in self.read.values()):
            # Sums of rows and columns alone: the loop needs an array to go through.
            x = span_of(sums[0].args[0])
            self.given["o0"] = self.written[x]
            stored.append(("o0", *self.values[x]))
        loop = FusedLoop(
            self.dtype, steps, tuple(p for p in self.read.values() if p[1] in used),
            self._apart(ONCE, used), tuple((f"n{s[1:]}", s) for s in self.numbers.values() if s in used),
            tuple(stored), tuple(summed), self._apart(ROW, used), self._apart(COLUMN, used),
        )  # fmt: skip
        kernels = [made.kernel for made in every]
        if is_on_device(self.given[loop.parameters[0]]):
            args = [self.given[p] for p in loop.parameters]
            return [Launch(fused_device_kernel(loop, kernels), (*args, self.width or 1), [])]
        walked = loop.walked
        shape: Any = -1
        if loop.by_rows:
            shape = sums[0].args[0].shape if sums else (-1, self.width)
        args = [self.given[p].reshape(shape) if p in walked else self.given[p] for p in loop.parameters]
        return [Launch(fused_kernel(loop, kernels), tuple(args), [])]

    def _apart(self, role: str, used: set[str]) -> tuple[tuple[str, str], ...]:
        return tuple(p for p in self.apart[role].values() if p[1] in used)

    def _used_steps(self, wanted: set[str]) -> tuple[tuple[Step, ...], set[str]]:
        """(the steps without what nobody wants, the values that are wanted)."""
        kept = []
        for step in reversed(self.steps):
            results = tuple(zip(step.rules, step.out_dtypes, step.results, strict=True))
            results = tuple(r for r in results if r[2] in wanted)
            if results:
                used = {p for (rule, _), _, _ in results for p in rule.parameters}
                given = zip((a for a in step.arguments if a.kind != "literal"), step.operands, strict=True)
                operands = tuple(operand for a, operand in given if a.name in used)
                rules, kinds, names = zip(*results, strict=True)
                arguments = tuple(a for a in step.arguments if a.name in used)
                kept.append(Step(rules, arguments, kinds, step.conjugate, operands, names))
                wanted |= {_value(operand) for operand in operands}
        return tuple(reversed(kept)), wanted


def _value(operand: str) -> str:
    """The name in an operand, which may be within a cast."""
    return operand[operand.rfind("(") + 1 :].rstrip(")")
