"""The problems of `steps` as users of JAX write them: parameters as a pytree, one jitted function with donated buffers.

Each function takes the module jax and returns a `Loss`, from which `JAX_PROBLEMS` makes the same steps as `PROBLEMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .jax_layers import cross_entropy, layer_norm, lenet, transformer
from .problem import Problem, targets, uniform

__all__ = ["JAX_PROBLEMS"]


class Loss(NamedTuple):
    """A pure function of parameters and data; the pytree of parameters, and the data."""

    function: Callable[..., Any]
    parameters: Any
    data: tuple[Any, ...] = ()


def minimised(jax: Any, made: Loss, rule: Callable[..., Any]) -> Problem:
    """A step of an optimiser: ``rule`` makes (parameters, state) from both and the gradients."""
    loss, start, data = made

    def update(state: Any, *data: Any) -> Any:
        parameters, memory = state
        value, gradients = jax.value_and_grad(loss)(parameters, *data)
        return rule(jax, parameters, memory, gradients), value

    compiled = jax.jit(update, donate_argnums=0)
    zeros = [jax.tree_util.tree_map(jax.numpy.zeros_like, start) for _ in range(2)]
    state = start, (*zeros, jax.numpy.float32(0))

    def step() -> None:
        nonlocal state
        state, _ = compiled(state, *data)

    return Problem(step, lambda: [float(loss(state[0], *data))])


def adam(jax: Any, parameters: Any, memory: Any, gradients: Any, lr: float, weight_decay: float = 0.0) -> Any:
    """Adam, and AdamW with ``weight_decay``, written by hand."""
    each = jax.tree_util.tree_map
    mean, square, steps = memory
    steps = steps + 1.0
    mean = each(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
    square = each(lambda v, g: 0.999 * v + 0.001 * g * g, square, gradients)
    size, root = lr / (1 - 0.9**steps), (1 - 0.999**steps) ** 0.5
    kept = 1 - lr * weight_decay
    parameters = each(
        lambda p, m, v: kept * p - size * m / (jax.numpy.sqrt(v) / root + 1e-8), parameters, mean, square
    )  # fmt: skip
    return parameters, (mean, square, steps)


def sgd(jax: Any, parameters: Any, memory: Any, gradients: Any, lr: float, momentum: float) -> Any:
    """Gradient descent with momentum."""
    each = jax.tree_util.tree_map
    speed = each(lambda v, g: momentum * v + g, memory[0], gradients)
    return each(lambda p, v: p - lr * v, parameters, speed), (speed, *memory[1:])


def differentiated(jax: Any, made: Loss) -> Problem:
    """The value and all gradients."""
    compiled = jax.jit(jax.value_and_grad(made.function))

    def numbers() -> list[float]:
        value, gradients = compiled(made.parameters, *made.data)
        return [float(value), *(float(np.linalg.norm(np.asarray(g, np.float64))) for g in gradients)]

    return Problem(lambda: compiled(made.parameters, *made.data), numbers)


def _normal(jax: Any, *shape: int, seed: int = 0) -> Any:
    return jax.numpy.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _linears(jax: Any, *sizes: int) -> list[tuple[Any, Any]]:
    """Weight and bias of layers between so many features."""
    return [
        (jax.numpy.asarray(uniform(n, m, seed=2 * k)), jax.numpy.asarray(uniform(n, seed=2 * k + 1)))
        for k, (m, n) in enumerate(zip(sizes[:-1], sizes[1:], strict=True))
    ]


def rosenbrock(jax: Any) -> Loss:
    """Rosenbrock's function of ten variables."""
    return Loss(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), jax.numpy.zeros(10))


def perceptron(jax: Any, sizes: tuple[int, int, int], batch: int) -> Loss:
    """Two layers and cross entropy."""

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        (w1, b1), (w2, b2) = parameters
        return cross_entropy(jax, jax.nn.relu(x @ w1.T + b1) @ w2.T + b2, target)

    data = _normal(jax, batch, sizes[0]), jax.numpy.asarray(targets(sizes[-1], batch))
    return Loss(loss, _linears(jax, *sizes), data)


def deep_perceptron(jax: Any, depth: int = 12, width: int = 64) -> Loss:
    """Many narrow layers, each normalised, and cross entropy."""

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        hidden, norms, (w, b) = parameters
        for (weight, bias), norm in zip(hidden, norms, strict=True):
            x = jax.nn.gelu(layer_norm(jax, x @ weight.T + bias, *norm), approximate=False)
        return cross_entropy(jax, x @ w.T + b, target)

    *hidden, last = _linears(jax, *[width] * (depth + 1), 10)
    norms = [(jax.numpy.ones(width), jax.numpy.zeros(width)) for _ in hidden]
    return Loss(loss, (hidden, norms, last), (_normal(jax, 32, width), jax.numpy.asarray(targets(10, 32))))


def activations(jax: Any, size: int) -> Loss:
    """gelu(x) * sigmoid(y) + tanh(x), summed."""

    def loss(parameters: Any) -> Any:
        x, y = parameters
        return (jax.nn.gelu(x, approximate=False) * jax.nn.sigmoid(y) + jax.numpy.tanh(x)).sum()

    return Loss(loss, [_normal(jax, size, seed=k) for k in range(2)])


def rows(jax: Any) -> Loss:
    """log_softmax of layer_norm, rows of 512."""
    parameters = [_normal(jax, 4096, 512), jax.numpy.ones(512), jax.numpy.zeros(512)]
    return Loss(lambda p: jax.nn.log_softmax(layer_norm(jax, *p), 1).mean(), parameters)


def _adam(make: Callable[..., Loss], lr: float = 1e-3, **sizes: Any) -> Callable[[Any], Problem]:
    return lambda jax: minimised(jax, make(jax, **sizes), partial(adam, lr=lr))


JAX_PROBLEMS: dict[str, Callable[[Any], Problem]] = {
    "Rosenbrock of 10, Adam": _adam(rosenbrock, lr=0.01),
    "MLP 64-64-10, batch 1, Adam": _adam(perceptron, sizes=(64, 64, 10), batch=1),
    "MLP 64-128-10, batch 32, Adam": _adam(perceptron, sizes=(64, 128, 10), batch=32),
    "MLP 784-256-10, batch 64, Adam": _adam(perceptron, sizes=(784, 256, 10), batch=64),
    "gelu * sigmoid + tanh, 64k": lambda jax: differentiated(jax, activations(jax, 1 << 16)),
    "gelu * sigmoid + tanh, 4M": lambda jax: differentiated(jax, activations(jax, 1 << 22)),
    "layer_norm, log_softmax, 4096 x 512": lambda jax: differentiated(jax, rows(jax)),
    "12 x (Linear 64, LayerNorm, GELU), batch 32, Adam": _adam(deep_perceptron),
    "LeNet, batch 64, SGD": lambda jax: minimised(jax, Loss(*lenet(jax)), partial(sgd, lr=0.001, momentum=0.9)),
    "Transformer, 2 layers of 64, 16 x 64 letters, AdamW": lambda jax: minimised(
        jax, Loss(*transformer(jax)), partial(adam, lr=0.0001, weight_decay=0.01)
    ),
}
