"""Arguments that are checked once for each combination of layouts and options."""

import pytest

import jitgrad as torch
from jitgrad.dispatch.settled import settled


def _recorded(tensors):
    """A settled function, and the list of the options that it was asked to check."""
    asked = []

    @settled(tensors)
    def scaled(*args):
        asked.append(args[tensors:])
        if args[-1] == 0:
            raise RuntimeError("no scale")
        return lambda *given: [None if t is None else t * given[-1] for t in given[:tensors]], (float(args[-1]),)

    return scaled, asked


@pytest.mark.parametrize("tensors", [1, 2])
def test_checks_once_for_layouts_and_options(tensors):
    scaled, asked = _recorded(tensors)
    for value in (1.0, 2.0):
        x = torch.full((3,), value)
        assert scaled(*[x] * tensors, 4)[0].tolist() == [4 * value] * 3
    assert len(asked) == 1
    scaled(*[torch.ones(4)] * tensors, 4)
    scaled(*[torch.ones(3)] * tensors, 5)
    assert len(asked) == 3


def test_options_of_other_types_are_other_options():
    scaled, asked = _recorded(1)
    for option in (1, 1.0, True):
        scaled(torch.ones(2), option)
    assert [type(a) for (a,) in asked] == [int, float, bool]


def test_values_that_may_change_are_asked_each_time():
    scaled, asked = _recorded(1)
    factor = torch.tensor(2.0)
    assert scaled(torch.ones(1), factor)[0].tolist() == [2.0]
    factor.fill_(3)
    assert scaled(torch.ones(1), factor)[0].tolist() == [3.0]
    assert len(asked) == 2


def test_options_in_lists_and_tuples():
    asked = []

    @settled(1)
    def summed(x, options):
        asked.append(options)
        return lambda x, total: x + total, (sum(options),)

    for options in ([1, 2], [1, 2], (1, 2), (1, 2), (True, 2), (True, 2)):
        assert summed(torch.zeros(()), options).item() == 3
    assert asked == [[1, 2], [1, 2], (1, 2), (True, 2)]


def test_errors_are_raised_again():
    scaled, asked = _recorded(1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no scale"):
            scaled(torch.ones(2), 0)
    assert len(asked) == 2


def test_none_in_the_place_of_a_tensor():
    scaled, asked = _recorded(2)
    for x in (None, torch.ones(1), None):
        scaled(torch.ones(1), x, 2)
    assert len(asked) == 2


def test_public_functions_refuse_bools_after_ints():
    x = torch.ones(1, 1, 4, 4)
    for function, ok, bad in (
        (lambda v: torch.nn.functional.avg_pool2d(x, v), 1, True),
        (lambda v: torch.nn.functional.pad(x, (v, v)), 1, True),
        (lambda v: torch.conv2d(x, torch.ones(1, 1, 1, 1), None, v), 1, True),
    ):
        function(ok)
        with pytest.raises(TypeError):
            function(bad)
