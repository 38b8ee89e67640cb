"""Versions of ``.grad``: 0 where it is the gradient that backward made, 1 where it is a copy of that, then the sums."""

import pytest
import torch

import jitgrad

PROGRAMS = [
    "x.sum()", "(x + y).sum()", "(x * y).sum()", "x.t().sum()", "(x @ y.t()).sum()", "x.clone().sum()",
    "(x * 2).sum() + x.sum()", "x[0].sum()", "x.exp().sum()", "x.cumsum(0).sum()",
]  # fmt: skip


def versions(library, text, times):
    leaves = {name: library.ones(2, 3, dtype=library.float64, requires_grad=True) for name in "xy"}
    for _ in range(times):
        eval(text, {"torch": library, **leaves}).backward()
    return [None if leaf.grad is None else leaf.grad._version for leaf in leaves.values()]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("text", PROGRAMS)
def test_versions(text, times):
    assert versions(jitgrad, text, times) == versions(torch, text, times)
