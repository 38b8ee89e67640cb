"""Loops of elementwise ops on broadcast operands: rows as vectors, expanded numbers read once."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.launch_plan import ROWS_SIZE, _row_steps
from jitgrad.kernels.elementwise.declaration import StridedKernel


def values(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def launches(function):
    with torch.debug.tape() as tape:
        result = function()
    return [entry.kernel for entry in tape], result


PAIRS = {
    "column and row": lambda: (values(128, 1), values(1, 96)),
    "matrix and row": lambda: (values(128, 96), values(96)),
    "matrix and column": lambda: (values(128, 96), values(128, 1)),
    "column and matrix": lambda: (values(128, 1), values(128, 96)),
    "planes and their middle": lambda: (values(16, 1, 40), values(16, 24, 1)),
    "four dims": lambda: (values(6, 1, 20, 1), values(1, 10, 1, 12)),
    "parts of rows": lambda: (values(128, 200)[:, 3:99], values(128, 96)),
    "narrow rows": lambda: (values(8192, 2), values(2)),
    "single rows": lambda: (values(1, 9000), values(9000, 1).t()),
    "every second": lambda: (values(128, 192)[:, ::2], values(128, 1)),
    "permuted": lambda: (values(96, 128).t(), values(128, 1)),
    "a number": lambda: (values(128, 96), values(1).expand(128, 96)),
    "number and row": lambda: (values(1, 1).expand(128, 96), values(96)),
    "two numbers": lambda: (values(1).expand(128, 96), values(1, seed=1).expand(128, 96)),
    "a number in one row": lambda: (values(1).expand(1, 9000), values(1, 9000)),
    "half a number": lambda: (values(128, 1).expand(128, 96), values(128, 96)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_values_and_gradients(pair):
    x, y = PAIRS[pair]()
    a, b = x.numpy(), y.numpy()
    for t in (x, y):
        t.requires_grad_()
    out = x * y
    assert out.numel() >= ROWS_SIZE
    np.testing.assert_array_equal(out.detach().numpy(), a * b)
    g = values(*out.shape, seed=3)
    gx, gy = torch.autograd.grad(out, (x, y), g)
    for found, other, like in ((gx, b, a), (gy, a, b)):
        full = (g.numpy() * other).astype(np.float64)
        dims = tuple(range(full.ndim - like.ndim)) + tuple(
            full.ndim - like.ndim + d for d, n in enumerate(like.shape) if n == 1 != full.shape[d - like.ndim]
        )
        np.testing.assert_allclose(found.numpy().reshape(like.shape), full.sum(dims).reshape(like.shape), 2e-4, 1e-3)


@pytest.mark.parametrize("count", [1, 2])
def test_threads_share_rows(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        x, y = values(1024, 1), values(1, 1024)
        np.testing.assert_array_equal((x * y).numpy(), x.numpy() * y.numpy())
        one = values(1).expand(1 << 18)
        np.testing.assert_array_equal((values(1 << 18) * one).numpy(), values(1 << 18).numpy() * one.numpy())
    finally:
        torch.set_num_threads(before)


def test_a_gradient_of_sum_is_read_once():
    x = values(64, 32).requires_grad_()
    loss = (x * x).sum()
    kernels, _ = launches(loss.backward)
    assert not any(isinstance(k, StridedKernel) for k in kernels)
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy())


def test_writes_take_expanded_numbers():
    x, one = values(64, 32), values(1)
    before = x.numpy().copy()
    kernels, _ = launches(lambda: x.mul_(one.expand(64, 32)))
    np.testing.assert_array_equal(x.numpy(), before * one.numpy())
    assert not any(isinstance(k, StridedKernel) for k in kernels)
    part = x[3, 4].expand(64, 32)  # memory of the target itself: read before the first write
    before, number = x.numpy().copy(), x.numpy()[3, 4].copy()
    x.mul_(part)
    np.testing.assert_array_equal(x.numpy(), before * number)


def test_a_tape_replays_on_other_numbers():
    x, one = values(64, 32), values(1)
    with torch.debug.tape() as tape:
        out = x * one.expand(64, 32)
    one.fill_(5.0)
    tape.replay()
    np.testing.assert_array_equal(out.numpy(), x.numpy() * 5)


def test_steps_are_known_only_where_all_are_0_or_1():
    assert _row_steps(np.array([[5, 0], [0, 1], [5, 1]], np.uint64), 1) == (0, 1, 1)
    assert _row_steps(np.array([[5, 2], [0, 1], [5, 1]], np.uint64), 1) == ()
    expanded_output = np.array([[5, 0], [0, 1], [5, 0]], np.uint64)
    assert _row_steps(expanded_output, 1) == ()
