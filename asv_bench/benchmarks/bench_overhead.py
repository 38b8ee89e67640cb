"""Per-op overhead in instructions, calls and memory: a regression shows on a machine where times mean nothing."""

import os

import jitgrad

from .counting import blocks_kept, function_calls, instructions, peak_bytes
from .gradients import GRADIENTS, SMALL_CALLS, gradient_of, small_call
from .workloads import CALLS, calls

FEW = slice(None, 2 if os.environ.get("JITGRAD_FEW_BENCHMARKS") else None)


class Overhead:
    """One call, on a few elements."""

    timeout = 120

    def setup(self, name):
        self.work = small_call(jitgrad, name)

    params = [tuple(SMALL_CALLS)[FEW]]
    param_names = ["call"]

    def track_instructions(self, name):
        return instructions(self.work)

    def track_function_calls(self, name):
        return function_calls(self.work)

    def track_blocks_kept(self, name):
        return blocks_kept(self.work)


class RecordedOverhead(Overhead):
    """The same for calls that are recorded."""

    params = [CALLS[FEW]]

    def setup(self, name):
        self.work = calls(jitgrad, recorded=True)[name]


class GradientOverhead(Overhead):
    """Forward and backward of 16 elements."""

    params = [tuple(GRADIENTS)[FEW]]

    def setup(self, name):
        self.work = gradient_of(jitgrad, name, 16)

    def track_peak_bytes(self, name):
        return peak_bytes(self.work)
