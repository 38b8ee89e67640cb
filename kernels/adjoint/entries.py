"""A program's functions compiled: its values, and its gradients in one go or in two.

A parameter comes as an array, as a number, or as an array without dimensions that holds one: so values of tensors are
read by compiled code, and a recorded launch reads them anew. ``plain``, ``saving`` and ``reversing`` return what they
compute. ``value_into`` and ``gradient_into`` write into arrays that are given behind the other arguments, which is what
a recorded program can repeat.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.checked_calls import CheckedCalls
from jitgrad.kernels.adjoint.checks import Places, checked_lines
from jitgrad.kernels.adjoint.functions import (
    HELPERS,
    Adjoint,
    Function,
    forward_function,
    gradient_function,
    reverse_function,
    value_function,
)  # fmt: skip
from jitgrad.kernels.adjoint.notes import Notes
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.write import HEAD, statement_lines
from jitgrad.kernels.codegen.rule_text import INLINE, words_text
from jitgrad.kernels.compiler import compile_text

__all__ = ["ARRAY", "HOLDER", "NUMBER", "Derivation"]

# How a parameter comes: an array, a number, or an array without dimensions that holds a number.
ARRAY, NUMBER, HOLDER = "array", "number", "holder"
Forms = tuple[str, ...]


class Derivation:
    """What is derived from one program, each made when first asked for. Parameters are wanted by their names.

    states: see ``adjoint_of``. notes: where what is derived is kept; what derives is imported when it has to be.
    """

    def __init__(self, program: Program, states: int | None = None, notes: Notes | None = None):
        self.program, self.states, self.notes = program, states, notes
        self._made: dict[Any, Any] = {}

    def adjoint(self, wanted: tuple[str, ...]) -> Adjoint:
        """Its sweeps for derivatives in these parameters."""
        _keep_freed_memory()
        return self._once(("adjoint", wanted), lambda: self._adjoint(wanted))

    def tangent(self, wanted: tuple[str, ...], values: bool = False) -> Derivation:
        """Of the program's tangents along directions in these parameters."""

        def make() -> Derivation:
            from jitgrad.kernels.adjoint.tangent import tangent_of

            return Derivation(tangent_of(self.program, wanted, values), self.states)

        return self._once(("tangent", wanted, values), make)

    def has_shares(self) -> bool:
        """Whether threads may run shares of the program."""

        def make() -> bool:
            from jitgrad.kernels.adjoint.shares import shares_of

            return shares_of(self.program) is not None

        return self._noted("shares", make)

    def plain(self, forms: Forms) -> Callable[..., Any]:
        """``(arguments) -> (results...)``."""
        return self._once(("plain", forms), lambda: self._compile("", self._values(), forms))

    def checked(self, forms: Forms) -> Callable[..., Any]:
        """``plain`` with indices compared with sizes; IndexError names the file, the line, the array and the index."""
        return self._once(("checked", forms), lambda: self._checked(forms))

    def checks(self, check: bool | None, forms: Forms) -> CheckedCalls:
        """Which calls, with arguments of certain layouts and certain whole numbers, are to be ``checked``."""
        if check is not None:
            return CheckedCalls(check, (), ())

        def make() -> list[str]:
            from jitgrad.kernels.codegen.data_indices import deciding
            from jitgrad.kernels.words.syntax import parse

            tree = parse(self._values().definition("values")).body[0]
            return sorted(deciding(tree, {}, self.program.outputs))  # type: ignore[arg-type]

        names = self._once("deciding", lambda: self._noted("deciding", make))
        kinds = self.program.kinds
        given = [n for n, f in zip(self.program.parameters, forms, strict=True) if f == NUMBER]
        fixed = {n for n in given if kinds[n].dtype in ("int64", "bool")}
        return CheckedCalls(check, self.program.parameters, set(names) - fixed)

    def deciding_on_shapes(self, forms: Forms) -> list[str]:
        """The parameters whose values, in calls of certain layouts and whole numbers, decide on a result's shape."""
        pairs = zip(self.program.parameters, forms, strict=True)
        numbers = [n for n, f in pairs if f == NUMBER and self.program.kinds[n].dtype in ("int64", "bool")]

        def make() -> list[str]:
            from jitgrad.kernels.adjoint.result_sizes import deciding_on_shapes

            return sorted(deciding_on_shapes(self.program, numbers))

        return self._once(("shapes", forms), lambda: self._noted("shapes", make, *numbers))

    def saving(self, wanted: tuple[str, ...], forms: Forms) -> Callable[..., Any]:
        """``(arguments) -> (results..., kept...)``, as many results as outputs."""
        key = "saving", wanted, forms
        return self._once(key, lambda: self._compile("saving", forward_function(self.adjoint(wanted)), forms))

    def reversing(self, wanted: tuple[str, ...], forms: Forms) -> Callable[..., Any]:
        """``(arguments, kept..., seeds...) -> (gradients...)``; what is kept is left as it is."""

        def make() -> Callable[..., Any]:
            adjoint = self.adjoint(wanted)
            return self._compile("reverse", reverse_function(adjoint), forms, self._numbers(adjoint))

        return self._once(("reversing", wanted, forms), make)

    def value_into(self, forms: Forms) -> Callable[..., None]:
        """``(arguments, results...)``, without those that are among the arguments."""

        def make() -> Callable[..., Any]:
            function = self._values()
            function.results = [n for n in self.program.outputs if n not in self.program.parameters]
            return self._compile("values", self._storing(function), forms)

        return self._once(("value_into", forms), make)

    def gradient_into(self, wanted: tuple[str, ...], forms: Forms) -> Callable[..., None]:
        """``(arguments, seeds..., gradients...)``: both sweeps."""

        def make() -> Callable[..., Any]:
            adjoint = self.adjoint(wanted)
            function = self._storing(gradient_function(adjoint, values=False))
            return self._compile("gradient", function, forms, self._numbers(adjoint))

        return self._once(("gradient_into", wanted, forms), make)

    def gradient_text(self, wanted: tuple[str, ...], values: bool, ones: bool) -> tuple[str, str]:
        """(name, text) of ``(arguments, seeds...) -> (results..., gradients...)``, all of them arrays or numbers.

        values: whether results are returned. ones: whether the seeds are 1, and no parameters. Otherwise there is one
        for each output of floats, whether or not it depends on what is wanted. What is wanted twice is returned twice.
        """
        adjoint = self.adjoint(tuple(dict.fromkeys(wanted)))
        seeds = {} if ones else {n: adjoint.seeds.get(n) or self._free(f"unused_{n}") for n in self.floats()}
        function = gradient_function(adjoint, values, self._of_shapes("seed", seeds))
        function.parameters = [*self.program.parameters, *seeds.values()]
        results = function.results or []
        first = len(results) - len(adjoint.gradients)
        found = dict(zip(adjoint.gradients, results[first:], strict=True))
        function.results = [*results[:first], *(found[n] for n in wanted)]
        if ones:
            function.lines = [*(f"{seed} = 1.0" for seed in adjoint.seeds.values()), *function.lines]
        return self._text("gradient", function)

    def tangent_text(self, wanted: tuple[str, ...]) -> tuple[str, str]:
        """(name, text) of ``(arguments, directions...) -> (results..., tangents...)``."""
        tangent = self.tangent(wanted, True)
        function, own = tangent._values(), self.program.parameters
        directions = [n for n in function.parameters if n not in own]
        function.parameters = [*own, *directions]
        checks = self._of_shapes("direction", dict(zip(wanted, directions, strict=True)))
        function.lines = [*checks, *function.lines]
        return tangent._text("", function)

    def floats(self) -> list[str]:
        """The outputs that have derivatives."""
        return [n for n in self.program.outputs if self.program.kinds[n].floating]

    # -- what is derived ----------------------------------------------------------------------------

    def _noted(self, what: str, make: Callable[[], Any], *key: Any) -> Any:
        """What ``make`` derives, or what the notes have of it."""
        if self.notes is None:
            return make()
        return self.notes.get((what, tuple(self.program.parameters), *key), make)

    def _values(self) -> Function:
        lines = self._noted("values", lambda: statement_lines(self.program.body, self.program.kinds))
        return value_function(self.program, [*lines])

    def _adjoint(self, wanted: tuple[str, ...]) -> Adjoint:
        def make() -> dict[str, Any]:
            from jitgrad.kernels.adjoint.reverse import adjoint_of

            found = vars(adjoint_of(self.program, wanted, self.states))
            return {n: v for n, v in found.items() if n != "program"}

        return Adjoint(self.program, **self._noted("adjoint", make, self.states, wanted))

    # -- texts --------------------------------------------------------------------------------------

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _numbers(self, adjoint: Adjoint) -> list[str]:
        """The seeds of outputs that are numbers."""
        return [seed for n, seed in adjoint.seeds.items() if self.program.kinds[n].ndim is None]

    def _free(self, name: str, taken: Collection[str] = ()) -> str:
        """A name that is none of the program's variables, and not taken."""
        while name in self.program.kinds or name in taken:
            name += "_"
        return name

    def _storing(self, function: Function) -> Function:
        """The function with its results stored into arrays that are further parameters."""
        given, stores = [], []
        for k, result in enumerate(function.results or ()):
            given.append(self._free(f"into_{k}"))
            what = f"{self.program.name}: the shape of its result changed"
            if result in self.program.kinds and self.program.kinds[result].ndim is not None:
                stores += [f"if {result}.shape != {given[k]}.shape:", f"    raise ValueError({what!r})"]
            stores.append(f"{given[k]}[...] = {result}")
        return Function([*function.parameters, *given], [*function.lines, *stores], None)

    def _of_shapes(self, what: str, given: dict[str, str]) -> list[str]:
        """Lines by which each of these arrays, by the array that it belongs to, must have that one's shape."""
        lines: list[str] = []
        for n, other in given.items():
            if self.program.kinds[n].ndim is not None:
                error = f"ValueError({f'the {what} of {n!r} must have its shape'!r}, {other}.shape, {n}.shape)"
                lines += [f"if {other}.shape != {n}.shape:", f"    raise {error}"]
        return lines

    def _checked(self, forms: Forms) -> Callable[..., Any]:
        def make() -> tuple[list[str], list[tuple[str, str, int]]]:
            lines, places = checked_lines(self.program)
            return lines, places.found

        lines, found = self._noted("checked", make)
        places = Places(self.program, found)
        run = self._compile("checked", value_function(self.program, lines), forms)

        def call(*args: Any) -> Any:
            try:
                return run(*args)
            except IndexError as error:
                raise places.located(error) from None

        return call

    def _compile(self, what: str, function: Function, forms: Forms, numbers: Sequence[str] = ()) -> Callable[..., Any]:
        """The function compiled. forms: of the program's parameters; numbers: further ones that come as holders."""
        held = [n for n, f in zip(self.program.parameters, forms, strict=True) if f == HOLDER]
        holders: dict[str, str] = {}
        for n in [*held, *numbers]:
            holders[n] = self._free(f"{n}_", [*holders.values(), *function.parameters])
        opened = [f"{n} = {holder}[()]" for n, holder in holders.items()]
        parameters = [holders.get(n, n) for n in function.parameters]
        return compile_text(*self._text(what, Function(parameters, [*opened, *function.lines], function.results)))

    def _text(self, what: str, function: Function) -> tuple[str, str]:
        """The function's name and its text for Numba."""
        name = "_".join(filter(None, [re.sub(r"\W", "_", self.program.name), what]))
        text = function.definition(name)
        return name, f"{HEAD}{_helpers(text)}{text}"


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
    found = "".join([f"{INLINE}\n{helper}" for n, helper in HELPERS.items() if f"{n}(" in text])
    if words := {w for w in ("digamma", "polygamma") if f"{w}(" in text}:
        found += f"T = np.float64\n{words_text(words, 'float64')}\n"
    return found
