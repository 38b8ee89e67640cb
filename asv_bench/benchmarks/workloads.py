"""The work that is measured, written once for every engine that has PyTorch's names.

Each function takes the engine (the module jitgrad or torch) and returns a callable of no
arguments that does the work once. Values come from NumPy: both engines get the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "CALLS", "MLPS", "Work", "calls", "chain", "lattice", "mixture", "mlp_step", "normal", "pearlmutter", "wide",
]  # fmt: skip

Work = Callable[[], Any]


def normal(engine: Any, *shape: int, seed: int = 0, requires_grad: bool = False) -> Any:
    """A float32 tensor of normal values."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return engine.tensor(values, requires_grad=requires_grad)


# -- single calls on 16 elements: what is left is the library's own cost --------------------------


def _calls(engine: Any, x: Any, y: Any, row: Any, layer: Any) -> dict[str, Work]:
    return {
        "x * y": lambda: x * y,
        "x + 1.5": lambda: x + 1.5,
        "exp(x)": lambda: engine.exp(x),
        "x.reshape(4, 4)": lambda: x.reshape(4, 4),
        "x[2:9]": lambda: x[2:9],
        "x.sum()": lambda: x.sum(),
        "linear(row)": lambda: layer(row),
    }


CALLS = tuple(_calls(*[None] * 5))


def calls(engine: Any, recorded: bool) -> dict[str, Work]:
    """The calls by name, on operands that require grad if ``recorded``."""
    x, y = (normal(engine, 16, seed=k, requires_grad=recorded) for k in range(2))
    row = normal(engine, 1, 16, seed=2)
    return _calls(engine, x, y, row, engine.nn.Linear(16, 16).requires_grad_(recorded))


# -- graphs ---------------------------------------------------------------------------------------


def _gradient(engine: Any, build: Callable[[Any], Any], size: int) -> Work:
    """Forward and backward of ``build``, from one leaf of ``size`` ones."""
    x, g = engine.ones(size, requires_grad=True), engine.ones(size)

    def work() -> None:
        x.grad = None
        build(x).backward(g)

    return work


def chain(engine: Any, length: int, size: int = 16) -> Work:
    """``length`` multiplications, one after the other, by a leaf that wants its gradient too."""
    w = engine.ones(size, requires_grad=True)

    def build(x: Any) -> Any:
        w.grad = None
        for _ in range(length):
            x = x * w
        return x

    return _gradient(engine, build, size)


def pearlmutter(engine: Any, length: int) -> Work:
    """x = (x + x) / 2 again and again: 2 ** length paths through 2 * length nodes."""

    def build(x: Any) -> Any:
        for _ in range(length):
            x = (x + x) / 2.0
        return x

    return _gradient(engine, build, 1)


def wide(engine: Any, width: int) -> Work:
    """One leaf goes into ``width`` products, and all of them into one tensor."""

    def build(x: Any) -> Any:
        return engine.cat([x * 2.0 for _ in range(width)]).reshape(width, 16).sum(0)

    return _gradient(engine, build, 16)


def lattice(engine: Any, depth: int) -> Work:
    """Two strands that cross at each level: every node has two parents and two children."""

    def build(x: Any) -> Any:
        a, b = x * 1.0, x * 1.0
        for _ in range(depth):
            a, b = a + b, a - b
        return a + b

    return _gradient(engine, build, 16)


# -- training -------------------------------------------------------------------------------------


MLPS = {"64-128-10, batch 32": ((64, 128, 10), 32), "784-256-10, batch 64": ((784, 256, 10), 64)}


def mlp_step(engine: Any, name: str, **adam: Any) -> Work:
    """One step of a two-layer perceptron with Adam: forward, loss, backward, update."""
    engine.manual_seed(0)
    (inputs, hidden, classes), batch = MLPS[name]
    nn = engine.nn
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    optimizer = engine.optim.Adam(model.parameters(), lr=1e-3, **adam)
    criterion = nn.CrossEntropyLoss()
    x = normal(engine, batch, inputs)
    target = engine.tensor(np.random.default_rng(1).integers(0, classes, batch))

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x), target).backward()
        optimizer.step()

    return step


# -- thread pools ---------------------------------------------------------------------------------


def mixture(engine: Any) -> dict[str, Work]:
    """What a user's loop mixes: NumPy's product, the engine's, and an op that uses all threads."""
    a, b = (np.random.default_rng(k).standard_normal((256, 256)).astype(np.float32) for k in range(2))
    x, y, long = normal(engine, 256, 256), normal(engine, 256, 256, seed=1), normal(engine, 300_000)
    return {
        "np.matmul": lambda: np.matmul(a, b),
        "matmul": lambda: engine.matmul(x, y),
        "exp": lambda: engine.exp(long),
    }
