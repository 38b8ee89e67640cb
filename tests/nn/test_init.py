"""Parameters and their initial values."""

import math

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import init


def test_parameter_shares_memory_and_is_a_leaf():
    data = torch.ones(2, 2)
    p = nn.Parameter(data)
    assert p.requires_grad and p.is_leaf and isinstance(p, torch.Tensor) and p._data is data._data
    assert repr(p).startswith("Parameter containing:\ntensor([[1., 1.],\n")
    with torch.no_grad():
        assert nn.Parameter(data).requires_grad
    assert type(p + 1) is torch.Tensor and type(p.detach()) is torch.Tensor
    assert not nn.Parameter(torch.arange(3), requires_grad=False).requires_grad
    with pytest.raises(RuntimeError, match="can require gradients"):
        nn.Parameter(torch.arange(3))


def test_gains_and_fans():
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 1) == 1 and init.calculate_gain("linear") == 1
    assert init._calculate_fan_in_and_fan_out(torch.ones(6, 4, 3, 3)) == (36, 54)
    for call in (lambda: init.calculate_gain("x"), lambda: init.calculate_gain("leaky_relu", True)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(torch.ones(3))
    with pytest.raises(ValueError, match="Mode fan not supported"):
        init.kaiming_uniform_(torch.ones(3, 2), mode="fan")


@pytest.mark.parametrize("fill", ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"])
def test_variance_of_initial_values(fill):
    torch.manual_seed(0)
    weight = nn.Parameter(torch.empty(200, 300))
    assert getattr(init, fill)(weight) is weight and weight.requires_grad and weight.is_leaf
    expected = 2 / 500 if "xavier" in fill else 2 / 300
    assert float(np.var(weight.detach().numpy())) == pytest.approx(expected, rel=0.05)


def test_constants():
    assert init.constant_(torch.empty(2, 2), 3.5).tolist() == [[3.5, 3.5], [3.5, 3.5]]
    assert init.ones_(torch.empty(2)).tolist() == [1, 1] and init.zeros_(torch.empty(2)).tolist() == [0, 0]
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
