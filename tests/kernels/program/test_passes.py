"""Launches as passes leave them do what they did: each pass on and off, against the launches one by one."""

import random

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels.program import Passes
from jitgrad.kernels.program.dependences import accesses, dependences
from jitgrad.kernels.program.fused_kernel import FusedKernel

NONE = Passes(dead=False, repeated=False, fusion=False, row_blocks=False)


def names(launches):
    return [sorted(m.kernel.of) if isinstance(m.kernel, FusedKernel) else m.kernel.name for m in launches]


def step(recorded, n=5000, dtype=torch.float32):
    x, y = (torch.rand(n, dtype=dtype, requires_grad=True) for _ in range(2))
    with recorded() as launches:
        loss = (torch.sigmoid(x) * y + x).sum()
        loss.backward()
    return launches, [], [loss._data, x.grad._data, y.grad._data]


def test_forward_and_backward_are_one_loop(recorded, check):
    launches, before, kept = step(recorded)
    made = check(launches, before, kept)
    together = [m for m in made if isinstance(m.kernel, FusedKernel)]
    assert len(together) == 1 and len(together[0].kernel.of) >= 6
    # The two inputs and gradients and the number that backward begins with: nothing in between is stored.
    assert sum(isinstance(a, np.ndarray) and a.size >= 5000 for a in together[0].args) == 4
    assert "sum_rows" in together[0].kernel.of


def test_without_passes(recorded, check):
    launches, before, kept = step(recorded)
    assert check(launches, before, kept, NONE, exact=True) == launches
    assert not any("sum_rows" in m.kernel.of for m in check(launches, before, kept, Passes(sums=False))
                   if isinstance(m.kernel, FusedKernel))  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_on_threads(threads, one_thread, recorded, check):
    torch.set_num_threads(threads)
    check(*step(recorded, 300_001))
    check(*step(recorded, 1 << 19))


def test_in_place_and_read_before(in_python, recorded, check):
    x, y = torch.rand(30), torch.rand(30)
    before = [(x._data, x._data.copy())]
    with recorded() as launches:
        a = x * y
        x += a
        b = x * y
        x.mul_(2)
        c = a + b
    assert len(check(launches, before, [x._data, c._data])) == 1


def test_overlapping_views_are_no_one_loop(in_python, recorded, check):
    x = torch.rand(30)
    before = [(x._data, x._data.copy())]
    with recorded() as launches:
        a = x[1:] + 1
        x[:-1].mul_(2)
        b = x[1:] * a
    assert names(check(launches, before, [x._data, a._data, b._data])) == [m.kernel.name for m in launches]


def test_one_number_and_what_it_is_computed_from(in_python, recorded, check):
    x = torch.rand(30)
    with recorded() as launches:
        total = (x * x).sum()
        y = x / total  # waits for the sum
        z = y * y + total
    made = check(launches, [], [z._data])
    assert len(made) < len(launches)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64])
def test_dtypes(dtype, in_python, recorded, check):
    x, y = torch.arange(6).to(dtype), torch.tensor([3, 0, 1, 1, 0, 2]).to(dtype)
    with recorded() as launches:
        a = x * y
        b = torch.where(a == y, x, a)
        c = (b == x) & (a == y) if dtype is not torch.complex64 else b.abs()
        d = b * a
    check(launches, [], [b._data, c._data, d._data])


@pytest.mark.parametrize("shape", [(0,), (1,), (1, 1), (3, 0), ()])
def test_sizes(shape, in_python, recorded, check):
    x = torch.rand(shape, requires_grad=True)
    with recorded() as launches:
        loss = (torch.exp(x) * x).sum()
        loss.backward()
    check(launches, [], [loss._data, x.grad._data])


def test_accuracy_of_sums(recorded, check):
    x = torch.rand(1 << 20) + 1e4
    with recorded() as launches:
        total = (x + 1).sum()
    made = check(launches, [], [total._data])
    assert any(isinstance(m.kernel, FusedKernel) for m in made)
    exact = (x._data + np.float32(1)).astype(np.float64).sum()
    assert abs(float(total._data) - exact) <= 1e-6 * exact


def test_dependences(recorded):
    x, y = torch.rand(8), torch.rand(8)
    with recorded() as launches:
        a = x + y  # 0
        b = a * y  # 1, after 0 and in its order
        c = a.flip(0)  # 2, after 0
        a.neg_()  # 3, after all of them
        d = b[:4] + c[4:]  # 4, after 1 and 2
    found = dependences([accesses(m) for m in launches])
    assert d.numel() == 4
    assert found == [{}, {0: True}, {0: False}, {0: True, 1: True, 2: False}, {1: False, 2: False}]


