"""Functions planned by layouts: what is kept, what is launched, and what other arguments do."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.core.layout import forget_plans, intern
from jitgrad.dispatch.planned import Launches, Number, Read, Written, planned, row_major
from jitgrad.kernels.loops.reduction import divide, sum_rows

calls = []


@planned("x", "y?", numbers=("count",))
def summed(x, y, dim, count):
    calls.append((x, y, dim))
    if dim == "error":
        raise ValueError("no such dim")
    if dim == "other":
        return lambda x, y, dim, count: (x, y, dim, count)
    n, m = x.shape
    launches = [(sum_rows, row_major("x", x, (n, m)), Written(0)), (divide, Written(0), Number("count"))]
    return Launches(launches, [intern(x.numpy_dtype, (n,))])


@pytest.fixture(autouse=True)
def no_plans():
    forget_plans()
    calls.clear()


def test_a_combination_of_layouts_and_arguments_is_planned_once():
    x, y = torch.arange(6.0).reshape(2, 3), torch.zeros(1)
    assert [summed(x, None, 1, n).tolist() for n in (1, 2, 4)] == [[3, 12], [1.5, 6], [0.75, 3]]
    assert len(calls) == 1
    summed(x + 1, None, 1, 3)
    assert len(calls) == 1
    summed(x, y, 1, 3), summed(x, None, 2, 3), summed(x.double(), None, 1, 3), summed(x.t(), None, 1, 3)
    assert len(calls) == 5 and calls[1][1] is y._layout and calls[2][1:] == (None, 2)


def test_what_is_not_row_major_is_copied_and_what_is_lazy_resolved():
    x = torch.arange(6.0).reshape(2, 3)
    assert summed(x.t(), None, 1, 1).tolist() == [3, 5, 7]
    lazy = torch.complex(x, x).conj().imag
    assert lazy.is_neg() and summed(lazy, None, 1, 1).tolist() == [-3, -12]


def test_a_plan_may_be_a_function_and_errors_are_not_kept():
    x = torch.ones(2, 2)
    assert summed(x, None, "other", 5) == (x, None, "other", 5)
    for _ in range(2):
        with pytest.raises(ValueError, match="no such dim"):
            summed(x, None, "error", 1)
    assert len(calls) == 3


def test_an_argument_that_is_not_hashable_is_planned_at_each_call():
    x = torch.ones(2, 2)
    assert summed(x, None, [1], 2).tolist() == summed(x, None, [1], 2).tolist() == [1, 1]
    assert len(calls) == 2


def test_several_results_working_memory_and_transposed_views():
    @planned("x")
    def both(x):
        shape = (x.shape[1],)
        first = sum_rows, Read("x", "T"), Written(2, (shape[0],))
        second = sum_rows, Read("x", "T"), Written(0)
        third = sum_rows, Read("x", lambda x: x._data.T), Written(1)
        return Launches([first, second, third], [intern(x.numpy_dtype, shape)] * 3, 2)

    x = torch.arange(6.0).reshape(2, 3)
    one, two = both(x)
    np.testing.assert_array_equal(one.numpy(), [3, 5, 7])
    np.testing.assert_array_equal(two.numpy(), [3, 5, 7])


def test_launches_are_observed():
    x = torch.ones(2, 2)
    with torch.debug.tape() as tape:
        summed(x, None, 1, 2)
    assert [e.kernel.name for e in tape] == ["sum_rows", "divide"]
