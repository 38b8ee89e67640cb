"""Margins between the scores of classes: x is (n, classes). ``wrong`` gets (1, a target that is no class)."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = ["multi_margin", "multi_margin_gradient", "multilabel_margin", "multilabel_margin_gradient"]


@loop
def multi_margin(x, target, weight, out, wrong, squared, margin):
    """The sum of max(0, margin - x[t] + x[i]), or of squares, over i other than t, times t's weight over classes.

    ``weight`` has one element a class, or none.
    """
    wrong[0] = 0
    classes = x.shape[1]
    for n in range(x.shape[0]):
        t, total = target[n], T(0)
        if t < 0 or t >= classes:
            if wrong[0] == 0:
                wrong[0], wrong[1] = 1, t
            continue
        base = T(margin) - x[n, t]
        for i in range(classes):
            z = base + x[n, i]
            if i != t and z > 0:
                total += z * z if squared else z
        out[n] = total * (weight[t] if weight.size else T(1)) / classes


@loop
def multi_margin_gradient(g, x, target, weight, out, squared, margin):
    classes = x.shape[1]
    for n in range(x.shape[0]):
        t, total = target[n], T(0)
        base = T(margin) - x[n, t]
        factor = g[n] * (weight[t] if weight.size else T(1)) / classes
        for i in range(classes):
            z = base + x[n, i]
            slope = T(0)
            if i != t and z > 0:
                slope = factor * (2 * z if squared else T(1))
            out[n, i] = slope
            total += slope
        out[n, t] = -total


@loop
def multilabel_margin(x, target, out, wrong):
    """The sum of max(0, 1 - x[t] + x[i]) over targets t before the first -1 and other classes i, over classes."""
    wrong[0] = 0
    classes = x.shape[1]
    chosen = np.empty(classes, np.bool_)
    for n in range(x.shape[0]):
        chosen[:] = False
        count = 0
        while count < classes and target[n, count] >= 0:
            if target[n, count] >= classes:
                break
            chosen[target[n, count]] = True
            count += 1
        for k in range(classes):
            if target[n, k] < -1 or target[n, k] >= classes:
                if wrong[0] == 0:
                    wrong[0], wrong[1] = 1, target[n, k]
        total = T(0)
        for k in range(count):
            base = 1 - x[n, target[n, k]]
            for i in range(classes):
                z = base + x[n, i]
                if z > 0 and not chosen[i]:
                    total += z
        out[n] = total / classes


@loop
def multilabel_margin_gradient(g, x, target, out):
    classes = x.shape[1]
    chosen = np.empty(classes, np.bool_)
    for n in range(x.shape[0]):
        chosen[:] = False
        out[n] = 0
        count = 0
        while count < classes and target[n, count] >= 0:
            chosen[target[n, count]] = True
            count += 1
        slope = g[n] / classes
        for k in range(count):
            t, total = target[n, k], T(0)
            base = 1 - x[n, t]
            for i in range(classes):
                if base + x[n, i] > 0 and not chosen[i]:
                    out[n, i] += slope
                    total += slope
            out[n, t] -= total
