"""Launches whose results are the same in every run: what is made of Python's numbers alone, such as a mask.

They are not part of a program. What they wrote in the recording stays there, and the program reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.memory import written_roots
from jitgrad.compiler.numbers import is_live
from jitgrad.compiler.placeholders import CONSTANT_BYTES
from jitgrad.kernels.program import Launch, is_array

__all__ = ["constant_roots"]


def constant_roots(
    launches: Sequence[Launch], given: Iterable[Launch], initial: Collection[int], private: Callable[[Any], bool]
) -> list[Any]:
    """The arrays whose memory a run need not write, since all that is written there is computed of constants.

    given: launches that may have written what these read. initial: ids of memory that holds Python's numbers at first.
    private: whether an array is new memory that ends with the run.
    """
    fixed = set(initial) - written_roots([*given, *launches])
    steps = [_Step(made) for made in launches]
    last = {id(r): number for number, s in enumerate(steps) for r in s.out}  # launch that writes there
    roots = {id(r): r for s in steps for r in s.out if private(r) and r.nbytes <= CONSTANT_BYTES}
    left, size = set(roots), -1
    while len(left) != size:
        size = len(left)
        known = fixed | left
        for number, step in enumerate(steps):
            if not step.is_constant(known, left):
                # What it writes is no constant; what it reads is one only if that isn't written to again.
                left -= {id(r) for r in step.out}
                left -= {key for key in step.read if last.get(key, -1) > number}
    return [roots[key] for key in left]


class _Step:
    """A launch: the arrays in whose memory it writes, and the ids of those in which it reads."""

    def __init__(self, made: Launch):
        writes = set(made.kernel.writes)
        arrays = [(k, root_of(a)) for k, a in enumerate(made.args) if is_array(a)]
        self.out = [r for k, r in arrays if k in writes]
        self.read = {id(r) for k, r in arrays if k not in writes}
        self.fixed = not made.checks and not any(map(is_live, made.args))

    def is_constant(self, known: set[int], left: set[int]) -> bool:
        """Whether it writes constants, given what holds some."""
        return self.fixed and bool(self.out) and self.read <= known and all(id(r) in left for r in self.out)
