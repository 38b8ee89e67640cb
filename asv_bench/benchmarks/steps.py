"""Whole steps of programs: forward, backward and, where there are parameters, an update.

Each function takes the engine (the module jitgrad or torch) and returns a callable of no arguments that does one step,
or a `Problem`, which has it. Values come from NumPy: all engines get the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .layer_steps import LAYER_PROBLEMS, LAYER_STEPS
from .problem import Problem, differentiated, minimised, targets, uniform
from .workloads import Work, chain, normal

__all__ = ["PROBLEMS", "STEPS", "TINY_STEPS"]

Make = Callable[[Any], Work]


def _started(engine: Any, model: Any) -> Any:
    """The model with parameters that are the same for every engine: those of ``Linear`` are `uniform`."""
    layers = [layer for layer in model if isinstance(layer, engine.nn.Linear)]
    with engine.no_grad():
        for seed, parameter in enumerate(p for layer in layers for p in (layer.weight, layer.bias)):
            parameter.copy_(engine.tensor(uniform(*parameter.shape, seed=seed)))
    return model


def _classified(engine: Any, layers: Sequence[Any], inputs: int, classes: int, batch: int) -> Problem:
    """A step of Adam for the cross entropy of a model of these layers."""
    model, criterion = _started(engine, engine.nn.Sequential(*layers)), engine.nn.CrossEntropyLoss()
    x, target = normal(engine, batch, inputs), engine.tensor(targets(classes, batch))
    return minimised(lambda: criterion(model(x), target), engine.optim.Adam(model.parameters()))


def rosenbrock(engine: Any) -> Problem:
    """Rosenbrock's function of ten variables, minimised by Adam."""
    x = engine.zeros(10, requires_grad=True)

    def loss() -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    return minimised(loss, engine.optim.Adam([x], lr=0.01))


def perceptron(engine: Any, sizes: tuple[int, int, int], batch: int) -> Problem:
    """Two layers with Adam."""
    nn, (inputs, hidden, classes) = engine.nn, sizes
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return _classified(engine, layers, inputs, classes, batch)


def deep_perceptron(engine: Any, depth: int = 12, width: int = 64) -> Problem:
    """Many narrow layers, each normalised, with Adam: some 160 launches of little work."""
    nn, layers = engine.nn, []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return _classified(engine, [*layers, nn.Linear(width, 10)], width, 10, 32)


def activations(engine: Any, size: int) -> Problem:
    """gelu(x) * sigmoid(y) + tanh(x), summed."""
    x, y = (normal(engine, size, seed=k, requires_grad=True) for k in range(2))
    gelu = engine.nn.functional.gelu
    return differentiated(lambda: (gelu(x) * engine.sigmoid(y) + engine.tanh(x)).sum(), [x, y])


def rows(engine: Any) -> Problem:
    """log_softmax of layer_norm, rows of 512."""
    x = normal(engine, 4096, 512, requires_grad=True)
    w, b = engine.ones(512, requires_grad=True), engine.zeros(512, requires_grad=True)
    layer_norm = engine.nn.functional.layer_norm
    return differentiated(lambda: engine.log_softmax(layer_norm(x, (512,), w, b), 1).mean(), [x, w, b])


def embedding(engine: Any) -> Work:
    """Rows of a table of 50 000 x 64 and the table's gradient."""
    table = normal(engine, 50_000, 64, requires_grad=True)
    index = engine.tensor(np.random.default_rng(1).integers(0, 50_000, 4096))

    def step() -> None:
        table.grad = None
        engine.nn.functional.embedding(index, table).sum().backward()

    return step


def recurrent(engine: Any, kind: str, width: int, layers: int, batch: int, steps: int, optimizer: str) -> Problem:
    """A step of an optimiser for recurrent layers, whose outputs are to be small."""
    model, x = getattr(engine.nn, kind)(width, width, layers), normal(engine, steps, batch, width)
    with engine.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            parameter.copy_(engine.tensor(uniform(*parameter.shape, seed=seed)))
    return minimised(lambda: (model(x)[0] ** 2).mean(), getattr(engine.optim, optimizer)(model.parameters(), lr=0.001))


# -- many ops of tiny tensors: what is left is the library's own cost ---------------------------------


def cheapest_path(engine: Any) -> Work:
    """Dynamic programming over the rows of a 32 x 32 grid: small slices, stack, min."""
    cost = normal(engine, 32, 32, requires_grad=True)

    def step() -> None:
        cost.grad = None
        row = cost[0]
        for k in range(1, 32):
            inner = engine.stack([row[:-2], row[1:-1], row[2:]]).min(0).values
            row = cost[k] + engine.cat([row[:1], inner, row[-1:]])
        row.min().backward()

    return step


