"""Layers and losses by hand; a network that learns."""

import math

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F


def test_linear_by_hand():
    layer = nn.Linear(2, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        layer.bias.copy_(torch.tensor([0.5, 0.0, -0.5]))
    assert layer(torch.tensor([[1.0, 1.0], [1.0, 0.0]])).tolist() == [[3.5, 7, 10.5], [1.5, 3, 4.5]]
    assert layer(torch.tensor([1.0, 1.0])).tolist() == [3.5, 7, 10.5]
    assert layer(torch.ones(2, 3, 2)).shape == (2, 3, 3)
    assert nn.Linear(2, 3, bias=False).bias is None
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        layer(torch.ones(1, 3))


def test_dropout():
    torch.manual_seed(0)
    layer, x = nn.Dropout(0.25), torch.ones(1000, requires_grad=True)
    y = layer(x)
    kept = y.detach().numpy() != 0
    assert set(np.unique(y.detach().numpy()).tolist()) == {0.0, np.float32(1 / 0.75).item()}
    assert 0.7 < kept.mean() < 0.8
    y.sum().backward()
    assert (x.grad.numpy() == y.detach().numpy()).all()
    assert layer.eval()(x) is x and F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).sum().item() == 0
    z = torch.ones(10)
    assert F.dropout(z, 0.5, inplace=True) is z
    for bad in (-0.1, 1.5):
        with pytest.raises(ValueError, match=f"has to be between 0 and 1, but got {bad}"):
            nn.Dropout(bad)
        with pytest.raises(ValueError, match="has to be between 0 and 1"):
            F.dropout(x, bad)


@pytest.mark.parametrize("inplace", [False, True])
def test_activations_in_place(inplace):
    x = torch.tensor([-1.0, 2.0])
    for layer in (nn.ReLU(inplace), nn.LeakyReLU(0.1, inplace), nn.ELU(inplace=inplace)):
        y = x.clone()
        assert (layer(y) is y) is inplace


def test_losses_by_hand():
    x, y = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 1.0])
    assert nn.MSELoss()(x, y).item() == 2.5 and nn.MSELoss(reduction="sum")(x, y).item() == 5
    assert nn.L1Loss(reduction="none")(x, y).tolist() == [1, 2]
    assert nn.SmoothL1Loss()(x, y).item() == pytest.approx((0.5 + 1.5) / 2)
    logits, classes = torch.tensor([[0.0, 0.0], [math.log(3), 0.0]]), torch.tensor([0, 0])
    expected = (math.log(2) - math.log(0.75)) / 2
    assert nn.CrossEntropyLoss()(logits, classes).item() == pytest.approx(expected)
    assert nn.NLLLoss()(F.log_softmax(logits, 1), classes).item() == pytest.approx(expected)
    assert nn.BCEWithLogitsLoss()(torch.tensor([0.0]), torch.tensor([1.0])).item() == pytest.approx(math.log(2))
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"


def test_training_learns_xor():
    torch.manual_seed(1)
    x = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = torch.tensor([[0.0], [1], [1], [0]])
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = nn.BCEWithLogitsLoss()(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
