"""Functions of functions that are measured, written once for every engine with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .workloads import normal

__all__ = ["TRANSFORMS", "transform"]

Work = Callable[[], Any]


def _network(engine: Any) -> tuple[Any, Any, Any, Any]:
    """(loss of parameters and a batch, parameters, inputs, targets) of a perceptron 64-128-10."""
    f = engine.nn.functional
    parameters = {"w": normal(engine, 128, 64) * 0.1, "v": normal(engine, 10, 128, seed=1) * 0.1}
    targets = engine.tensor(np.random.default_rng(1).integers(0, 10, 32))

    def loss(p: Any, x: Any, y: Any) -> Any:
        return f.cross_entropy(f.linear(f.linear(x, p["w"]).tanh(), p["v"]), y)

    return loss, parameters, normal(engine, 32, 64, seed=2), targets


def _gradient(engine: Any) -> Work:
    loss, parameters, x, y = _network(engine)
    return lambda: engine.func.grad(loss)(parameters, x, y)


def _per_sample(engine: Any) -> Work:
    loss, parameters, x, y = _network(engine)
    one = engine.func.grad(lambda p, a, t: loss(p, a[None], t[None]))
    mapped = engine.func.vmap(one, in_dims=(None, 0, 0))
    return lambda: mapped(parameters, x, y)


def _on_vector(make: Callable[[Any, Any], Callable[[Any], Any]]) -> Callable[[Any], Work]:
    def prepared(engine: Any) -> Work:
        matrix, x = normal(engine, 16, 16) * 0.1, normal(engine, 16, seed=1)
        function = make(engine, matrix)
        return lambda: function(x)

    return prepared


def _along(engine: Any, transform: Callable[[Any], tuple[Any, Any]], x: Any) -> Any:
    return engine.func.jvp(transform, (x,), (x,))


TRANSFORMS: dict[str, Callable[[Any], Work]] = {
    "grad, 64-128-10, batch 32": _gradient,
    "per-sample gradients of the same": _per_sample,
    "jacrev, 16 to 16": _on_vector(lambda m, a: m.func.jacrev(lambda x: (a @ x).tanh() * x)),
    "jacfwd, 16 to 16": _on_vector(lambda m, a: m.func.jacfwd(lambda x: (a @ x).tanh() * x)),
    "hessian, 16": _on_vector(lambda m, a: m.func.hessian(lambda x: (a @ x).tanh().square().sum())),
    "jvp, 16": _on_vector(lambda m, a: lambda x: _along(m, lambda v: (a @ v).tanh().square().sum(), x)),
    "hvp, 16": _on_vector(lambda m, a: lambda x: _along(m, m.func.grad(lambda v: (a @ v).tanh().square().sum()), x)),
    "vmap of sin, 32 x 64": lambda m: (lambda f, x: lambda: f(x))(m.func.vmap(m.sin), normal(m, 32, 64)),
}


def transform(engine: Any, name: str) -> Work:
    """The work of this name."""
    return TRANSFORMS[name](engine)
