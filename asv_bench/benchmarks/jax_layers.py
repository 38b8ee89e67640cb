"""The models of `layer_steps` as users of JAX write them: images with their channels last, layers as functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .problem import targets, uniform

__all__ = ["lenet", "transformer"]


def cross_entropy(jax: Any, logits: Any, target: Any) -> Any:
    """The mean over rows."""
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1).mean()


def layer_norm(jax: Any, x: Any, w: Any, b: Any) -> Any:
    """Of the last dim."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b


def _weights(jax: Any, *shapes: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """Weights as all engines start them, each with a bias of zeros."""
    numpy = jax.numpy
    return [(numpy.asarray(uniform(*s, seed=k)), numpy.zeros(s[0])) for k, s in enumerate(shapes)]


def _convolved(jax: Any, x: Any, layer: tuple[Any, Any], padding: str) -> Any:
    """relu of a convolution, then the largest of each 2 x 2."""
    weight, bias = layer
    names = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(jax.lax.conv_general_dilated(x, weight, (1, 1), padding, dimension_numbers=names) + bias)
    return jax.lax.reduce_window(x, -math.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def lenet(jax: Any, batch: int = 64) -> tuple[Any, Any, tuple[Any, ...]]:
    """(loss, parameters, data) of LeNet-5."""

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        first, second, *hidden, (w, b) = parameters
        x = _convolved(jax, _convolved(jax, x, first, "SAME"), second, "VALID").reshape(batch, -1)
        for weight, bias in hidden:
            x = jax.nn.relu(x @ weight.T + bias)
        return cross_entropy(jax, x @ w.T + b, target)

    parameters = _weights(jax, (6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84))
    for k in (0, 1):
        weight, bias = parameters[k]
        parameters[k] = weight.transpose(2, 3, 1, 0), bias
    weight, bias = parameters[2]  # its inputs are a picture's elements with the channels last, too
    parameters[2] = weight.reshape(-1, 16, 5, 5).transpose(0, 2, 3, 1).reshape(weight.shape), bias
    x = np.random.default_rng(0).standard_normal((batch, 1, 28, 28)).astype(np.float32).transpose(0, 2, 3, 1)
    return loss, parameters, (jax.numpy.asarray(x), jax.numpy.asarray(targets(10, batch)))


def _attended(jax: Any, x: Any, inside: tuple[Any, Any], outside: tuple[Any, Any], heads: int) -> Any:
    """Causal self-attention."""
    batch, length, width = x.shape
    joined = (x @ inside[0].T + inside[1]).reshape(batch, length, 3, heads, width // heads)
    q, k, v = (joined[:, :, n].swapaxes(1, 2) for n in range(3))
    scores = q @ k.swapaxes(2, 3) * (width // heads) ** -0.5
    past = jax.numpy.tril(jax.numpy.ones((length, length), bool))
    seen = jax.nn.softmax(jax.numpy.where(past, scores, -math.inf)) @ v
    return seen.swapaxes(1, 2).reshape(x.shape) @ outside[0].T + outside[1]


def transformer(
    jax: Any, width: int = 64, heads: int = 4, length: int = 64, batch: int = 16, letters: int = 64
) -> tuple[Any, Any, tuple[Any, ...]]:
    """(loss, parameters, data) of a character model of two layers."""

    def loss(parameters: Any, text: Any, following: Any) -> Any:
        layers, norm, table, (w, b) = parameters
        x = table[text]
        for (inside, outside, up, down), (before, between) in layers:
            x = x + _attended(jax, layer_norm(jax, x, *before), inside, outside, heads)
            grown = layer_norm(jax, x, *between) @ up[0].T + up[1]
            x = x + jax.nn.gelu(grown, approximate=False) @ down[0].T + down[1]
        return cross_entropy(jax, (layer_norm(jax, x, *norm) @ w.T + b).reshape(-1, letters), following.ravel())

    def norm() -> Any:
        return jax.numpy.ones(width), jax.numpy.zeros(width)

    layer = (3 * width, width), (width, width), (4 * width, width), (width, 4 * width)
    weights = _weights(jax, *layer, *layer, (letters, width), (letters, width))
    layers = [(weights[k : k + 4], (norm(), norm())) for k in (0, 4)]
    text = jax.numpy.asarray(targets(letters, batch * length).reshape(batch, length))
    return loss, (layers, norm(), weights[8][0], weights[9]), (text, text)
