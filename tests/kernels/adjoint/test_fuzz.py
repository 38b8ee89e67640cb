"""Adjoints of random functions against dual numbers that run the functions' own text.

``JITGRAD_FUZZ_PROGRAMS`` sets how many programs are tried (40), ``JITGRAD_FUZZ_SEED`` the first one's seed (0), and
``JITGRAD_FUZZ_COMPILED`` (0) every how many of them is compiled too, which takes a second or more.
"""

from __future__ import annotations

import linecache
import os
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from jitgrad.kernels.adjoint.functions import (
    Adjoint,
    forward_function,
    gradient_function,
    reverse_function,
)  # fmt: skip
from jitgrad.kernels.adjoint.parse import program_of
from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.reverse import adjoint_of
from jitgrad.kernels.adjoint.tangent import tangent_of
from jitgrad.kernels.adjoint.write import HEAD, program_text
from jitgrad.kernels.words.syntax import SourceError

from .as_written import kind_of
from .dual import Dual, Watch, dual_array, slope_of, space, value_of
from .random_programs import RandomModule

PROGRAMS = int(os.environ.get("JITGRAD_FUZZ_PROGRAMS", "40"))
SEED = int(os.environ.get("JITGRAD_FUZZ_SEED", "0"))
COMPILED = int(os.environ.get("JITGRAD_FUZZ_COMPILED", "0"))


class Unfit(Exception):
    """A program, or arguments, that can't be judged: it raises errors itself, or is near a kink or without bounds."""


@dataclass
class Case:
    """A function, its program, and arguments."""

    text: str
    function: Any
    arguments: list[Any]
    program: Program
    single: bool

    @classmethod
    def of(cls, text: str, arguments: list[Any], single: bool = False) -> Case:
        """From a module's text whose last function is ``main``."""
        file = f"<random {hash(text)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        names: dict[str, Any] = {}
        exec(compile(text, file, "exec"), names)
        program = program_of(names["main"], [kind_of(a) for a in arguments])
        return cls(text, names["main"], arguments, program, single)

    def fresh(self) -> list[Any]:
        """Arguments of their own for a call."""
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]

    def results(self, function: Any, arguments: list[Any]) -> list[Any]:
        """What the function itself writes and returns, as the program's outputs."""
        returned = function(*arguments)
        written = [a for p, a in zip(self.program.parameters, arguments) if p in self.program.outputs]
        if returned is None:
            return written
        return [*written, *(returned if isinstance(returned, tuple) else [returned])]

    def floating(self) -> list[str]:
        """The parameters that derivatives may be asked in."""
        return [p for p in self.program.parameters if self.program.kinds[p].floating]


