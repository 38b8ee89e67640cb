"""Of an op with several inputs, `grad` and ``backward(inputs=...)`` compute the gradients that were asked for alone."""

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.debug import tape


class First(nn.Sequential):
    """The first result of a module that has several."""

    def forward(self, x):
        return self[0](x)[0]


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (5, 4)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
    "layer_norm": (lambda: nn.LayerNorm(4), (5, 4)),
    "lstm": (lambda: First(nn.LSTM(4, 3)), (2, 5, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("create", [False, True])
def test_they_are_those_of_a_whole_run(name, create):
    make, shape = LAYERS[name]
    layer, x = make(), torch.randn(shape, requires_grad=True)
    parameters = [*layer.parameters()]
    y = layer(x).square().sum()
    whole = torch.autograd.grad(y, [x, *parameters], retain_graph=True, create_graph=create)
    for k, one in enumerate([x, *parameters]):
        (found,) = torch.autograd.grad(y, one, retain_graph=True, create_graph=create)
        torch.testing.assert_close(found, whole[k])
        assert found.requires_grad == create


def test_no_kernel_runs_for_others():
    layer, x = nn.Linear(4, 3), torch.randn(5, 4, requires_grad=True)
    y = layer(x).sum()

    def launches(*wanted):
        with tape() as recorded:
            torch.autograd.grad(y, wanted, retain_graph=True)
        return len(recorded)

    assert launches(x) < launches(x, layer.weight)
    assert launches(layer.bias) < launches(layer.weight, layer.bias)
