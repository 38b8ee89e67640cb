"""jitgrad.func: gradients, per-sample gradients, Jacobians, Hessians."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch, seconds_of_work
from .transforms import TRANSFORMS, transform


class Transform:
    params = [tuple(TRANSFORMS)]
    param_names = ["transform"]

    def setup(self, name):
        self.work = transform(jitgrad, name)

    track_seconds = seconds_of_work


class TransformAgainstTorch(AgainstTorch):
    params = [tuple(TRANSFORMS)]
    param_names = ["transform"]

    def track_ratio(self, name):
        return ratio_to_torch(lambda engine: transform(engine, name))
