"""Thread pools side by side: what a loop costs that mixes NumPy's products with ours and an op."""

import jitgrad

from .rounds import in_turn, seconds_of_work, take_turns
from .workloads import mixture


def works():
    """The three alone, and in turn."""
    alone = mixture(jitgrad)
    return {**alone, "in turn": in_turn(alone)}


class Pools:
    params = [("np.matmul", "matmul", "exp", "in turn")]
    param_names = ["work"]

    def setup(self, name):
        self.work = works()[name]

    track_seconds = seconds_of_work


class PoolsInTurn:
    """A pool that spins shows as a ratio far above 1."""

    unit = "in turn / sum of the three alone"
    timeout = 120

    def track_ratio(self):
        times = {name: t.fastest for name, t in take_turns(works(), 2.0).items()}
        return times.pop("in turn") / sum(times.values())
