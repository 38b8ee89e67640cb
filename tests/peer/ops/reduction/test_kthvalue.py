"""Which of equal elements kthvalue finds, beside PyTorch."""

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_equal_elements(dtype):
    draws = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 10, 40):
        x = draws.integers(0, 5, (4, n)).astype(dtype)
        if dtype is np.float32:
            x[x == 4] = np.nan
        for k in range(1, n + 1):
            ours, theirs = jitgrad.kthvalue(jitgrad.tensor(x), k), torch.kthvalue(torch.tensor(x), k)
            np.testing.assert_array_equal(ours.values.numpy(), theirs.values.numpy())
            np.testing.assert_array_equal(ours.indices.numpy(), theirs.indices.numpy())
