"""Sums with the factor in front, as PyTorch's first versions had it."""

import warnings

import pytest

import jitgrad as torch


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x, y: x.add_(2, y), [7, 9]),
        (lambda x, y: torch.add(x, 2, y), [7, 9]),
        (lambda x, y: x.sub(2, y), [-5, -7]),
        (lambda x, y: x.addcmul_(2, y, y), [19, 33]),
        (lambda x, y: torch.addcdiv(x, 2, y, y), [3, 3]),
    ],
)
def test_the_factor_in_front(call, wanted):
    with pytest.warns(UserWarning, match="This overload of .* is deprecated"):
        assert call(torch.ones(2), torch.tensor([3.0, 4.0])).tolist() == wanted


def test_other_arguments_are_refused():
    x = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: x.add(x, x), lambda: x.add_(x, 2), lambda: x.addcmul(x, x, x)):
            with pytest.raises(TypeError, match="positional arguments"):
                call()