def soft_dtw(engine: Any, n: int = 30) -> Work:
    """Soft dynamic time warping of two series, an element at a time."""
    x, y = (normal(engine, n, seed=k, requires_grad=True) for k in range(2))
    far = engine.tensor(1e6)

    def step() -> None:
        x.grad = y.grad = None
        distance = (x[:, None] - y[None, :]) ** 2
        above = [engine.tensor(0.0)] + [far] * n
        for i in range(n):
            row = [far]
            for j in range(n):
                least = -engine.logsumexp(engine.stack([-above[j], -above[j + 1], -row[j]]), 0)
                row.append(distance[i, j] + least)
            above = row
        above[n].backward()

    return step


def kalman(engine: Any, length: int = 300) -> Work:
    """The log-likelihood of a Kalman filter with two states and one observation."""
    noise = engine.tensor(0.1, requires_grad=True)
    transition = engine.tensor([[1.0, 0.1], [0.0, 1.0]])
    observe, unit = engine.tensor([[1.0, 0.0]]), engine.eye(2)
    series = [engine.tensor([[float(v)]]) for v in np.random.default_rng(0).standard_normal(length)]

    def step() -> None:
        noise.grad = None
        state, spread, total = engine.zeros(2, 1), engine.eye(2), engine.tensor(0.0)
        for value in series:
            state, spread = transition @ state, transition @ spread @ transition.t() + noise * unit
            miss = value - observe @ state
            variance = observe @ spread @ observe.t() + 1.0
            gain = spread @ observe.t() / variance
            state, spread = state + gain @ miss, (unit - gain @ observe) @ spread
            total = total + (miss * miss / variance + engine.log(variance)).sum()
        total.backward()

    return step


def runge_kutta(engine: Any, steps: int = 200) -> Work:
    """The Lorenz system by fourth-order Runge-Kutta steps, differentiated by its start."""
    start = engine.tensor([1.0, 1.0, 1.0], requires_grad=True)

    def slope(s: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return engine.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    def step() -> None:
        start.grad = None
        s, h = start, 0.005
        for _ in range(steps):
            a = slope(s)
            b = slope(s + h / 2 * a)
            c = slope(s + h / 2 * b)
            d = slope(s + h * c)
            s = s + h / 6 * (a + 2 * b + 2 * c + d)
        s.sum().backward()

    return step


PROBLEMS: dict[str, Callable[[Any], Problem]] = {
    "Rosenbrock of 10, Adam": rosenbrock,
    "MLP 64-64-10, batch 1, Adam": partial(perceptron, sizes=(64, 64, 10), batch=1),
    "MLP 64-128-10, batch 32, Adam": partial(perceptron, sizes=(64, 128, 10), batch=32),
    "MLP 784-256-10, batch 64, Adam": partial(perceptron, sizes=(784, 256, 10), batch=64),
    "gelu * sigmoid + tanh, 64k": partial(activations, size=1 << 16),
    "gelu * sigmoid + tanh, 4M": partial(activations, size=1 << 22),
    "layer_norm, log_softmax, 4096 x 512": rows,
    "12 x (Linear 64, LayerNorm, GELU), batch 32, Adam": deep_perceptron,
    **LAYER_PROBLEMS,
}
STEPS: dict[str, Make] = {
    "chain of 50, 16 elements": partial(chain, length=50),
    "chain of 50, 4096 elements": partial(chain, length=50, size=4096),
    **{name: lambda e, make=make: make(e).step for name, make in PROBLEMS.items()},  # type: ignore[misc]
    "embedding, 50000 x 64": embedding,
    **LAYER_STEPS,
    **{
        f"{kind} {width}, {layers} layers, batch {batch}, {steps} steps, {optimizer}": (
            lambda e, given=(kind, width, layers, batch, steps, optimizer): recurrent(e, *given).step  # type: ignore
        )
        for kind, width, layers, batch, steps, optimizer in (
            ("LSTM", 128, 2, 32, 35, "Adam"), ("LSTM", 16, 1, 4, 20, "SGD"), ("GRU", 128, 2, 32, 35, "Adam"),
        )
    },
}
TINY_STEPS: dict[str, Make] = {
    "cheapest path, rows of 32": cheapest_path,
    "soft-DTW, 30 x 30": soft_dtw,
    "Kalman filter, 300": kalman,
    "Runge-Kutta, 200": runge_kutta,
}
