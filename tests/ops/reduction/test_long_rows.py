"""Sums of rows so long that they have a kernel of their own."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels.loops import reduction

RNG = np.random.default_rng(0)


def array(dtype, n):
    values = RNG.uniform(-3, 3, n)
    return (values + 1j * RNG.uniform(-3, 3, n) if dtype == "complex64" else values).astype(dtype)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64", "complex64"])
@pytest.mark.parametrize("n", [reduction.LONG_ROW, reduction.LONG_ROW + 5003])
def test_long_rows(dtype, n):
    a = array(dtype, n)
    with torch.debug.tape() as tape:
        found = torch.from_numpy(a).sum()
    assert {e.kernel.name for e in tape} == {"sum_long_rows"}
    wide = a.astype("complex128" if dtype == "complex64" else "float64")
    rows = torch.from_numpy(np.stack([a, a[::-1]])).sum(1)
    for value in (found, *rows):
        error = (1e-7 if dtype in ("float32", "complex64") else 1e-14) * abs(wide).sum()
        assert abs(value.item() - wide.sum()) <= error


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 9001])
def test_short_rows_of_the_loop_for_long_ones(n):
    a, out = RNG.integers(-9, 9, (3, n)).astype(np.float32), np.empty(3, np.float32)
    reduction.sum_long_rows.call(a, out)
    np.testing.assert_array_equal(out, a.sum(1, dtype=np.float64))
