"""A program's functions compiled: its values, and its gradients in one go or in two.

A parameter comes as an array, as a number, or as an array without dimensions that holds one: so values of tensors are
read by compiled code, and a recorded launch reads them anew. ``plain``, ``saving`` and ``reversing`` return what they
compute. ``value_into`` and ``gradient_into`` write into arrays that are given behind the other arguments, which is what
a recorded program can repeat.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.checks import checked_lines
from jitgrad.kernels.adjoint.functions import GROWN, kept_names
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.reverse import Adjoint, adjoint_of
from jitgrad.kernels.adjoint.split import SUMMED
from jitgrad.kernels.adjoint.tangent import tangent_of
from jitgrad.kernels.adjoint.write import HEAD, statement_lines
from jitgrad.kernels.codegen.emit_cpu import INLINE, words_text
from jitgrad.kernels.codegen.index_checks import CHECK
from jitgrad.kernels.compiler import compile_text

__all__ = ["ARRAY", "HOLDER", "NUMBER", "Derivation"]

# How a parameter comes: an array, a number, or an array without dimensions that holds a number.
ARRAY, NUMBER, HOLDER = "array", "number", "holder"
Forms = tuple[str, ...]


class Derivation:
    """What is derived from one program, each made when first asked for. Parameters are wanted by their names.

    states: see ``adjoint_of``.
    """

    def __init__(self, program: Program, states: int | None = None):
        self.program, self.states = program, states
        self._made: dict[Any, Any] = {}

    def adjoint(self, wanted: tuple[str, ...]) -> Adjoint:
        """Its sweeps for derivatives in these parameters."""
        _keep_freed_memory()
        return self._once(("adjoint", wanted), lambda: adjoint_of(self.program, wanted, self.states))

    def tangent(self, wanted: tuple[str, ...], values: bool = False) -> Derivation:
        """Of the program's tangents along directions in these parameters."""
        key = "tangent", wanted, values
        return self._once(key, lambda: Derivation(tangent_of(self.program, wanted, values), self.states))

    def plain(self, forms: Forms) -> Callable[..., Any]:
        """``(arguments) -> (results...)``."""
        return self._once(("plain", forms), lambda: self._compile("", forms, (), self._values(), self._outputs()))

    def checked(self, forms: Forms) -> Callable[..., Any]:
        """``plain`` with indices compared with sizes; IndexError names the file, the line, the array and the index."""
        return self._once(("checked", forms), lambda: self._checked(forms))

    def saving(self, wanted: tuple[str, ...], forms: Forms) -> Callable[..., Any]:
        """``(arguments) -> (results..., kept...)``, as many results as outputs."""

        def make() -> Callable[..., Any]:
            adjoint = self.adjoint(wanted)
            return self._compile("saving", forms, (), adjoint.forward, [*self._outputs(), *kept_names(adjoint)])

        return self._once(("saving", wanted, forms), make)

    def reversing(self, wanted: tuple[str, ...], forms: Forms) -> Callable[..., Any]:
        """``(arguments, kept..., seeds...) -> (gradients...)``; what is kept is left as it is."""

        def make() -> Callable[..., Any]:
            adjoint = self.adjoint(wanted)
            kept = kept_names(adjoint)
            own = {*kept, *self.program.parameters}
            lines = [*(f"{n} = {n}.copy()" for n in adjoint.restored if n in own), *adjoint.reverse]
            return self._compile("reverse", forms, [*kept, *self._seeds(adjoint)], [*self._opened(adjoint), *lines],
                                 self._gradients(adjoint))  # fmt: skip

        return self._once(("reversing", wanted, forms), make)

    def value_into(self, forms: Forms) -> Callable[..., None]:
        """``(arguments, results...)``."""
        outputs = self._given_outputs()

        def make() -> Callable[..., Any]:
            into = [f"into_{n}" for n in outputs]
            return self._compile("values", forms, into, [*self._values(), *self._put(outputs, into)], None)

        return self._once(("value_into", forms), make)

    def gradient_into(self, wanted: tuple[str, ...], forms: Forms) -> Callable[..., None]:
        """``(arguments, seeds..., gradients...)``: both sweeps."""

        def make() -> Callable[..., Any]:
            adjoint = self.adjoint(wanted)
            into = [f"into_{n}" for n in wanted]
            stores = [f"{i}[...] = {v}" for i, v in zip(into, self._gradients(adjoint), strict=True)]
            lines = [*adjoint.forward, *self._opened(adjoint), *adjoint.reverse, *stores]
            return self._compile("gradient", forms, [*self._seeds(adjoint), *into], lines, None)

        return self._once(("gradient_into", wanted, forms), make)

    def gradient_text(self, wanted: tuple[str, ...], values: bool, ones: bool) -> tuple[str, str]:
        """(name, text) of ``(arguments, seeds...) -> (results..., gradients...)``, all of them arrays or numbers.

        values: whether results are returned. ones: whether the seeds are 1, and no parameters.
        """
        adjoint = self.adjoint(wanted)
        results, kept = [], []
        for n in self.program.outputs if values else ():
            # The reverse sweep puts back what scalars and arrays held before.
            changed = self._is_scalar(n) or n in adjoint.restored
            results.append(f"result_{n}" if changed else n)
            kept += [f"result_{n} = {n}" if self._is_scalar(n) else f"result_{n} = {n}.copy()"] if changed else []
        seeds = list(adjoint.seeds.values())
        known = [f"{seed} = 1.0" for seed in seeds] if ones else []
        lines = [*adjoint.forward, *kept, *known, *adjoint.reverse]
        return self._text("gradient", (), () if ones else self._all_seeds(adjoint), lines,
                          [*results, *self._gradients(adjoint)])  # fmt: skip

    def tangent_text(self, wanted: tuple[str, ...]) -> tuple[str, str]:
        """(name, text) of ``(arguments, directions...) -> (results..., tangents...)``."""
        tangent = self.tangent(wanted, True)
        return tangent._text("", (), (), tangent._values(), tangent._outputs())

    # -- texts --------------------------------------------------------------------------------------

    def _all_seeds(self, adjoint: Adjoint) -> list[str]:
        """A parameter for each output of floats, whether or not it depends on what is wanted."""
        floats = [n for n in self.program.outputs if self.program.kinds[n].floating]
        return [adjoint.seeds.get(n, f"unused_{n}") for n in floats]

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _outputs(self) -> list[str]:
        return self.program.outputs

    def _given_outputs(self) -> list[str]:
        """The outputs that are not parameters themselves."""
        return [n for n in self.program.outputs if n not in self.program.parameters]

    def _values(self) -> list[str]:
        return statement_lines(self.program.body, self.program.kinds)

    def _seeds(self, adjoint: Adjoint) -> list[str]:
        """The parameters for derivatives of the outputs: arrays, for a number's one without dimensions."""
        return [f"{seed}_" if self._is_scalar(n) else seed for n, seed in adjoint.seeds.items()]

    def _opened(self, adjoint: Adjoint) -> list[str]:
        return [f"{seed} = {seed}_[()]" for n, seed in adjoint.seeds.items() if self._is_scalar(n)]

    def _is_scalar(self, name: str) -> bool:
        return self.program.kinds[name].ndim is None

    def _gradients(self, adjoint: Adjoint) -> list[str]:
        found = []
        for name, gradient in adjoint.gradients.items():
            found.append(gradient or ("0.0" if self._is_scalar(name) else f"np.zeros_like({name})"))
        return found

    def _put(self, names: Sequence[str], into: Sequence[str]) -> list[str]:
        lines = []
        for n, i in zip(names, into, strict=True):
            if not self._is_scalar(n):
                what = f"{self.program.name}: the shape of its result changed"
                lines += [f"if {n}.shape != {i}.shape:", f"    raise ValueError({what!r})"]
            lines.append(f"{i}[...] = {n}")
        return lines

    def _checked(self, forms: Forms) -> Callable[..., Any]:
        lines, places = checked_lines(self.program)
        run = self._compile("checked", forms, (), lines, self._outputs(), CHECK)

        def call(*args: Any) -> Any:
            try:
                return run(*args)
            except IndexError as error:
                raise places.located(error) from None

        return call

    def _compile(
        self, what: str, forms: Forms, more: Sequence[str], lines: Sequence[str], results: Sequence[str] | None,
        head: str = "",
    ) -> Callable[..., Any]:  # fmt: skip
        name, text = self._text(what, forms, more, lines, results, head)
        return compile_text(name, text, allocates=True)

    def _text(
        self, what: str, forms: Forms, more: Sequence[str], lines: Sequence[str], results: Sequence[str] | None,
        head: str = "",
    ) -> tuple[str, str]:  # fmt: skip
        """The name and text of a function of the program's parameters, in these forms, and of ``more``."""
        forms = forms or (NUMBER,) * len(self.program.parameters)
        holders = [f == HOLDER for f in forms]
        names = [f"{n}_" if held else n for n, held in zip(self.program.parameters, holders, strict=True)]
        opened = [f"{n} = {n}_[()]" for n, held in zip(self.program.parameters, holders, strict=True) if held]
        end = [] if results is None else [f"return ({''.join(f'{r}, ' for r in results)})"]
        body = [*opened, *lines, *end] or ["pass"]
        name = "_".join(filter(None, [re.sub(r"\W", "_", self.program.name), what]))
        text = f"def {name}({', '.join([*names, *more])}):\n" + "".join(f"    {line}\n" for line in body)
        return name, f"{HEAD}{head}{_helpers(text)}{text}"


@functools.cache
def _keep_freed_memory() -> None:
    """Have glibc keep freed blocks for the next call, up to 64 MB of them.

    It gives large blocks back to the system otherwise, and new pages in each call cost 6 of 16 ms for soft-DTW of 512 x
    512. How large is learned from the largest block freed so far, up to 32 MB: one that is never written to will do.
    Other systems' libraries don't mind.
    """
    np.empty((32 << 20) - (1 << 16), np.uint8)  # freed at once


def _helpers(text: str) -> str:
    """The functions that a text calls and that Numba doesn't know."""
    found = f"{INLINE}\n{GROWN}" if "grown(" in text else ""
    found += f"{INLINE}\n{SUMMED}" if "summed(" in text else ""
    if words := {w for w in ("digamma", "polygamma") if f"{w}(" in text}:
        found += f"T = np.float64\n{words_text(words, 'float64')}\n"
    return found
