"""lgamma, digamma and polygamma against values of 60 digits, over the whole range."""

import numpy as np
import pytest

import jitgrad as torch

from .gamma_values import TABLE

# (x, lgamma(x)) next to the first four zeros below 0 and between other poles, computed with 60 digits.
BY_ZEROS = (
    (-2.4570247382208006, 5.619192358950097e-17), (-2.4570247382208, 7.292550612674704e-16),
    (-2.457024738266503, -6.926689048578148e-11), (-2.4570242811960625, 6.926692836477941e-07),
    (-2.457938787697242, -0.001381278548539272), (-2.4433139960741768, 0.021697285525390075),
    (-2.5118677068072968, -0.06866369939889547), (-2.7476826467274127, 1.733509244024501e-16),
    (-2.7476826467274122, -6.767913369021244e-16), (-2.7476826467526445, 4.8302706217562513e-11),
    (-2.7476823944100595, -4.830231622266022e-07), (-2.748187281433958, 0.0009684885118439322),
    (-2.740113126129235, -0.013950592072627083), (-2.777960729120123, 0.06735696911564873),
    (-3.14358088834998, 1.6978655906121085e-15), (-3.14358088834998, 1.6978655906121085e-15),
    (-3.143580888364338, -1.1173287695122752e-10), (-3.1435807447690913, 1.1173304477355313e-06),
    (-3.1438680501266796, -0.0022325323781402446), (-3.1392734616994806, 0.034008350274425045),
    (-3.1608105949519776, -0.12693809361410865), (-3.955294284858598, -4.14382750757705e-16),
    (-3.955294284858598, -4.14382750757705e-16), (-3.9552942848630686, 9.265399755832671e-11),
    (-3.955294240152883, -9.26528163558246e-07), (-3.9553836962888806, 0.0018550723123604922),
    (-3.953953113404356, -0.02735189253160184), (-3.960658970675566, 0.11906110997921293),
    (-2.5002221162457583, -0.05648851019660473), (-2.7304392582739165, -0.03026062316880722),
    (-4.2, -1.8075166614192915), (-4.03, 0.28470203967088525),
    (-5.03, -1.3307179444407626), (-6.9, -6.0051769765398575),
    (-7.999, -3.6947053961091894), (-8.4999, -10.544383712367194),
)  # fmt: skip


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


def test_lgamma_by_its_zeros():
    x, want = np.array(BY_ZEROS).T
    error = np.abs(called("lgamma", x) - want) / np.spacing(np.abs(want))
    assert error.max() <= 4.5, x[error.argmax()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lgamma_has_a_form_for_positive_arguments(dtype):
    """Blocks without a negative argument run a shorter loop: the same values but for roundings."""
    info = np.finfo(dtype)
    x = np.concatenate([np.linspace(0, 30, 500), np.logspace(-300, 300, 400), [-0.0, info.tiny / 4, info.max]])
    with np.errstate(over="ignore", under="ignore"):
        x = x.astype(dtype)
    short, full = called("lgamma", x), called("lgamma", np.concatenate([x, [-0.5]]).astype(dtype))[:-1]
    np.testing.assert_array_max_ulp(short, full, 2)
    assert called("lgamma", np.array([np.inf, 0, -0.0], dtype)).tolist() == [np.inf] * 3
    assert np.isnan(called("lgamma", np.array([np.nan, 1], dtype))[0])


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
