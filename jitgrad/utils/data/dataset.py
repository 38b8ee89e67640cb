"""Data sets: what has a length and gives samples by number."""

from __future__ import annotations

import itertools
import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Base of data sets: subclasses define ``__getitem__(index)``, and ``__len__`` if they can.

    One that defines ``__getitems__(indices)``, which returns a list of samples, is asked for a batch at once.
    """

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Base of data sets that are only iterated over: subclasses define ``__iter__``.

    Each worker process iterates over a copy of its own, which ``get_worker_info()`` tells which part is its.
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset:
        return ChainDataset([self, other])


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            _check_iterable(dataset)
            yield from dataset

    def __len__(self) -> int:
        for dataset in self.datasets:
            _check_iterable(dataset)
        return sum(len(dataset) for dataset in self.datasets)


def _check_iterable(dataset: Any) -> None:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError("ChainDataset only supports IterableDataset")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of one length; sample k is the tuple of their rows k."""

    def __init__(self, *tensors: Tensor):
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Data sets of one length side by side: sample k is the tuple, or by keywords the dict, of their samples k."""

    def __init__(self, *args: Any, **kwargs: Any):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        self.datasets: Any = args or kwargs
        if not self.datasets:
            raise ValueError("At least one dataset should be passed")
        parts = list(kwargs.values()) or args
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple(part[index] for part in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Several samples; each part that can give several at once does."""
        if isinstance(self.datasets, dict):
            rows = self._rows(self.datasets.values(), indices)
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return self._rows(self.datasets, indices)

    def _rows(self, parts: Iterable[Any], indices: list[Any]) -> list[Any]:
        columns = [self._column(part, indices) for part in parts]
        return list(zip(*columns, strict=True))

    def _column(self, part: Any, indices: list[Any]) -> Any:
        if not callable(getattr(part, "__getitems__", None)):
            return [part[index] for index in indices]
        items = part.__getitems__(indices)
        if len(items) != len(indices):
            raise ValueError(
                f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}"
            )
        return items

    def __len__(self) -> int:
        return self._length


class Subset(Dataset[_T_co]):
    """The samples of a data set that ``indices`` lists.

    NotImplementedError for a subclass that defines ``__getitem__`` without ``__getitems__``, which loaders ask.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]):
        self.dataset, self.indices = dataset, indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__ to ensure DataLoader works correctly with your "
                "custom logic. A simple implementation:\n\ndef __getitems__(self, indices):\n    return "
                "[self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):  # several at once, for a data set that can gather
            return self.dataset[[self.indices[k] for k in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Several samples, at once if the data set can."""
        chosen = [self.indices[k] for k in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[_T_co]):
    """Data sets one after the other."""

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Where each data set ends."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @property
    def cummulative_sizes(self) -> list[int]:
        """``cumulative_sizes`` (deprecated spelling)."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=user_level()
        )
        return self.cumulative_sizes

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        place = bisect_right(self.cumulative_sizes, idx)
        return self.datasets[place][idx - (self.cumulative_sizes[place - 1] if place else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """Split at random into subsets of ``lengths``: numbers that sum to the data set's length, or
    fractions that sum to 1. ValueError otherwise."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _whole_lengths(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = jitgrad.randperm(len(dataset), generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[int(end - n) : int(end)]) for end, n in zip(ends, lengths, strict=True)]


def _whole_lengths(size: int, fractions: Sequence[float]) -> list[int]:
    for k, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {k} is not between 0 and 1")
    lengths = [math.floor(size * fraction) for fraction in fractions]
    for k in range(size - sum(lengths)):
        lengths[k % len(lengths)] += 1
    for k, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {k} is 0. This might result in an empty dataset.", stacklevel=user_level()
            )
    return lengths
