"""jitgrad.func: gradients, per-sample gradients, Jacobians, Hessians."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch
from .transforms import TRANSFORMS, transform


class Transform:
    params = [tuple(TRANSFORMS)]
    param_names = ["transform"]
    timeout = 120

    def setup(self, name):
        self.work = transform(jitgrad, name)
        self.work()

    def time_transform(self, name):
        self.work()


class TransformAgainstTorch(AgainstTorch):
    params = [tuple(TRANSFORMS)]
    param_names = ["transform"]

    def track_ratio(self, name):
        return ratio_to_torch(lambda engine: transform(engine, name))
