"""Products and sums where one element decides: zeros, overflow, NaN, infinities."""

import math

import numpy as np
import pytest

import jitgrad as torch


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_products_that_no_division_gives(dim):
    """Zeros, and products that are too small or too large for a float, among rows for which a division does."""
    rows = [[2, -3, 0.5], [0, 3, 4], [0, 0, 5], [1e-30, 1e-20, 1e8], [1e30, 1e20, 1e-20], [1, 1, 1]]
    rows = np.array(rows, np.float32)
    array = np.ascontiguousarray(rows if dim else rows.T)
    x = torch.tensor(array, requires_grad=True)
    x.prod(dim).sum().backward()
    with np.errstate(over="ignore"):
        others = [[np.prod(np.delete(row, k).astype(np.float64)) for k in range(3)] for row in rows]
        wanted = np.array(others if dim else np.transpose(others)).astype(np.float32)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)


def test_sums_without_nan_on_several_threads():
    """Chunks' sums are NaN where infinities have met, and then so is the sum; NaN itself counts as zero."""
    x = torch.ones(300_000)
    x[7] = math.nan
    assert x.nansum() == 299_999
    x[[11, 13]] = torch.tensor([math.inf, -math.inf])
    assert x.nansum().isnan()
    assert x.reshape(3, -1).nansum(1).isnan().tolist() == [True, False, False]
    assert x.reshape(-1, 3).nansum(0).tolist() == [100_000, -math.inf, math.inf]
