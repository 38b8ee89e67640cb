"""Indices that elements of arrays or floats decide on: loops that have such are checked in every call."""

import numpy as np
import pytest

import jitgrad as torch


def item_after(a, i, k):
    return a[i + k]


def spikes(x, out):
    for i in range(x.size):
        if x[i] > 0:
            out[i + 1] = 1.0


def counted(x, out):
    k = 0
    for i in range(x.size):
        if x[i] > 0:
            k += 1
    out[k] = 1.0


def head(x, out):
    part = x[: int(x[0])]
    out[0] = part[0]


def flat(x, out):
    for i in range(x.size):
        out.flat[int(x[i])] = 1.0


@pytest.mark.parametrize("loop", [spikes, counted, head, flat])
def test_indices_that_data_decide_on_are_checked_in_every_call(loop):
    op = torch.kernel_pair(loop)
    op(torch.tensor([1.0, 0.0, 0.0]))
    with pytest.raises(IndexError, match="out of bounds"):
        op(torch.tensor([0.0, 5.0, 5.0]) if loop is not counted else torch.ones(3))
    with pytest.raises(IndexError, match="index -1 is out of bounds for the 3 elements of 'out'"):
        torch.kernel_pair(flat)(-torch.ones(3))  # from before the array, in Numba


def picked(x, index):
    total = 0.0
    for i in range(index.size):
        total += x[index[i]]
    return total


def test_indices_from_data_in_derived_loops_are_checked_in_every_call():
    op, index = torch.differentiable(picked), np.array([0, 2])
    x = torch.arange(3.0).requires_grad_()
    assert op(x, torch.from_numpy(index)) == op(np.arange(3.0), index) == 2
    slopes = torch.numba_grad(op)
    assert slopes(np.arange(3.0), index).tolist() == [1.0, 0.0, 1.0]
    index = index + 1
    for call in (lambda: op(x, torch.from_numpy(index)), lambda: op(np.arange(3.0), index),
                 lambda: slopes(np.arange(3.0), index)):  # fmt: skip
        with pytest.raises(IndexError, match="index 3 .* of 'x': .* in picked"):
            call()


def test_indices_from_data_are_checked_in_compiled_functions():
    op = torch.differentiable(picked)
    total = torch.compile(lambda x, index: 2 * op(x, index))
    for k in (0, 1, 2, 2):
        assert total(torch.arange(3.0), torch.tensor([k])) == 2 * k
    with pytest.raises(IndexError, match="index 3 .* of 'x'"):
        total(torch.arange(3.0), torch.tensor([3]))


def test_what_decides_on_indices():
    def read(loop):
        return torch.kernel_pair(loop).forward_loop.loop.deciding

    def plain(x, n, k, out):
        best = np.zeros(n, np.int64)
        for i in range(1, n):
            best[i] = i - k
            out[i] = x[best[i]] if x[i] > 0 else x[i - 1]
            if x[i] < 0:
                out[i] = x[i - 1]

    def backtracked(x, out):
        path = np.zeros(x.size, np.int64)
        for i in range(1, x.size):
            path[i] = i if x[i] > x[i - 1] else path[i - 1]
        out[path[x.size - 1]] = 1.0

    def converged(x, tolerance, out):
        for _ in range(100):
            change = 0.0
            for i in range(1, x.size):
                change += abs(out[i - 1] - x[i])
                out[i] = out[i - 1]
            if change < tolerance:
                break

    def in_helper(x, k, out):
        for i in range(x.size):
            out[i] = item_after(x, i, int(k * x[i]))

    assert [sorted(read(f)) for f in (plain, backtracked, converged, in_helper)] == [["k", "n"], ["x"], [], ["k", "x"]]
