"""Loops over squares of two dims, for operands whose memory runs along another dim than the result's."""

import itertools

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.dispatch.launch_plan import TILED_SIZE
from jitgrad.kernels.elementwise.declaration import StridedKernel


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SHAPES = [(70, 90), (64, 64), (17, 16, 33), (3, 40, 5, 50), (16, 300), (31, 31, 31), (20, 3, 300)]


@pytest.mark.parametrize("shape", SHAPES)
def test_permuted_copies_and_sums(shape):
    for order in itertools.permutations(range(len(shape))):
        a = values(*shape)
        permuted, other = torch.tensor(a).permute(*order), values(*a.transpose(order).shape, seed=1)
        np.testing.assert_array_equal(permuted.contiguous().numpy(), a.transpose(order))
        np.testing.assert_array_equal((torch.tensor(other) - permuted).numpy(), other - a.transpose(order))
        row = values(other.shape[-1], seed=2)
        np.testing.assert_array_equal((torch.tensor(row) * permuted).numpy(), row * a.transpose(order))


def test_gaps_threads_and_a_target_that_is_permuted():
    a, before = values(600, 1400), torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            np.testing.assert_array_equal(torch.tensor(a)[::2, ::2].t().contiguous().numpy(), a[::2, ::2].T)
            x = torch.zeros(1400, 600)
            x.t().copy_(torch.tensor(a))
            np.testing.assert_array_equal(x.numpy(), a.T)
    finally:
        torch.set_num_threads(before)


def test_small_copies_share_the_strided_kernel():
    side = int(TILED_SIZE**0.5)
    with torch.debug.tape() as tape:
        for n in (side - 1, side):
            torch.tensor(values(n, n)).t().contiguous()
    small, large = [entry.kernel for entry in tape]
    assert isinstance(small, StridedKernel) and isinstance(large, StridedKernel) and small is not large
