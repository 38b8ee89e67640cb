"""Fetchers: what reads the samples of a batch from a data set, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.utils.data._utils.collate import default_collate
from jitgrad.utils.data.dataset import Subset, TensorDataset

__all__: list[str] = []


class _BaseDatasetFetcher:
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool):
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The sample, or the batch, of an index or list of them; StopIteration at the end."""
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter, self.ended = iter(dataset), False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples: list[Any] = []
        for _ in possibly_batched_index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(samples)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index: Any) -> Any:
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[possibly_batched_index])
        if self.collate_fn is default_collate and _gathers(dataset, possibly_batched_index):
            # One gather for each tensor takes the place of a view for each sample, and of stacking these.
            return list(dataset[list(possibly_batched_index)])
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([dataset[index] for index in possibly_batched_index])


def _gathers(dataset: Any, indices: Sequence[Any]) -> bool:
    """Whether rows can be gathered: a plain TensorDataset, or a part of one."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset and all(type(index) is int for index in indices)
