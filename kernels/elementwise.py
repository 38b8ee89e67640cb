"""THE TABLE: every elementwise op, declared once.

Rules are plain arithmetic and words. ``g`` is the incoming gradient, ``out`` the result; what a
rule names is what is saved.
"""

from __future__ import annotations

import numpy as np

from .declaration import Elementwise
from .words import *  # noqa: F403  (the vocabulary)


class Add(Elementwise):
    """Sum of two tensors, element by element."""

    kind, reference = "same", np.add
    operators = ("__add__",)

    def forward(x, y):
        return x + y

    def grad_x(g):
        return g

    def grad_y(g):
        return g


class Mul(Elementwise):
    """Product of two tensors, element by element."""

    kind, reference = "same", np.multiply
    operators = ("__mul__",)
    aliases = ("multiply",)

    def forward(x, y):
        return x * y

    def grad_x(g, y):
        return g * y

    def grad_y(g, x):
        return g * x


class Exp(Elementwise):
    """Exponential function."""

    reference = np.exp

    def forward(x):
        return exp(x)

    def grad_x(g, out):
        return g * out


class Tanh(Elementwise):
    """Hyperbolic tangent."""

    reference = np.tanh

    def forward(x):
        return tanh(x)

    def grad_x(g, out):
        return g * (1 - out) * (1 + out)
