"""Products of groups beside PyTorch's, with gradients."""

import numpy as np
import pytest
import torch

import jitgrad

from ...beside import outcome, same


def values(*shape):
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)  # sums are exact


@pytest.mark.parametrize("a, b, ends", [
    ((8, 16), (3, 16, 16), [2, 5, 8]), ((8, 16), (3, 16, 16), [2, 2, 8]), ((3, 8, 16), (16, 8), [2, 5, 8]),
    ((8, 16), (16, 8), [2, 5, 16]), ((3, 8, 16), (3, 16, 8), None), ((2, 8, 16), (3, 16, 8), None),
    ((8, 16), (3, 16, 8), None), ((8, 16), (3, 32, 8), [2, 5, 8]), ((8, 16), (3, 16, 8), [2, 5]),
    ((16,), (3, 16, 8), [2, 5, 8]), ((3, 8, 16), (3, 16, 8), [2, 5, 8]), ((8, 16), (16,), [2, 5, 8]),
    ((8, 16), (3, 16, 8), [[2, 5, 8]]),
])  # fmt: skip
def test_products_of_groups(a, b, ends):
    def run(lib, _):
        x, y = (lib.tensor(values(*shape), requires_grad=True) for shape in (a, b))
        offs = None if ends is None else lib.tensor(ends, dtype=lib.int32)
        found = lib.nn.functional.grouped_mm(x, y, offs=offs)
        return found, lib.autograd.grad((found * found).sum(), (x, y))

    both(run)


@pytest.mark.parametrize("change", [
    lambda lib, x, y, offs: lib.nn.functional.grouped_mm(x.double(), y, offs=offs),
    lambda lib, x, y, offs: lib.nn.functional.grouped_mm(x, y.double(), offs=offs),
    lambda lib, x, y, offs: lib.nn.functional.grouped_mm(x, y, offs=offs.long()),
    lambda lib, x, y, offs: lib.nn.functional.grouped_mm(x, y, offs=offs, bias=x),
    lambda lib, x, y, offs: lib.nn.functional.grouped_mm(x, y, offs=offs, out_dtype=lib.float64),
    lambda lib, x, y, offs: lib.nn.functional.grouped_mm(x.bfloat16(), y.bfloat16(), offs=offs).float(),
])  # fmt: skip
def test_dtypes(change):
    def run(lib, _):
        offs = lib.tensor([2, 5, 8], dtype=lib.int32)
        return change(lib, lib.tensor(values(8, 16)), lib.tensor(values(3, 16, 8)), offs)

    both(run)


def test_what_no_group_has_is_zero():
    """PyTorch leaves it as memory was."""
    x, y = (jitgrad.tensor(values(*shape), requires_grad=True) for shape in ((8, 16), (2, 16, 4)))
    found = jitgrad.nn.functional.grouped_mm(x, y, offs=jitgrad.tensor([2, 6], dtype=jitgrad.int32))
    found.sum().backward()
    assert not found[6:].any() and not x.grad[6:].any() and found[:6].any()


def both(run):
    same(outcome(run, jitgrad, 0), outcome(run, torch, 0))
