"""The part of a data set that one of several processes visits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jitgrad
from jitgrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[Any]):
    """Every ``num_replicas``-th index from ``rank`` on, of an order that is the same for all ranks.

    shuffle: an order drawn from ``seed`` and the epoch, which ``set_epoch`` sets. All ranks get equally many indices:
    the first ones again where some are lacking, or with ``drop_last`` none of the last. ``num_replicas`` and ``rank``
    have to be given: there is no ``torch.distributed`` to ask (RuntimeError).
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ):  # fmt: skip
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Any]:
        size = len(self.dataset)
        if self.shuffle:
            generator = jitgrad.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = jitgrad.randperm(size, generator=generator).tolist()
        else:
            indices = list(range(size))
        if not self.drop_last:
            indices *= math.ceil(self.total_size / max(size, 1))
        return iter(indices[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which order is drawn next."""
        self.epoch = epoch
