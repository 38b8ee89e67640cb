"""The cost of a call: ops on 16 elements, where the arithmetic itself is next to nothing."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch, seconds_of_work
from .workloads import CALLS, calls


class Call:
    """One small op, with and without recording."""

    params = [CALLS, (False, True)]
    param_names = ["call", "recorded"]

    def setup(self, name, recorded):
        self.work = calls(jitgrad, recorded)[name]

    track_seconds = seconds_of_work


class CallAgainstTorch(AgainstTorch):
    params = [("x * y", "x.reshape(4, 4)", "linear(row)")]
    param_names = ["call"]

    def track_recorded(self, name):
        return ratio_to_torch(lambda engine: calls(engine, True)[name])
