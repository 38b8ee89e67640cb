"""warmup: compile the common kernels now, so that later processes load them from disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tqdm import tqdm

import jitgrad
from jitgrad import nn, optim
from jitgrad.dispatch.registry import OPS
from jitgrad.kernels.compiler import statistics
from jitgrad.testing import op_samples

__all__ = ["warmup"]


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, jitgrad.Tensor):
            yield value


def _run_op(name: str, dtype: Any) -> None:
    """Run forward and backward on the op's samples; samples that the op refuses for this dtype are skipped."""
    for function, args, kwargs in op_samples(name, dtype):
        try:
            for x in _tensors([*args, *kwargs.values()]):
                x.requires_grad_(x.dtype.is_floating_point or x.dtype.is_complex)
            out = function(*args, **kwargs)
            roots = [o for o in _tensors([out]) if o.requires_grad]
            if roots:
                jitgrad.autograd.backward(roots, [jitgrad.ones_like(r) for r in roots])
        except (RuntimeError, TypeError, IndexError, NotImplementedError):
            continue


def _run_training(dtype: Any) -> None:
    """Training steps of a small network with every optimiser."""
    for kind in (optim.SGD, optim.Adam, optim.AdamW):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(dtype)
        optimizer = kind(model.parameters(), lr=1e-3)
        for _ in range(2):
            loss = nn.functional.cross_entropy(model(jitgrad.randn(6, 8, dtype=dtype)), jitgrad.arange(6) % 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def warmup(dtypes: Sequence[Any] | None = None, quiet: bool = False) -> int:
    """Compile the kernels of every op, forward and backward, and of training a small network.

    dtypes: float32 alone by default. Returns how many kernels were compiled; those on disk are not
    compiled again.
    """
    compiled = statistics.compiled
    with jitgrad.random.fork_rng(), jitgrad.enable_grad():  # a program that warms up draws the same numbers afterwards
        for dtype in dtypes or (jitgrad.float32,):
            _run_training(dtype)
            for name in tqdm(sorted(OPS), desc=f"warming up {dtype}", unit="op", disable=quiet):
                _run_op(name, dtype)
    return statistics.compiled - compiled
