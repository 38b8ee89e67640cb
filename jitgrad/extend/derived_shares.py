"""Functions over ``prange`` in threads: the shares of a program run at once, and their results and gradients joined."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.adjoint.entries import NUMBER, Derivation

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from jitgrad.kernels.adjoint.shares import Shares

__all__ = ["InShares", "in_shares"]

# {process: pool}: a forked child has none of its parent's threads.
_pools: dict[int, ThreadPoolExecutor] = {}


def in_shares(derivation: Derivation) -> InShares | None:
    """The derivation in shares; None where there are no independent rows, or one thread only."""
    if threads.get_num_threads() < 2 or not derivation.has_shares():
        return None
    from jitgrad.kernels.adjoint.shares import shares_of

    shares = shares_of(derivation.program)
    return InShares(derivation, shares) if shares is not None else None


class InShares:
    """A derivation's functions, each run by all threads on a share of the rows."""

    def __init__(self, derivation: Derivation, shares: Shares):
        self.shares, self.outputs = shares, derivation.program.outputs
        self.written = set(derivation.program.parameters)
        self.derivation = Derivation(shares.program, derivation.states)

    def plain(self, forms: tuple[str, ...], arguments: Sequence[Any]) -> list[Any]:
        """The results."""
        run = self.derivation.plain((*forms, NUMBER, NUMBER))
        return self._joined(self._each(lambda k, n: run(*arguments, k, n)))

    def saving(self, wanted: tuple[str, ...], forms: tuple[str, ...], arguments: Sequence[Any]) -> list[Any]:
        """The results, then what each share returned."""
        run = self.derivation.saving(wanted, (*forms, NUMBER, NUMBER))
        parts = self._each(lambda k, n: run(*arguments, k, n))
        return [*self._joined(parts), parts]

    def reversing(
        self, wanted: tuple[str, ...], forms: tuple[str, ...], *arguments: Any, parts: Sequence[Any],
        seeds: dict[str, Any],
    ) -> list[Any]:  # fmt: skip
        """The gradients, from what the shares of ``saving`` returned and a seed for each active output."""
        run = self.derivation.reversing(wanted, (*forms, NUMBER, NUMBER))
        count = len(self.outputs) + 2
        bounds = [part[count - 2 : count] for part in parts]

        def share(k: int, n: int) -> Any:
            own = [self._seed(name, seed, k, bounds) for name, seed in seeds.items()]
            return run(*arguments, k, n, *parts[k][count:], *own)

        found = self._each(share, len(parts))
        return [sum(gradients[1:], gradients[0]) for gradients in zip(*found, strict=True)]

    def _seed(self, name: str, seed: Any, k: int, bounds: Sequence[tuple[int, int]]) -> Any:
        """The part of an output's derivative that belongs to share k; the first has what belongs to no row."""
        if name in self.shares.first:
            return seed
        if name not in self.shares.rows:
            return seed if k == 0 else np.zeros_like(seed)
        if k == 0:
            own = seed.copy()
            for low, high in bounds[1:]:
                own[low:high] = 0.0
            return own
        own = np.zeros_like(seed)
        low, high = bounds[k]
        own[low:high] = seed[low:high]
        return own

    def _joined(self, parts: Sequence[Any]) -> list[Any]:
        """The results of all shares in one: arrays row by row, sums without what all began with."""
        count = len(self.outputs)
        # Users may write into results, and the gradients are computed from what the first share returned.
        results = [v.copy() if isinstance(v, np.ndarray) and n not in self.written else v
                   for n, v in zip(self.outputs, parts[0], strict=False)]  # fmt: skip
        for part in parts[1:]:
            low, high = part[count : count + 2]
            for k, name in enumerate(self.outputs):
                if name in self.shares.first:
                    results[k] += part[k] - self.shares.first[name]
                elif name in self.shares.rows and part[k] is not results[k]:
                    results[k][low:high] = part[k][low:high]
        return results

    def _each(self, share: Callable[[int, int], Any], count: int = 0) -> list[Any]:
        """``share(k, n)`` for each of n shares, at the same time."""
        count = count or threads.get_num_threads()
        pool = _pools.get(os.getpid())
        if pool is None:
            from concurrent.futures import ThreadPoolExecutor

            pool = _pools[os.getpid()] = ThreadPoolExecutor(thread_name_prefix="jitgrad-rows")
        waiting = [pool.submit(share, k, count) for k in range(1, count)]
        first = share(0, count)
        return [first, *(w.result() for w in waiting)]
