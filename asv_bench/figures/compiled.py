"""Steps of programs compiled, by everybody who compiles: ``jitgrad.compile``, ``torch.compile`` and ``jax.jit``.

All take denormal numbers for zero, as XLA does and the other two after ``set_flush_denormal(True)``. A step that is
timed a hundred thousand times has units that are never active any more; Adam's averages of their gradients shrink until
they are denormal, and stay so. What would be compared is how long the processor takes for such numbers, by those who
keep them with one who does not: 16 us of them in a step of 5 us.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from benchmarks.rounds import Times

from .contenders import Contender, Failure, turns_of_processes
from .speed import COUNTS
from .table import Figure

__all__ = ["COMPILED"]

OURS, EAGER, BEST = "jitgrad.compile", "jitgrad", "best peer"
PEERS = ("torch", "torch.compile", "jax.jit")
# Engine, and what the names of its works begin with.
CONTENDERS = {
    OURS: ("jitgrad", "compiled "), EAGER: ("jitgrad", ""), "torch": ("torch", ""),
    "torch.compile": ("torch", "compiled "), "jax.jit": ("jax", "jitted "),
}  # fmt: skip
# The ratio to the fastest peer that is wanted, with one thread or two.
WANTED = {
    "Rosenbrock of 10, Adam": 0.2,
    "MLP 64-64-10, batch 1, Adam": 0.25,
    "MLP 64-128-10, batch 32, Adam": 0.33,
    "MLP 784-256-10, batch 64, Adam": 0.75,
    "gelu * sigmoid + tanh, 4M": 0.25,
    "layer_norm, log_softmax, 4096 x 512": 0.6,
    "12 x (Linear 64, LayerNorm, GELU), batch 32, Adam": 0.3,
    "LeNet, batch 64, SGD": 0.9,
    "Transformer, 2 layers of 64, 16 x 64 letters, AdamW": 0.8,
}
# Of losses and norms that float32 rounds on different ways, after five steps.
TOLERANCE = 1e-4


def compiled() -> None:
    """Steps compiled: jitgrad, torch, JAX, and the same losses."""
    for count in COUNTS:
        figure = Figure(
            f"a step compiled, {count} against {count} threads, each in a process of its own",
            (*PEERS, EAGER), ours=OURS, ratios=(BEST,),
        )  # fmt: skip
        field = _Field(count)
        for name, wanted in WANTED.items():
            times = field.times(name, 4.0)
            peers = [t for t in map(times.get, PEERS) if isinstance(t, Times)]
            if peers:
                times[BEST] = min(peers, key=lambda t: t.fastest)
            figure.add(f"{name}; wanted {wanted:g}", times, limit=wanted)
        figure.show()
        print("\n".join(field.remarks))
        field.close()


class _Field:
    """The contenders with so many threads: those that are installed. ``remarks`` tell who computes something else."""

    def __init__(self, threads: int):
        self.threads, self.remarks = threads, list[str]()
        self.contenders = {name: self._contender(name) for name, (e, _) in CONTENDERS.items() if find_spec(e)}

    def _contender(self, name: str) -> Contender:
        engine, variant = CONTENDERS[name]
        return Contender(engine, threads=self.threads, variant=variant, flush=True)

    def times(self, name: str, seconds: float) -> dict[str, Times | str]:
        """What each needs for a step, or why there is no time."""
        times: dict[str, Times | str] = {c: "not installed" for c in CONTENDERS if c not in self.contenders}
        numbers: dict[str, list[float]] = {}
        for contender in list(self.contenders):
            try:
                numbers[contender] = self.contenders[contender].numbers(name)
            except Failure:
                times[contender] = "failed"
                self.contenders[contender].close()
                self.contenders[contender] = self._contender(contender)
        self._compare(name, numbers)
        able = {c: self.contenders[c] for c in numbers}
        return times | turns_of_processes(able, name, seconds)

    def _compare(self, name: str, numbers: dict[str, list[float]]) -> None:
        wanted = numbers[EAGER]
        others = [c for c, given in numbers.items() if not np.allclose(given, wanted, rtol=TOLERANCE, atol=1e-6)]
        for contender in others:
            self.remarks.append(f"{name}: after five steps {contender} has {numbers[contender]}, jitgrad {wanted}")

    def close(self) -> None:
        """End the processes."""
        for contender in self.contenders.values():
            contender.close()


COMPILED = {"compile": compiled}
