"""Figures of one process: calls, graphs, words, products, reductions, training steps."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.rounds import Times, in_turn, optional, take_single_turns, take_turns, threads
from benchmarks.transforms import TRANSFORMS, transform
from benchmarks.workloads import CALLS, MLPS, calls, chain, lattice, mixture, normal, pearlmutter, wide

import jitgrad

from .contenders import Contender, engines_apart, turns_of_processes
from .table import Figure

__all__ = ["SPEED"]

Works = dict[str, Callable[[], Any]]
COUNTS = (1, 2)


def engines() -> dict[str, Any]:
    """jitgrad, and torch where it is installed."""
    torch = optional("torch")
    return {"jitgrad": jitgrad} | ({"torch": torch} if torch else {})


def for_engines(make: Callable[[Any], Callable[[], Any]]) -> Works:
    """The same work for every engine."""
    return {name: make(engine) for name, engine in engines().items()}


def call() -> None:
    """Small ops, recorded and not."""
    for recorded in (True, False):
        figure = Figure(
            f"a call on 16 elements, {'recorded' if recorded else 'not recorded'}", limit=1.0 if recorded else None
        )
        for name in CALLS:
            times = take_turns(for_engines(lambda e: calls(e, recorded)[name]))  # noqa: B023
            figure.add(name, times, limited=name == "x * y")
        figure.show()


def graphs() -> None:
    """Small graphs, forward and backward."""
    rows = {
        "chain of 50 multiplications": (chain, 50, 50),
        "pearlmutter, 1 000": (pearlmutter, 1_000, 2_000),
        "wide, 2 000": (wide, 2_000, 2_000),
        "lattice, 500 deep": (lattice, 500, 1_000),
        "chain of 10 000": (chain, 10_000, 10_000),
    }
    figure = Figure("forward and backward, per op of 16 elements", limit=1.0)
    for label, (make, size, ops) in rows.items():
        times = take_turns(for_engines(lambda e: make(e, size)), 3.0)  # noqa: B023
        figure.add(label, times, 1 / ops, limited=size == 50)
    figure.show()


def deep() -> None:
    """A chain of a million products, built, run backward and freed."""
    figure = Figure("chain of 1 000 000, per op of 16 elements", limit=1.0)
    chain(jitgrad, 50)()  # compiles
    works = for_engines(lambda e: chain(e, 1_000_000))
    figure.add("as it is", take_single_turns(works), 1e-6)
    gc.disable()
    try:  # Python's collector visits living objects again and again as they become more
        figure.add("collector off", take_single_turns(works), 1e-6)
    finally:
        gc.enable()
    figure.show()


def fan() -> None:
    """One leaf goes into a hundred thousand products, and all of them into one tensor."""
    figure = Figure("per product of 16 elements", limit=1.0)
    wide(jitgrad, 50)()  # compiles
    figure.add("wide, 100 000", take_single_turns(for_engines(lambda e: wide(e, 100_000)), 7), 1e-5)
    figure.show()


def diamonds() -> None:
    """Lattices of depth 500: 2 ** 500 paths."""
    figure = Figure("forward and backward, per op of 16 elements (pearlmutter: 1)", limit=1.0)
    for label, make in {"lattice, 500 deep": lattice, "pearlmutter, 500 deep": pearlmutter}.items():
        figure.add(label, take_turns(for_engines(lambda e: make(e, 500)), 6.0), 1 / 1_000)  # noqa: B023
    figure.show()


def given_array(op: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    """The kernel of ``op`` alone, writing into the same array again and again."""
    with jitgrad.debug.tape() as tape:
        op(x)
    (entry,) = tape
    return lambda: entry.kernel.call(*entry.args)


def word(name: str, size: int = 1_000_000) -> Works:
    """One word on ``size`` float32, by everybody who has it."""
    x = jitgrad.tensor(np.random.default_rng(0).uniform(0.1, 3.0, size).astype(np.float32))
    torch, special = optional("torch"), optional("scipy.special")
    function, array = getattr(jitgrad, name), x.numpy()
    works = {"jitgrad": lambda: function(x), "kernel": given_array(function, x)}
    if torch:
        theirs, y = getattr(torch, name), torch.from_numpy(array)
        works["torch"] = lambda: theirs(y)
    numpy_or_scipy = getattr(np, name, None) or getattr(special, {"sigmoid": "expit"}.get(name, name), None)
    if numpy_or_scipy:
        works["numpy"] = lambda: numpy_or_scipy(array)
    return works


def words() -> None:
    """Words on a million float32; NumPy's (SciPy's: sigmoid, erf) run on one thread at any count."""
    for count in COUNTS:
        figure = Figure(
            f"words on 1M float32, {count} against {count} threads; 'kernel' writes into a given array",
            peers=("torch", "numpy"), limit=1.0, unit="ms",
        )  # fmt: skip
        alone = Figure(f"the kernel alone, into a given array, {count} threads", ("torch", "numpy"), unit="ms")
        with threads(count):
            for name in ("exp", "log", "tanh", "sigmoid", "erf", "sin"):
                times = take_turns(word(name), 3.0)
                figure.add(name, times)
                alone.add(name, {**times, "jitgrad": times["kernel"]})
        figure.show()
        alone.show()


def pools() -> None:
    """NumPy's matmul, the engine's and a parallel op in turn, against the sum of the three alone."""
    for name, engine in engines().items():
        works = mixture(engine)
        times = take_turns({**works, "in turn": in_turn(works)}, 5.0)
        alone = Times(*(sum(getattr(times[w], k) for w in works) for k in ("fastest", "median")))
        limit = 1.3 if engine is jitgrad else None
        figure = Figure(f"{name}: np.matmul 256, matmul 256, exp of 300 000", ["alone, summed"], limit, ours="in turn")
        figure.add(name, {"in turn": times["in turn"], "alone, summed": alone})
        figure.show()


PRODUCTS = {
    "32x64 @ 64x128": ((32, 64), (64, 128)),
    "64x784 @ 784x256": ((64, 784), (784, 256)),
    "256x256 @ 256x256": ((256, 256), (256, 256)),
    "1024x1024 @ 1024x1024": ((1024, 1024), (1024, 1024)),
    "48 x (64x32 @ 32x64)": ((48, 64, 32), (48, 32, 64)),
    "16x32x64 @ 64x64": ((16, 32, 64), (64, 64)),
}


def product(shapes: Any, backward: bool) -> Works:
    """A matmul, forward alone or with both gradients."""

    def make(engine: Any) -> Callable[[], Any]:
        x, y = (normal(engine, *s, seed=k, requires_grad=backward) for k, s in enumerate(shapes))
        g = engine.ones_like(x @ y)
        if backward:
            return lambda: engine.autograd.grad(x @ y, (x, y), g)
        return lambda: x @ y

    works = for_engines(make)
    if not backward:
        a, b = (normal(jitgrad, *s, seed=k).numpy() for k, s in enumerate(shapes))
        works["numpy"] = lambda: a @ b
    return works


def matmul() -> None:
    """Products, forward, and forward with backward."""
    for count in COUNTS:
        with threads(count):
            for backward in (False, True):
                kind = "forward and backward" if backward else "forward"
                figure = Figure(f"matmul, {kind}, {count} threads", ("torch",) if backward else ("torch", "numpy"))
                for label, shapes in PRODUCTS.items():
                    figure.add(label, take_turns(product(shapes, backward), 1.0))
                figure.show()


REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum of all": lambda e, x: x.sum(),
    "sum, last dim": lambda e, x: x.sum(-1),
    "sum, first dim": lambda e, x: x.sum(0),
    "mean, last dim": lambda e, x: x.mean(-1),
    "max of all": lambda e, x: x.max(),
    "max, last dim": lambda e, x: x.max(-1),
    "argmax, last dim": lambda e, x: x.argmax(-1),
    "var, last dim": lambda e, x: x.var(-1),
    "logsumexp, last dim": lambda e, x: x.logsumexp(-1),
    "softmax, last dim": lambda e, x: x.softmax(-1),
    "log_softmax, last dim": lambda e, x: x.log_softmax(-1),
    "softmax, first dim": lambda e, x: x.softmax(0),
}


def reduce() -> None:
    """Reductions of 1024 x 1024 float32."""
    for count in COUNTS:
        figure = Figure(f"reductions of 1024 x 1024 float32, {count} threads")
        with threads(count):
            for label, function in REDUCTIONS.items():
                works = {name: _bound(function, engine) for name, engine in engines().items()}
                figure.add(label, take_turns(works))
        figure.show()


def _bound(function: Callable[[Any, Any], Any], engine: Any) -> Callable[[], Any]:
    x = normal(engine, 1024, 1024)
    return lambda: function(engine, x)


NORMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "LayerNorm, 2048 x 256": (lambda nn: nn.LayerNorm(256), (2048, 256)),
    "LayerNorm, 4 x 16": (lambda nn: nn.LayerNorm(16), (4, 16)),
    "BatchNorm1d, 256 x 512": (lambda nn: nn.BatchNorm1d(512), (256, 512)),
    "BatchNorm2d, 32 x 64 x 28 x 28": (lambda nn: nn.BatchNorm2d(64), (32, 64, 28, 28)),
    "GroupNorm(8), 32 x 64 x 28 x 28": (lambda nn: nn.GroupNorm(8, 64), (32, 64, 28, 28)),
}


def norms() -> None:
    """Normalisation layers, forward and backward."""
    figure = Figure("normalisation, forward and backward, 1 thread")
    for label, (make, shape) in NORMS.items():

        def step(engine: Any, make: Any = make, shape: Any = shape) -> Callable[[], Any]:
            layer, x = make(engine.nn), normal(engine, *shape).requires_grad_()
            return lambda: layer(x).sum().backward()

        with threads(1):
            figure.add(label, take_turns(for_engines(step)))
    figure.show()


def train() -> None:
    """A training step of a perceptron with Adam, against torch's Adam and its fused one."""
    figure = Figure("MLP step: forward, cross entropy, backward, Adam", ("torch", "torch fused"))
    contenders = engines_apart()
    if "torch" in contenders:
        contenders["torch fused"] = Contender("torch", variant="fused ")
    for name in MLPS:
        figure.add(name, turns_of_processes(contenders, f"train, {name}", 8.0))
    figure.show()
    for contender in contenders.values():
        contender.close()


def transforms() -> None:
    """Gradients per sample, Jacobians, Hessians: functions of functions."""
    figure = Figure("a call of the transformed function")
    for name in TRANSFORMS:
        figure.add(name, take_turns(for_engines(lambda e: transform(e, name))))  # noqa: B023
    figure.show()


SPEED = {
    "call": call, "chain": graphs, "deep": deep, "fan": fan, "lattice": diamonds, "words": words, "threads": pools,
    "matmul": matmul, "reduce": reduce, "norm": norms, "train": train, "func": transforms,
}  # fmt: skip
