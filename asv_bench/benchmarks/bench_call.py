"""The cost of a call: ops on 16 elements, where the arithmetic itself is next to nothing."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch
from .workloads import CALLS, calls


class Call:
    """One small op, with and without recording."""

    params = [CALLS, (False, True)]
    param_names = ["call", "recorded"]

    def setup(self, name, recorded):
        self.work = calls(jitgrad, recorded)[name]
        self.work()

    def time_call(self, name, recorded):
        self.work()


class CallAgainstTorch(AgainstTorch):
    params = [("x * y", "x.reshape(4, 4)", "linear(row)")]
    param_names = ["call"]

    def track_recorded(self, name):
        return ratio_to_torch(lambda engine: calls(engine, True)[name])
