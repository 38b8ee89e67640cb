"""The table: losses of single elements, which ``jitgrad/ops/nn/`` sums and publishes; imported with those."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.words import *

__all__ = [
    "GaussianNll", "HingeEmbedding", "MarginRanking", "PoissonNll", "PoissonNllLog", "SoftMargin", "SoftMarginOfClass",
    "Stirling",
]  # fmt: skip


class SoftMargin(Elementwise):
    """``log(1 + exp(-y * x))``."""

    kind, accepts, numbers, error_name = "same", "float", (), "exp_vml_cpu"
    grad_name = "SoftMarginLossBackward0"
    reference = lambda x, y: np.log1p(np.exp(-y * x))

    def forward(x, y):
        return log1p(exp(-y * x))

    def grad_x(g, x, y):
        z = exp(-y * x)
        return g * (-y * z / (z + 1))

    grad_y = None  # PyTorch has none


class SoftMarginOfClass(Elementwise):
    """``-(x * log(sigmoid(y)) + (1 - x) * log(sigmoid(-y)))``."""

    accepts, numbers, error_name = "bool int float", (), "log_sigmoid_cpu"
    reference = lambda x, y: -(x * -np.logaddexp(0, -y) + (1 - x) * -np.logaddexp(0, y))

    def forward(x, y):
        more = log1p(exp(-abs(y)))
        return -(x * (minimum(y, 0) - more) + (1 - x) * (minimum(-y, 0) - more))

    def grad_y(g, y, x):
        return g * (sigmoid(y) - x)

    def grad_x(g, y):
        return -g * y


class MarginRanking(Elementwise):
    """``max(0, margin - target * (x - y))``."""

    accepts, numbers = "int float", ()
    reference = lambda x, y, target, margin=0.5: np.maximum(-target * (x - y) + margin, 0)

    # maximum with 0 first: NaN stays NaN.
    def forward(x, y, target, margin=0.5):
        return maximum(0, margin - target * (x - y))

    def grad_x(g, x, y, target, margin):
        return where(margin - target * (x - y) >= 0, -g * target, 0)

    def grad_y(g, x, y, target, margin):
        return where(margin - target * (x - y) >= 0, g * target, 0)

    def grad_target(g, x, y, target, margin):
        return where(margin - target * (x - y) >= 0, -g * (x - y), 0)


class HingeEmbedding(Elementwise):
    """``x`` for target 1, ``max(0, margin - x)`` for -1; their sum for any other."""

    kind, accepts, numbers = "same", "int float", ()

    def reference(target, x, margin=1.0):
        return np.where(target != 1, np.maximum(margin - x, 0), 0) + np.where(target != -1, x, 0)

    def forward(target, x, margin=1.0):
        return where(target != 1, maximum(0, margin - x), 0) + where(target != -1, x, 0)

    def grad_x(g, x, target, margin):
        return where(target != -1, g, 0) - where((target != 1) & (margin - x >= 0), g, 0)

    grad_target = None


class PoissonNllLog(Elementwise):
    """``exp(y) - x * y``."""

    accepts, numbers = "bool int float", ()
    reference = lambda x, y: np.exp(y) - x * y

    # The size of exp(y), or LLVM fuses the last product of exp, whose infinity is then none, with the difference.
    def forward(x, y):
        return abs(exp(y)) - x * y

    def grad_y(g, y, x):
        return g * (exp(y) - x)

    def grad_x(g, y):
        return -g * y


class PoissonNll(Elementwise):
    """``x - target * log(x + eps)``."""

    accepts, numbers, domain = "bool int float", (), (0.1, 3)
    reference = lambda x, target, eps=1e-8: x - target * np.log(x + eps)

    def forward(x, target, eps=1e-8):
        return x - target * log(x + eps)

    def grad_x(g, x, target, eps):
        return g * (1 - target / (x + eps))

    def grad_target(g, x, eps):
        return -g * log(x + eps)


class Stirling(Elementwise):
    """Stirling's ``log(x!)``: ``x log(x) - x + log(2 pi x) / 2`` above 1, else 0."""

    accepts, numbers, domain = "bool int float", (), (1.1, 4)
    reference = lambda x: np.where(x <= 1, 0, x * np.log(x) - x + 0.5 * np.log(2 * np.pi * x))

    def forward(x):
        return where(x <= 1, 0, x * log(x) - x + 0.5 * log(6.283185307179586 * x))

    def grad_x(g, x):
        return where(x <= 1, 0, g * (log(x) + 0.5 / x))


class GaussianNll(Elementwise):
    """``(log(var) + (x - target)**2 / var) / 2``."""

    accepts, numbers, domain = "float", (), (0.3, 2)
    reference = lambda x, target, var: 0.5 * (np.log(var) + (x - target) ** 2 / var)

    def forward(x, target, var):
        return 0.5 * (log(var) + square(x - target) / var)

    def grad_x(g, x, target, var):
        return g * ((x - target) / var)

    def grad_target(g, x, target, var):
        return g * ((target - x) / var)

    def grad_var(g, x, target, var):
        return g * (0.5 * (1 / var - square((x - target) / var)))
