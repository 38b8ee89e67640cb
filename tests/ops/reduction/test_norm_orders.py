"""Norms of orders other than 2, which one kernel computes: along rows and columns, of all layouts, special values."""

import math

import numpy as np
import pytest

import jitgrad as torch

ORDERS = [1, 1.5, 3, -1, -2.5, math.inf, -math.inf, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("order", ORDERS)
def test_against_numpy(order, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 700)).astype(dtype)
    x += 1j * x[::-1] if np.iscomplexobj(x) else 0
    exact = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    for array, reference in ((x, exact), (np.asfortranarray(x), exact), (x[:, ::3], exact[:, ::3])):
        t = torch.from_numpy(array)
        for d in (0, 1):
            found = torch.linalg.vector_norm(t, order, d).numpy()
            assert found.dtype == x.real.dtype
            assert np.allclose(found, np.linalg.norm(reference, order, d), rtol=1e-5 if x.real.itemsize == 4 else 1e-12)


@pytest.mark.parametrize("order", [1, 3, -1, math.inf, -math.inf])
@pytest.mark.parametrize("d", [0, 1])
def test_nan_spreads(order, d):
    for place in (0, 1, 2):
        x = np.ones((3, 3), np.float32)
        x[place] = x[:, place] = np.nan
        assert torch.linalg.vector_norm(torch.from_numpy(x), order, d).isnan().all()
    x = torch.tensor([[math.nan, 1.0], [2.0, 1.0]])
    assert torch.linalg.vector_norm(x, order, 1).isnan().tolist() == [True, False]


def test_infinities_and_nothing():
    x = torch.tensor([1.0, -math.inf])
    assert torch.linalg.vector_norm(x, 3).item() == torch.linalg.vector_norm(x, 1).item() == math.inf
    assert torch.linalg.vector_norm(x, -math.inf).item() == 1
    assert torch.linalg.vector_norm(torch.empty(0, 2), 3, 0).tolist() == [0, 0]
    assert torch.linalg.vector_norm(torch.empty(0), 1).item() == 0


def test_many_elements_and_threads():
    x = np.random.default_rng(1).standard_normal(300_001)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for order in (1, 3, math.inf, -math.inf, 0):
                found = torch.linalg.vector_norm(torch.from_numpy(x), order).item()
                assert math.isclose(found, np.linalg.norm(x, order), rel_tol=1e-11)
    finally:
        torch.set_num_threads(before)
