"""Training steps of small perceptrons with Adam."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch
from .workloads import MLPS, mlp_step


class Mlp:
    """Forward, loss, backward and update."""

    params = [tuple(MLPS)]
    param_names = ["mlp"]
    timeout = 120

    def setup(self, name):
        self.step = mlp_step(jitgrad, name)
        self.step()

    def time_step(self, name):
        self.step()


class MlpAgainstTorch(AgainstTorch):
    params = [tuple(MLPS), (False, True)]
    param_names = ["mlp", "fused"]

    def track_ratio(self, name, fused):
        return ratio_to_torch(lambda engine: mlp_step(engine, name, fused=fused))