def attempted(call: Any, *arguments: Any) -> Any:
    """What the function itself gives; Unfit where it fails."""
    try:
        return call(*arguments)
    except (IndexError, UnboundLocalError, ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise Unfit(f"{type(error).__name__}: {error}") from error


def tangents(case: Case, directions: dict[str, Any]) -> list[Any]:
    """The function's results as dual numbers, for arguments that move in these directions."""
    names = space()
    exec(case.text.replace("import math\n", "").replace("import numpy as np\n", ""), names)
    arguments: list[Any] = []
    for p, a in zip(case.program.parameters, case.fresh()):
        if p not in case.floating():
            arguments.append(a)
        elif isinstance(a, np.ndarray):
            arguments.append(dual_array(a, np.broadcast_to(directions.get(p, 0.0), a.shape)))
        else:
            arguments.append(Dual(a, directions.get(p, 0.0)))
    Watch.reset()
    return attempted(case.results, names["main"], arguments)


def check(case: Case, wanted: list[str], seed: int, compiled: bool = False) -> None:
    """Assert that values and derivatives in the parameters ``wanted`` are those of the function itself."""
    adjoint = adjoint_of(case.program, wanted)
    text = gradient_function(adjoint).text("gradient")
    rng = np.random.default_rng(seed)
    given = zip(case.program.parameters, case.arguments)
    directions = {p: rng.normal(size=np.shape(a)) for p, a in given if p in wanted}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = attempted(case.results, case.function, case.fresh())
        moved = tangents(case, directions)
        fit(case, expected, moved)
        values = dict(zip(case.program.outputs, expected))
        seeds = {o: seed_of(case, rng, o, values[o]) for o in adjoint.seeds}
        found = run(text, "gradient", case.fresh(), list(seeds.values()), compiled)
        split = run_split(adjoint, case, list(seeds.values()))
        again = [found, found]
        if seed % 3 == 0:  # in stretches, and from a few states
            texts = [gradient_function(adjoint_of(case.program, wanted, states=s)).text("gradient")
                     for s in (0, 1 + seed % 4)]  # fmt: skip
            again = [run(t, "gradient", case.fresh(), list(seeds.values())) for t in texts]
    count = len(expected)
    loose = 2e-3 if case.single else 1e-9
    for e, f in zip(expected, found[:count]):
        assert np.shape(e) == np.shape(f), f"value of shape {np.shape(f)}, not {np.shape(e)}\n{text}"
        np.testing.assert_allclose(f, e, rtol=loose, atol=loose, err_msg=f"value\n{text}")
    # Outputs that do not depend on what is wanted have no seed: their derivatives must be zero.
    slope = sum(np.sum(slope_of(t) * seeds.get(o, 1.0)) for o, t in zip(case.program.outputs, moved) if is_float(t))
    forms = {"one function": found[count:], "split": split[0], "split, again": split[1]}
    forms |= {"stretches": again[0][count:], "few states": again[1][count:]}
    for form, gradients in forms.items():
        assert len(gradients) == len(wanted)
        for p, g in zip(wanted, gradients):
            assert np.shape(g) == np.shape(directions[p]), f"{form}: gradient of {p} has shape {np.shape(g)}\n{text}"
        gained = sum(np.sum(np.asarray(g, float) * directions[p]) for p, g in zip(wanted, gradients))
        size = 1 + abs(slope) + 1e-6 * Watch.steepest
        off = abs(gained - slope)
        assert off <= (5e-3 if case.single else 1e-8) * size, f"{form}: {gained} for {slope}\n{text}"


def check_second(case: Case, wanted: list[str], seed: int) -> None:
    """Assert that tangents are those of dual numbers, and the tangents' gradients what gradients change by."""
    rng = np.random.default_rng(seed)
    tangent = replace(tangent_of(case.program, wanted, values=False), single=False)
    outputs = [o for o in case.program.outputs if case.program.kinds[o].floating]
    given = dict(zip(case.program.parameters, case.fresh()))
    directions = {p: rng.normal(size=np.shape(given[p])) if np.ndim(given[p]) else float(rng.normal()) for p in wanted}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        moved = dict(zip(case.program.outputs, tangents(case, directions)))
        fit(case, attempted(case.results, case.function, case.fresh()), list(moved.values()))
        seeds = {o: seed_of(case, rng, o, slope_of(moved[o])) for o in outputs if is_float(moved[o])}
        again = iter([*directions.values()])
        order = [given[n] if n in given else next(again) for n in tangent.parameters]
        copies = [np.copy(a) if np.ndim(a) else a for a in order]  # one that is written into serves once
        found = run(f"{HEAD}{program_text(tangent)}", tangent.name, copies, [])
        second = adjoint_of(tangent, wanted)
        own = dict(zip(tangent.outputs, outputs))
        weights = [seeds.get(own[o], 0.0) for o in second.seeds]
        count = len(tangent.outputs)
        changes = run(gradient_function(second).text("gradient"), "gradient", order, weights)[count:]
        differences = [slope_of_gradients(case, wanted, directions, seeds, step) for step in (1e-5, 1e-6)]
    for o, f in zip(outputs, found):
        if is_float(moved[o]):
            np.testing.assert_allclose(f, slope_of(moved[o]), rtol=1e-8, atol=1e-8 * (1 + Watch.steepest))
    for p, change, (one, other) in zip(wanted, changes, zip(*differences)):
        size = 1 + np.abs(one).max(initial=0.0)
        if np.abs(one - other).max(initial=0.0) > 1e-4 * size:
            continue  # a kink lies between the two points, or rounding has the say
        off = np.abs(np.asarray(change, float) - one).max(initial=0.0)
        assert off <= 1e-3 * size, f"second derivative of {p}: {change} for {one}"


def slope_of_gradients(case: Case, wanted: list[str], directions: dict[str, Any], seeds: Any, step: float) -> list[Any]:
    """The central differences of gradients along a direction."""
    adjoint = adjoint_of(case.program, wanted)
    text = gradient_function(adjoint).text("gradient")
    sides = []
    for sign in (1, -1):
        arguments = [a + sign * step * directions[p] if p in directions else a
                     for p, a in zip(case.program.parameters, case.fresh())]  # fmt: skip
        found = attempted(run, text, "gradient", arguments, [seeds.get(o, 0.0) for o in adjoint.seeds])
        sides.append([np.asarray(g, float) for g in found[len(case.program.outputs) :]])
    return [(a - b) / (2 * step) for a, b in zip(*sides)]


def is_float(values: Any) -> bool:
    """Whether a result has numbers that may have derivatives."""
    return isinstance(values, (Dual, float)) or (isinstance(values, np.ndarray) and values.dtype == object)


def fit(case: Case, expected: list[Any], moved: list[Any]) -> None:
    """Unfit unless the run on dual numbers was a fair one."""
    if Watch.nearest < (1e-3 if case.single else 1e-9) or Watch.largest > 1e5 or Watch.steepest > 1e6:
        raise Unfit("near a tie, or large")
    for e, m in zip(expected, moved):
        if not np.isfinite(np.asarray(e, float)).all():
            raise Unfit("not finite")
        loose = 1e-2 if case.single else 1e-7
        if is_float(m) and not np.allclose(value_of(m), e, rtol=loose, atol=loose):
            raise Unfit("unlike its own dual")
        if not np.isfinite(slope_of(m)).all():
            raise Unfit("without a derivative")


def seed_of(case: Case, rng: np.random.Generator, output: str, value: Any) -> Any:
    """The derivative of the result in one output."""
    if np.ndim(value):
        return rng.normal(size=value.shape).astype(case.program.kinds[output].dtype)
    return float(rng.normal())


def space_of(text: str, compiled: bool = False) -> dict[str, Any]:
    """What a text defines."""
    names: dict[str, Any] = {}
    exec(text, names)
    if compiled:
        import numba

        for name in [n for n in ("grown", "summed", "widened", "gradient") if n in names]:
            names[name] = numba.njit(names[name])
    return names


def run(text: str, name: str, arguments: list[Any], more: list[Any], compiled: bool = False) -> list[Any]:
    """A call of the function that a text defines."""
    return list(space_of(text, compiled)[name](*arguments, *more))


def run_split(adjoint: Adjoint, case: Case, seeds: list[Any]) -> tuple[list[Any], list[Any]]:
    """The gradients of two calls of the reverse sweep with what one forward sweep kept."""
    arguments = case.fresh()
    names = space_of(forward_function(adjoint).text("forward"))
    names |= space_of(reverse_function(adjoint).text("reverse"))
    kept = list(names["forward"](*arguments))[len(case.program.outputs) :]
    assert len(kept) == len(adjoint.kept)
    first = [np.copy(g) for g in names["reverse"](*arguments, *kept, *seeds)]
    return first, list(names["reverse"](*arguments, *kept, *seeds))


def wanted_of(case: Case, rng: random.Random) -> list[list[str]]:
    """All parameters, and some of them."""
    floating = case.floating()
    some = [p for p in floating if rng.random() < 0.4] or floating[:1]
    return [floating] if some == floating else [floating, some]


def tried(seed: int, compiled: bool = False, of: Callable[[int], RandomModule] = RandomModule.of) -> str:
    """Check one program; what became of it."""
    module = of(seed)
    rng = random.Random(seed)
    passed = False
    for k in range(2):
        arguments = module.arguments(1000 * k + seed)
        try:
            case = Case.of(module.text, arguments, module.single)
            for wanted in wanted_of(case, rng):
                check(case, wanted, seed, compiled and not k)
            if seed % 4 == 0 and not module.single:
                # What a parameter that is written into held before has no tangent.
                check_second(case, [p for p in case.floating() if p not in case.program.outputs], seed)
            passed = True
        except Unfit:
            continue
        except SourceError as error:
            return f"refused: {error}"
        except Exception as error:
            if "broadcast" in str(error):  # a size of one stretches only where the text says that it is one
                continue
            raise AssertionError(f"seed {seed}, arguments {arguments!r}\n{module.text}\n{error}") from error
    return "passed" if passed else "unfit"


@pytest.mark.parametrize("first", range(SEED, SEED + PROGRAMS, 10))
def test_random_functions(first):
    """Values and gradients of random functions, in one function and in two."""
    for seed in range(first, min(first + 10, SEED + PROGRAMS)):
        tried(seed, compiled=bool(COMPILED) and seed % COMPILED == 0)


@pytest.mark.parametrize("first", range(SEED, SEED + PROGRAMS, 10))
def test_random_neighbours(first):
    """The same of functions of nothing but loops over neighbours."""
    for seed in range(first, min(first + 10, SEED + PROGRAMS)):
        tried(seed, compiled=bool(COMPILED) and seed % COMPILED == 0, of=RandomModule.of_neighbours)
