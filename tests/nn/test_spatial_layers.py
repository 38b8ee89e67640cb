"""Layers of images: their options, parameters and prints."""

import numpy as np
import pytest

import jitgrad
from jitgrad import nn


def test_convolution_layers_have_pytorchs_parameters_and_prints():
    layer = nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, bias=False)
    assert repr(layer) == (
        "Conv2d(4, 6, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), groups=2, bias=False)"
    )
    assert {n: tuple(p.shape) for n, p in layer.named_parameters()} == {"weight": (6, 2, 3, 2)}
    transposed = nn.ConvTranspose1d(4, 6, 3, groups=2)
    assert {n: tuple(p.shape) for n, p in transposed.named_parameters()} == {"weight": (4, 3, 3), "bias": (6,)}


def test_initial_weights_depend_on_the_windows_size():
    jitgrad.manual_seed(0)
    layer = nn.Conv1d(4, 64, 4)
    assert 0.24 < layer.weight.abs().max().item() <= 0.25 and layer.bias.abs().max().item() <= 0.25


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes_of_convolution(mode):
    layer = nn.Conv1d(1, 1, 3, padding=1, padding_mode=mode)
    x = jitgrad.arange(5.0).reshape(1, 1, 5)
    padded = nn.functional.pad(x, (1, 1), mode)
    wanted = nn.functional.conv1d(padded, layer.weight, layer.bias)
    assert np.array_equal(layer(x).detach().numpy(), wanted.detach().numpy())


def test_output_size_of_a_transposed_convolution():
    layer = nn.ConvTranspose1d(1, 1, 3, stride=2)
    x = jitgrad.ones(1, 1, 4)
    assert layer(x, output_size=[10]).shape == (1, 1, 10) and layer(x).shape == (1, 1, 9)
    with pytest.raises(ValueError, match="valid sizes range from"):
        layer(x, output_size=[12])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"groups": 3}, "in_channels must be divisible by groups"),
        ({"padding": "half"}, "Invalid padding string 'half'"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        ({"padding_mode": "mirror"}, "padding_mode must be one of"),
    ],
)
def test_options_that_do_not_fit(options, words):
    with pytest.raises(ValueError, match=words):
        nn.Conv2d(4, 6, 3, **options)


def test_pooling_there_and_back():
    pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    x = jitgrad.arange(16.0).reshape(1, 1, 4, 4)
    back = unpool(*pool(x))
    assert jitgrad.equal(back != 0, nn.Upsample(scale_factor=2)(pool(x)[0]) == x)
    assert repr(pool) == "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"


def test_layers_print_their_options():
    for layer in (
        nn.ReflectionPad2d(1), nn.ZeroPad1d((1, 2)), nn.ConstantPad3d(1, 2.5), nn.AvgPool1d(2), nn.LPPool2d(2, 3),
        nn.AdaptiveMaxPool2d((3, None)), nn.PixelShuffle(2), nn.Fold(4, 2), nn.LocalResponseNorm(2),
    ):  # fmt: skip
        assert repr(layer) == f"{type(layer).__name__}({layer.extra_repr()})"
    assert nn.Upsample(scale_factor=2).extra_repr() == "scale_factor=2.0, mode='nearest'"


def test_learning_of_a_small_network():
    jitgrad.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 2))
    x, y = jitgrad.randn(8, 1, 8, 8), jitgrad.arange(8) % 2
    optimizer, losses = jitgrad.optim.SGD(net.parameters(), lr=0.2), []
    for _ in range(30):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
