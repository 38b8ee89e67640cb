"""Training steps of small perceptrons with Adam."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch, seconds_of_work
from .workloads import MLPS, mlp_step


class Mlp:
    """Forward, loss, backward and update."""

    params = [tuple(MLPS)]
    param_names = ["mlp"]

    def setup(self, name):
        self.work = mlp_step(jitgrad, name)

    track_seconds = seconds_of_work


class MlpAgainstTorch(AgainstTorch):
    params = [tuple(MLPS), (False, True)]
    param_names = ["mlp", "fused"]

    def track_ratio(self, name, fused):
        return ratio_to_torch(lambda engine: mlp_step(engine, name, fused=fused))
