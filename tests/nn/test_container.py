"""Sequential, lists and dictionaries of modules and parameters."""

from collections import OrderedDict

import pytest

import jitgrad as torch
from jitgrad import nn


def test_sequential_is_a_list():
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    net.append(c)
    assert net[-1] is c and len(net) == 3 and list(net[1:]) == [b, c]
    net.insert(0, c)
    assert list(net) == [c, a, b, c]
    assert net.pop(0) is c and [n for n, _ in net.named_children()] == ["0", "1", "2"]
    net[0] = b
    del net[1]
    assert list(net) == [b, c]
    assert len(net + net) == 4 and len(net * 2) == 4
    net += nn.Sequential(a)
    assert len(net) == 3
    named = nn.Sequential(OrderedDict(first=a, second=b))
    assert named.first is a and list(named[:1]._modules) == ["first"]
    for call in (lambda: net[5], lambda: net.insert(9, a)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        net + [a]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0


def test_module_list_and_dict():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    layers.extend([nn.ReLU()])
    layers += [nn.Tanh()]
    layers.insert(1, nn.Sigmoid())
    assert [type(m).__name__ for m in layers] == ["Linear", "Sigmoid", "Linear", "Linear", "ReLU", "Tanh"]
    assert len(list(layers.parameters())) == 6 and len(layers[1:3]) == 2
    with pytest.raises(TypeError, match="iterable, but got int"):
        layers.extend(3)
    named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    named["c"] = nn.Linear(1, 1)
    assert list(named) == list(named.keys()) == ["a", "b", "c"] and "b" in named and len(named) == 3
    assert isinstance(named.pop("a"), nn.ReLU)
    with pytest.raises(ValueError, match="element #0 has length 3; 2 is required"):
        named.update([("a", 1, 2)])


def test_parameter_list_and_dict():
    params = nn.ParameterList([torch.ones(2), nn.Parameter(torch.ones(3))])
    params.append(torch.ones(4))
    assert [p.numel() for p in params] == [2, 3, 4] and len(list(params.parameters())) == 3
    assert isinstance(params[0], nn.Parameter) and len(params[1:]) == 2
    named = nn.ParameterDict({"a": torch.ones(2)})
    named["b"] = torch.ones(3)
    assert [n for n, _ in named.named_parameters()] == ["a", "b"] and named.pop("a").numel() == 2
    with pytest.raises(RuntimeError, match="should not be called"):
        params(1)
