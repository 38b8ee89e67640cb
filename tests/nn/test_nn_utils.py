"""``nn.utils``: clipping, and parameters as one vector."""

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters


def test_clipping():
    params = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(3))]
    params[0].grad, params[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert clip_grad_norm_(params, 1.0).item() == pytest.approx(5)
    assert params[1].grad.item() == pytest.approx(0.8, rel=1e-5)
    assert clip_grad_norm_(params, 10.0, float("inf")).item() == pytest.approx(0.8, rel=1e-5)
    clip_grad_value_(params, 0.5)
    assert params[0].grad.tolist() == [0.5, 0.0] and params[1].grad.item() == 0.5
    params[0].grad = torch.tensor([float("nan"), 0.0])
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_([], 1.0).item() == 0


def test_parameters_as_one_vector():
    params = [nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.zeros(3))]
    vector = parameters_to_vector(params)
    assert vector.tolist() == [1, 1, 1, 1, 0, 0, 0] and vector.requires_grad
    vector_to_parameters(torch.arange(7.0), params)
    assert params[0].tolist() == [[0, 1], [2, 3]] and params[1].tolist() == [4, 5, 6]
