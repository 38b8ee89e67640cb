"""lgamma, digamma and polygamma against values of 60 digits, over the whole range."""

import numpy as np
import pytest

import jitgrad as torch

from .gamma_values import TABLE


def called(name, x):
    function, *order = name.split()
    return getattr(torch, function)(*map(int, order), torch.tensor(x)).numpy()


@pytest.mark.parametrize("name", TABLE)
def test_errors(name):
    """At most 4 units in the last place, or as many of the change that half a unit of x makes where that is larger.

    Between poles the functions have zeros, close to which the second is all that can be asked of an argument that was
    rounded.
    """
    x, want, slope = np.array(TABLE[name]).T
    error = np.abs(called(name, x) - want) / np.maximum(np.spacing(np.abs(want)), np.abs(slope) * 2.0**-53)
    worst = int(np.argmax(error))
    assert error[worst] <= 4.5, (x[worst], want[worst])  # half a unit for the table's own rounding


@pytest.mark.parametrize("name", TABLE)
def test_float32(name):
    rows = np.array(TABLE[name])
    with np.errstate(over="ignore"):
        x = rows[:, 0].astype(np.float32)
    rows = rows[(x == rows[:, 0]) & (np.abs(rows[:, 1]) < 1e38)]
    got = called(name, rows[:, 0].astype(np.float32))
    np.testing.assert_array_max_ulp(got, rows[:, 1].astype(np.float32), 1)


@pytest.mark.parametrize("order", [1, 2, 3, 12])
def test_polygamma_far_from_and_close_to_poles(order):
    """Sums of many terms below 0, results that are denormal, and what overflows on the way only."""
    sign = 1 if order % 2 else -1
    x = torch.tensor([-1e15 - 0.5, -12345678.25, 1e-320, -1e-320, -3.0, 0.0, float("inf")], dtype=torch.float64)
    half, quarter, *rest = torch.polygamma(order, x).tolist()
    near = torch.polygamma(order, torch.tensor([0.25, 0.75, 0.5], dtype=torch.float64)).tolist()
    assert quarter == pytest.approx(near[1] + sign * near[0], rel=1e-7 if order == 1 else 1e-12)
    assert half == pytest.approx(near[2] * (1 + sign), abs=1e-9 * abs(near[2]))
    assert rest == [sign * np.inf, np.inf, sign * np.inf, sign * np.inf, 0.0]
    large = 1e250 ** (1 / order)
    (got,) = torch.polygamma(order, torch.tensor([large], dtype=torch.float64)).tolist()
    assert got == pytest.approx(sign * float(np.prod(np.arange(1.0, order))) * large**-order, rel=1e-13)
