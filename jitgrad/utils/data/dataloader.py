"""DataLoader: batches of a data set, in order or shuffled as PyTorch shuffles."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.utils.data.dataset import IterableDataset, Subset, TensorDataset
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, fresh_seed

__all__ = ["DataLoader", "default_collate"]


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch of samples: tensors, arrays and numbers are stacked along a new first dim.

    Tuples, lists and dicts of these become one container of batches; strings stay a list. TypeError for other types,
    RuntimeError for lists of different lengths.
    """
    first = batch[0]  # all samples are taken to be like the first
    if isinstance(first, Tensor):
        return jitgrad.stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        return jitgrad.stack([jitgrad.as_tensor(b) for b in batch], 0)
    if isinstance(first, np.generic):
        return jitgrad.as_tensor(np.array(batch))
    if isinstance(first, float):  # Python's numbers keep their precision, whatever the default dtype
        return jitgrad.tensor(batch, dtype=jitgrad.float64)
    if isinstance(first, int):
        return jitgrad.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    return _collate_container(batch, first)


def _collate_container(batch: Sequence[Any], first: Any) -> Any:
    if isinstance(first, Mapping):
        return type(first)({key: default_collate([b[key] for b in batch]) for key in first})  # type: ignore[call-arg]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(column) for column in zip(*batch, strict=True)]
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


class DataLoader:
    """Iterates over a data set in batches.

    batch_size: samples a batch; None for single samples. shuffle: a new random order at each pass,
    from ``generator`` or the global one. sampler, batch_sampler: an order of your own. collate_fn:
    makes a batch of a list of samples. drop_last: leave out a last batch that is not full.

    Samples are read in this process: ``num_workers`` above 0 warns of that. It, ``pin_memory`` and the like
    change no batch, as in PyTorch.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
        batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0, worker_init_fn: Any = None,
        multiprocessing_context: Any = None, generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ):  # fmt: skip
        iterable = isinstance(dataset, IterableDataset)  # it decides on the order of its samples itself
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_options(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.drop_last = drop_last
        if sampler is None and not iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None and not iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.sampler, self.batch_sampler = batch_size, sampler, batch_sampler
        batched = batch_sampler is not None or (iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if batched else _as_is)

    def __iter__(self) -> Iterator[Any]:
        fresh_seed(self.generator)  # PyTorch draws a seed for its workers here, also without any
        if isinstance(self.dataset, IterableDataset):
            return self._iterate(iter(self.dataset))
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[k]) for k in self.sampler)
        return (self._batch(indices) for indices in self.batch_sampler)

    def _iterate(self, samples: Iterator[Any]) -> Iterator[Any]:
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        batch: list[Any] = []
        for sample in samples:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    def _batch(self, indices: Sequence[int]) -> Any:
        if self.collate_fn is default_collate and _is_tensors(self.dataset):
            # One gather for each tensor takes the place of a view for each sample, and of stacking these.
            return list(self.dataset[list(indices)])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(indices))
        return self.collate_fn([self.dataset[k] for k in indices])

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        size = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)  # rounded up


def _as_is(sample: Any) -> Any:
    """The ``collate_fn`` for single samples: arrays become tensors, everything else stays."""
    return jitgrad.as_tensor(sample) if isinstance(sample, np.ndarray) else sample


def _is_tensors(dataset: Any) -> bool:
    """Whether rows can be gathered: a plain TensorDataset, or a part of one."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is TensorDataset


def _check_workers(number: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    """Refuse what PyTorch refuses, and say that no workers are started where some are asked for."""
    if number < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if number == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if persistent and number == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if number:
        warnings.warn(
            f"DataLoader: num_workers={number} starts no worker process: samples are read in the calling process, in "
            "the same order. Use num_workers=0.",
            stacklevel=3,
        )


def _check_options(
    iterable: bool, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    unspecified = "DataLoader with IterableDataset: expected unspecified"
    if iterable:
        if shuffle:
            raise ValueError(f"{unspecified} shuffle option, but got shuffle={shuffle}")
        if sampler is not None:
            raise ValueError(f"{unspecified} sampler option, but got sampler={sampler}")
        if batch_sampler is not None:
            raise ValueError(f"{unspecified} batch_sampler option, but got batch_sampler={batch_sampler}")
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
