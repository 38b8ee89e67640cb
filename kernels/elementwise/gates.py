"""The table: activations of two tensors, which ``jitgrad/ops/nn/gates.py`` publishes; imported with that."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.activation import LeakyRelu
from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *

__all__ = ["PreluKernel", "RreluInEvaluation", "RreluWithNoise"]


class PreluKernel(Elementwise):
    """``x`` where it is positive, else ``y * x``: y are weights. Two operands called x and y take the fast path."""

    kind, accepts, numbers, memory_order = "same", "float", (), "copy"
    name, error_name = "_prelu_kernel", "prelu_cpu"
    reference = lambda x, y: np.where(x > 0, x, y * x)

    def forward(x, y):
        return where(x > 0, x, y * x)

    def grad_x(g, x, y):
        return constant_in(where(x > 0, g, g * y), x)

    def grad_y(g, x):
        return where(x > 0, 0, g * x)


class RreluWithNoise(Elementwise):
    """``x`` times slopes ``y`` that were drawn for it."""

    kind, accepts, numbers, reference = "same", "float", (), np.multiply
    memory_order = "row-major"

    def forward(x, y):
        return x * y

    # The slopes do depend on x, though no gradient says so.
    def grad_x(g, x, y):
        return constant_in(g * y, x)

    grad_y = None


class RreluInEvaluation(LeakyRelu):
    """`LeakyRelu` with the mean slope: results are row-major, and another node stands for it in graphs."""

    memory_order, grad_name = "row-major", "RreluWithNoiseBackward0"
