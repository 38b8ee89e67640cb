"""Passes over a data set: what all iterators of loaders do, and the one that reads in the calling process."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core.user_frame import user_level
from jitgrad.profiler import recording
from jitgrad.utils.data._utils.fetch import _BaseDatasetFetcher, _IterableDatasetFetcher, _MapDatasetFetcher
from jitgrad.utils.data.sampler import fresh_seed

__all__: list[str] = []

_NO_ACCELERATOR = (
    "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."
)


class _DatasetKind:
    """How a data set is read: by index, or from its beginning to its end."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> _BaseDatasetFetcher:
        """What reads a batch of a data set of this kind."""
        made = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class _BaseDataLoaderIter:
    """One pass, or with persistent workers one after the other. Subclasses define ``_next_data``."""

    def __init__(self, loader: Any):
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._index_sampler, self._num_workers = loader._index_sampler, loader.num_workers
        self._timeout, self._collate_fn = loader.timeout, loader.collate_fn
        self._persistent_workers, self._num_yielded = loader.persistent_workers, 0
        if loader.pin_memory:
            _warn_of_pinning(loader.pin_memory_device)
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = fresh_seed(loader.generator)  # workers or none, as in PyTorch
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"

    def __iter__(self) -> Any:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter, self._num_yielded = iter(self._index_sampler), 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        if recording.is_on():
            record = recording.begin(self._profile_name, recording.USER)
            try:
                data = self._next_data()
            finally:
                recording.end(record)
        else:
            data = self._next_data()
        self._num_yielded += 1
        if self._IterableDataset_len_called is not None and self._num_yielded > self._IterableDataset_len_called:
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._IterableDataset_len_called}(when "
            f"accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


def _warn_of_pinning(device: str) -> None:
    """Batches stay where they are; CUDA copies from there, too."""
    from jitgrad import cuda

    if device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,ignore "
            f"pin_memory_device='{device}'.",
            stacklevel=user_level(),
        )
    if not cuda.is_available():
        warnings.warn(_NO_ACCELERATOR, stacklevel=user_level())


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads in the calling process."""

    def __init__(self, loader: Any):
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())
