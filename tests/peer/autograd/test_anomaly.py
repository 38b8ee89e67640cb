"""Anomaly mode beside PyTorch: what is raised, and what is told of the forward call."""

import pytest
import torch

import jitgrad

from .function_cases import Cases
from .graph_cases import leaf, outcome, plain

case = Cases()


class Fails:
    """Functions whose backward fails, made for an engine."""

    def __init__(self, e, returned):
        class Broken(e.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return returned(g)

        class Doubly(e.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return Broken.apply(g)

        self.broken, self.doubly = Broken.apply, Doubly.apply


@case
def nan_in_backward(e):
    with e.autograd.detect_anomaly():
        x = leaf(e, 0.0)
        y = (x * 0).sqrt() * 0
        y.backward()


@case
def nan_not_looked_for(e):
    with e.autograd.detect_anomaly(check_nan=False):
        x = leaf(e, 0.0)
        ((x * 0).sqrt() * 0).backward()
        return str(plain(x.grad)), e.is_anomaly_enabled(), e.is_anomaly_check_nan_enabled()


@case
def forward_outside(e):
    y = (leaf(e, 0.0) * 0).sqrt() * 0
    with e.autograd.detect_anomaly():
        y.backward()


@case
def function_raises(e):
    with e.autograd.detect_anomaly():
        Fails(e, lambda g: 1 / 0).broken(leaf(e, 1.0)).backward()


@case
def induced(e):
    with e.autograd.detect_anomaly():
        x, g = leaf(e, 1.0), leaf(e, 1.0)
        y = Fails(e, lambda g: g * float("nan")).doubly(x)
        (found,) = e.autograd.grad(y, x, g, create_graph=True)
        found.backward()


@case
def written_under_anomaly(e):
    with e.autograd.detect_anomaly():
        y = leaf(e, 1.0).exp()
        y.add_(1)
        y.backward()


@case
def hook_raises(e):
    with e.autograd.detect_anomaly():
        x = leaf(e, 1.0)
        y = x * 2
        y.register_hook(lambda g: 1 / 0)
        y.backward()


@case
def leaf_hook_raises(e):
    with e.autograd.detect_anomaly():
        x = leaf(e, 1.0)
        x.register_hook(lambda g: 1 / 0)
        (x * 2).backward()


@case
def setting(e):
    seen = []

    def note():
        seen.append([e.is_anomaly_enabled(), e.is_anomaly_check_nan_enabled()])

    with e.autograd.set_detect_anomaly(True):
        note()
        with e.autograd.set_detect_anomaly(False, check_nan=False):
            note()
        note()
    note()
    e.autograd.set_detect_anomaly(True, False)
    note()
    e.autograd.set_detect_anomaly(False)
    note()
    return seen


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_case(function):
    assert outcome(function, jitgrad) == outcome(function, torch)
