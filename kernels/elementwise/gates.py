"""The table: activations of two tensors, which ``jitgrad/ops/nn/gates.py`` publishes; imported with that."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *

__all__ = ["PreluKernel", "RreluWithNoise"]


class PreluKernel(Elementwise):
    """``x`` where it is positive, else ``weight * x``."""

    kind, accepts, numbers, name, error_name = "same", "float", (), "_prelu_kernel", "prelu_cpu"

    @staticmethod
    def reference(x, weight):
        return np.where(x > 0, x, weight * x)

    def forward(x, weight):
        return where(x > 0, x, weight * x)

    def grad_x(g, x, weight):
        return constant_in(where(x > 0, g, g * weight), x)

    def grad_weight(g, x):
        return where(x > 0, 0, g * x)


class RreluWithNoise(Elementwise):
    """``x`` times slopes that were drawn for it."""

    kind, accepts, numbers, reference = "same", "float", (), np.multiply

    def forward(x, noise):
        return x * noise

    # The slopes do depend on x, though no gradient says so.
    def grad_x(g, x, noise):
        return constant_in(g * noise, x)

    grad_noise = None