def program(seed, recorded):
    """A random program: what its launches are, what was there before them, what has to be there afterwards."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    shape = draw.choice([(6,), (2, 3), (3, 4), (4, 1)])
    tensors = [torch.randn(shape) for _ in range(3)]
    before = [(t._data, t._data.copy()) for t in tensors]
    pick = lambda: draw.choice(tensors)

    def view(t):
        if t.dim() == 0:
            return t
        return draw.choice([lambda: t, lambda: t, lambda: t[1:] if len(t) > 1 else t, lambda: t[:1], lambda: t.t(),
                            lambda: t.reshape(-1)])()  # fmt: skip

    def made():
        x, y = pick(), pick()
        y = y if draw.random() < 0.7 else view(y)
        try:
            return draw.choice([
                lambda: x + y, lambda: x * y, lambda: torch.tanh(x), lambda: x - 2 * y, lambda: x.exp(),
                lambda: torch.where(x > y, x, y), lambda: torch.relu(x),
                lambda: x.sum(), lambda: x.sum(-1, keepdim=True), lambda: x * x.sum(),
                lambda: x.double() * 2, lambda: x.add_(y), lambda: x.mul_(0.5), lambda: view(x).neg_(),
                lambda: view(x), lambda: torch.softmax(x, -1),
            ])()  # fmt: skip
        except RuntimeError:  # of shapes that don't fit, or dtypes that can't be written
            return None

    with recorded() as launches:
        for _ in range(draw.randint(3, 14)):
            if (t := made()) is not None:
                tensors.append(t)
    kept = [t._data for t in draw.sample(tensors, min(4, len(tensors)))] + [a for a, _ in before]
    return launches, before, kept


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block, in_python, recorded, check):
    for seed in range(40):
        launches, before, kept = program(1000 * block + seed, recorded)
        check(launches, before, kept)


def test_one_number_that_a_loop_of_one_element_computes(in_python, recorded, check):
    x, y = torch.rand(()), torch.rand(1)
    with recorded() as launches:
        a = x.exp()
        b = y * 2 - a  # a has no dims, and is read once
    assert len(check(launches, [], [a._data, b._data])) == 1


@pytest.mark.parametrize("shape", [(6, 10), (3, 700), (1030, 3)])
def test_rows_columns_and_numbers_among_matrices(shape, in_python, recorded, check):
    rows, width = shape
    x, y = torch.rand(shape), torch.rand(shape)
    row, column, number = torch.rand(width), torch.rand(rows, 1), torch.rand(1, 1)
    with recorded() as launches:
        a = torch.tanh(x * row + column)
        b = (a - y) * number / column + row
        c = (b * b).sum(1)
        d = x * 2 + b
    made = check(launches, [], [b._data, c._data, d._data])
    assert [isinstance(m.kernel, FusedKernel) for m in made] == [True]
    made = check(launches, [], [d._data], Passes(sums=False))
    assert [isinstance(m.kernel, FusedKernel) for m in made] == [True]


def test_rows_that_the_group_changes(in_python, recorded, check):
    x, row = torch.rand(6, 6), torch.rand(6)
    before = [(x._data, x._data.copy()), (row._data, row._data.copy())]
    with recorded() as launches:
        a = x * row
        row.mul_(2)
        b = a * row + 1
        x[2].add_(b[1])
        c = b * x[2]
        y = c * c
    check(launches, before, [x._data, row._data, a._data, b._data, c._data, y._data])


def test_matrices_of_different_widths_meet_apart(in_python, recorded, check):
    x, row, longer = torch.rand(12, 10), torch.rand(10), torch.rand(20)
    with recorded() as launches:
        a = x * row + 1
        b = (a.view(6, 20) * longer).sqrt()
        c = (b.view(12, 10) - row) * 2
    made = check(launches, [], [c._data])
    assert len(made) == 3


def test_bias_and_activation_are_one_loop(one_thread, recorded, check):
    layer, x = torch.nn.Linear(64, 260), torch.rand(80, 64)
    with recorded() as launches:
        y = torch.nn.functional.gelu(layer(x)) * 2
    made = check(launches, [], [y._data])
    assert [sorted(m.kernel.of) for m in made if isinstance(m.kernel, FusedKernel)] == [
        ["add_row", "gelu_forward", "mul_forward"]
    ]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_broadcasts_on_threads(threads, dtype, one_thread, recorded, check):
    torch.set_num_threads(threads)
    dtype = getattr(torch, dtype)
    x, row, column = (torch.rand(s, dtype=dtype, requires_grad=True) for s in ((701, 300), (300,), (701, 1)))
    with recorded() as launches:
        y = torch.sigmoid(x * row + column) * x
        y.sum().backward()
    kept = [t._data for t in (y, x.grad, row.grad, column.grad)]
    for compiled in (False, True):
        made = check(launches, [], kept, compiled=compiled)
        assert any(isinstance(m.kernel, FusedKernel) and m.kernel.loop.rows for m in made)
