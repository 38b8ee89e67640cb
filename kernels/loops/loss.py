"""Losses: element by element, as totals, and their gradients; and the likelihood of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.launch import Kernel, loop
from jitgrad.kernels.words import exp, log, log1p, maximum, minimum, sigmoid

__all__ = [
    "BINARY", "HUBER", "LOGITS", "MSE", "SMOOTH_L1", "Pointwise", "nll_each", "nll_gradient", "nll_total",
    "outside_unit",
]  # fmt: skip


class Pointwise(NamedTuple):
    """The kernels of a loss of (x, target): element by element and summed, and their gradients in x."""

    each: Kernel
    total: Kernel
    gradient: Kernel
    total_gradient: Kernel


def pointwise(name: str, value: Callable[..., Any], slope: Callable[..., Any]) -> Pointwise:
    """Make the kernels of the loss ``value(x, target, option)`` with derivative ``slope`` in x."""

    def each(x, target, out, option):
        for i in range(x.size):
            out[i] = value(x[i], target[i], T(option))

    def total(x, target, out, option, scale):
        n = x.shape[1]
        for r in range(x.shape[0]):
            result = W(0)
            # Blocks of 512 in T, their sums in W, as in `sum_rows`.
            for begin in range(0, n, 512):
                a, b, block = x[r, begin : begin + 512], target[r, begin : begin + 512], T(0)
                for i in range(a.size):
                    block += value(a[i], b[i], T(option))
                result += block
            out[r] = result * scale

    def gradient(g, x, target, out, option):
        for i in range(x.size):
            out[i] = slope(x[i], target[i], T(option)) * g[i]

    def total_gradient(g, x, target, out, option, scale):
        factor = g[0] * T(scale)
        for i in range(x.size):
            out[i] = slope(x[i], target[i], T(option)) * factor

    # All losses share these four texts; a kernel is known, and cached, by its name and text.
    for function in (each, total, gradient, total_gradient):
        function.__name__ = f"{name}_{function.__name__}"
    pair = ("x", "target", "out")
    return Pointwise(
        loop(each, split=pair),
        loop(total, reassoc=True, split=pair),
        loop(gradient, split=("g", *pair)),
        loop(total_gradient, split=pair, dtype_from="x"),
    )


def mse_value(x, target, option):
    return (x - target) * (x - target)


def mse_slope(x, target, option):
    return (x - target) * 2.0


def smooth_l1_value(x, target, beta):
    size = abs(x - target)
    return 0.5 * size * size / beta if size < beta else size - 0.5 * beta


def smooth_l1_slope(x, target, beta):
    return maximum(minimum((x - target) / beta, 1.0), -1.0)


def huber_value(x, target, delta):
    size = abs(x - target)
    return 0.5 * size * size if size <= delta else delta * (size - 0.5 * delta)


def huber_slope(x, target, delta):
    return maximum(minimum(x - target, delta), -delta)


def binary_value(x, target, option):
    """Logarithms stop at -100, so that a certain mistake costs a finite amount."""
    return (target - 1.0) * maximum(log1p(-x), -100.0) - target * maximum(log(x), -100.0)


def binary_slope(x, target, option):
    # PyTorch's epsilon, 1e-12 rounded to float32 for every dtype, keeps the gradient finite where x is 0 or 1.
    return (x - target) / maximum((1.0 - x) * x, 9.999999960041972e-13)


def logits_value(x, target, option):
    # (1 - target) x + log(1 + exp(-x)) without overflow: -min(x, 0) + log1p(exp(-|x|)) is log(1 + exp(-x)).
    return (1.0 - target) * x - minimum(x, 0.0) + log1p(exp(-abs(x)))


def logits_slope(x, target, option):
    return sigmoid(x) - target


MSE = pointwise("mse", mse_value, mse_slope)
SMOOTH_L1 = pointwise("smooth_l1", smooth_l1_value, smooth_l1_slope)
HUBER = pointwise("huber", huber_value, huber_slope)
BINARY = pointwise("binary_cross_entropy", binary_value, binary_slope)
LOGITS = pointwise("binary_cross_entropy_with_logits", logits_value, logits_slope)


@loop
def outside_unit(x, found):
    """Whether any element is not between 0 and 1."""
    bad = False
    for i in range(x.size):
        bad |= not ((x[i] >= 0) & (x[i] <= 1))
    found[0] = bad


# -- negative log-likelihood of classes: x is (n, classes, places), targets are (n, places) -----------
#
# ``weight`` has one element per class, or none. A target that is no class goes to ``wrong``:
# (1, target).


@loop
def nll_each(x, target, weight, out, wrong, ignored):
    wrong[0] = 0
    for r in range(x.shape[0]):
        for j in range(x.shape[2]):
            t = np.int64(target[r, j])
            out[r, j] = 0
            if t == ignored:
                continue
            if t < 0 or t >= x.shape[1]:
                if wrong[0] == 0:
                    wrong[0], wrong[1] = 1, t
                continue
            out[r, j] = -x[r, t, j] * (weight[t] if weight.size else T(1))


@loop
def nll_total(x, target, weight, out, wrong, ignored, mean):
    wrong[0] = 0
    total, weights = W(0), W(0)
    for r in range(x.shape[0]):
        for j in range(x.shape[2]):
            t = np.int64(target[r, j])
            if t == ignored:
                continue
            if t < 0 or t >= x.shape[1]:
                if wrong[0] == 0:
                    wrong[0], wrong[1] = 1, t
                continue
            w = weight[t] if weight.size else T(1)
            total -= W(x[r, t, j]) * W(w)
            weights += W(w)
    out[0] = total / weights if mean else total


@loop
def nll_gradient(g, target, weight, out, ignored, mean):
    """``g`` has one element, or one for each target."""
    classes, weights = out.shape[1], T(1)
    if mean:
        weights = T(0)
        for r in range(target.shape[0]):
            for j in range(target.shape[1]):
                t = np.int64(target[r, j])
                if t != ignored:
                    weights += weight[t] if weight.size else T(1)
    # The gradient of a total is one number for all targets.
    step = 0 if g.size == 1 else 1
    for r in range(out.shape[0]):
        out[r] = 0
        for j in range(target.shape[1]):
            t = np.int64(target[r, j])
            if t != ignored and 0 <= t < classes:
                w = weight[t] if weight.size else T(1)
                out[r, t, j] = -g[(r * target.shape[1] + j) * step] * w / weights
