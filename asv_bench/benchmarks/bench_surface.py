"""The op surface: every case of ``asv_bench/surface``, forward and with gradients, at three sizes.

``compare.py surface`` puts torch beside it. With JITGRAD_FEW_BENCHMARKS set, as in CI, a few cases of each kind run.
"""

import os
import sys
from pathlib import Path

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch, seconds_of_work

sys.path.insert(0, str(Path(__file__).parents[1]))
from surface.figure import SIZES, cases, families, works

CASES = {f"{family}: {name}": case for family in families() for name, case in cases(family).items()}
FEW = slice(None, 3 if os.environ.get("JITGRAD_FEW_BENCHMARKS") else None)
NAMES = tuple(CASES)[FEW]
WITH_GRADIENTS = tuple(name for name, case in CASES.items() if case.backward)[FEW]


def work(library, name, size, backward):
    """A call of a case; NotImplementedError, asv's word for "skip", for a size that is not worth waiting for."""
    if size > CASES[name].most:
        raise NotImplementedError(f"{name} is not timed with {size} elements")
    return works(library, CASES[name], size, backward)


class Forward:
    """An op, called."""

    params = [NAMES, SIZES]
    param_names = ["op", "elements"]

    def setup(self, name, size):
        self.work = work(jitgrad, name, size, False)

    track_seconds = seconds_of_work


class Gradients(Forward):
    """An op, called, and the gradients of its results."""

    params = [WITH_GRADIENTS, SIZES]

    def setup(self, name, size):
        self.work = work(jitgrad, name, size, True)


class SurfaceAgainstTorch(AgainstTorch):
    params = [NAMES, SIZES]
    param_names = ["op", "elements"]

    def track_forward(self, name, size):
        return ratio_to_torch(lambda engine: work(engine, name, size, False), 0.5)
