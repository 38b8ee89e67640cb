"""Eager mode against torch in one run: steps of programs, single ops with their gradients, small calls.

With JITGRAD_FEW_BENCHMARKS set, as in CI, where a benchmark need only run, each class has a few.
"""

import os

from .gradients import GRADIENTS, SMALL_CALLS, gradient_of, small_call
from .rounds import AgainstTorch, ratio_to_torch, threads
from .steps import STEPS, TINY_STEPS

FEW = slice(None, 2 if os.environ.get("JITGRAD_FEW_BENCHMARKS") else None)
EVERY_STEP = STEPS | TINY_STEPS
SIZES = (16, 1 << 16, 1 << 22)


class Steps(AgainstTorch):
    """A step's time in units of torch's."""

    params = [tuple(EVERY_STEP)[FEW]]
    param_names = ["step"]

    def track_ratio(self, name):
        return ratio_to_torch(EVERY_STEP[name], 2.0)


class Gradients(AgainstTorch):
    """Forward and backward of one op; one thread each, two at four million elements."""

    params = [tuple(GRADIENTS)[FEW], SIZES[FEW]]
    param_names = ["op", "n"]

    def track_ratio(self, name, size):
        with threads(2 if size > 1 << 20 else 1):
            return ratio_to_torch(lambda engine: gradient_of(engine, name, size))


class SmallCalls(AgainstTorch):
    """Calls whose time is the library's own."""

    params = [tuple(SMALL_CALLS)[FEW]]
    param_names = ["call"]

    def track_ratio(self, name):
        return ratio_to_torch(lambda engine: small_call(engine, name), 0.5)
