"""Thread pools side by side: what a loop costs that mixes NumPy's products with ours and an op."""

import jitgrad

from .rounds import in_turn, take_turns
from .workloads import mixture


class Pools:
    """The three alone, and in turn; a pool that spins shows as a ratio far above 1."""

    timeout = 120

    def setup(self):
        self.works = mixture(jitgrad)
        self.mixed = in_turn(self.works)
        self.mixed()

    def time_numpy_matmul(self):
        self.works["np.matmul"]()

    def time_matmul(self):
        self.works["matmul"]()

    def time_exp(self):
        self.works["exp"]()

    def time_in_turn(self):
        self.mixed()

    def track_in_turn(self):
        times = take_turns({**self.works, "in turn": self.mixed}, 2.0)
        return times["in turn"].fastest / sum(times[name].fastest for name in self.works)

    track_in_turn.unit = "in turn / sum of the three alone"
