"""DataLoader: batches of a data set, in order or shuffled as PyTorch shuffles, read here or by worker processes."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from jitgrad.core.user_frame import user_level
from jitgrad.utils.data._utils.collate import default_collate, default_convert
from jitgrad.utils.data._utils.worker import get_worker_info
from jitgrad.utils.data.dataset import IterableDataset
from jitgrad.utils.data.iterator import _BaseDataLoaderIter, _DatasetKind, _SingleProcessDataLoaderIter
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from jitgrad.utils.data.worker_iterator import _MultiProcessingDataLoaderIter

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _InfiniteConstantSampler(Sampler[None]):
    """None for ever: data sets that are iterated over know no indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Iterates over a data set in batches.

    batch_size: samples a batch; None for single samples. shuffle: a new random order at each pass, from ``generator``
    or the global one. sampler, batch_sampler: an order of your own. collate_fn: makes a batch of a list of samples.
    drop_last: leave out a last batch that is not full.

    num_workers: processes that read batches, ``prefetch_factor`` in advance each (2); 0 reads in this one. They are
    made as ``multiprocessing_context`` says, a context or the name of a start method, call ``worker_init_fn`` with
    their number, and stay for the next pass if ``persistent_workers``. in_order: give batches out in the order of the
    sampler, else as they come. timeout: seconds to wait for a batch. Exceptions of a worker arrive here, with their
    class and traceback; RuntimeError if one was killed or takes too long. pin_memory changes nothing.
    """

    _multiprocessing_context: Any = None
    __initialized = False

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
        batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False, drop_last: bool = False, timeout: float = 0, worker_init_fn: Any = None,
        multiprocessing_context: Any = None, generator: Any = None, *, prefetch_factor: int | None = None,
        persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ):  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers = dataset, num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        iterable = isinstance(dataset, IterableDataset)  # it decides on the order of its samples itself
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        _check_options(iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            if iterable:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: Any = None
        self.check_worker_number_rationality()

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self) -> Any:
        if not (self.persistent_workers and self.num_workers > 0):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def multiprocessing_context(self) -> Any:
        """The context in which workers are started; None for Python's default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, given: Any) -> None:
        self._multiprocessing_context = _context(given, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        size = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)  # rounded up

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than cores that this process may use."""
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity else os.cpu_count()
        if not self.num_workers or (cores is not None and self.num_workers <= cores):
            return
        known = (
            f"Our suggested max number of worker in current system is {cores}"
            f"{'' if affinity else ' (`cpuset` is not taken into account)'}, which is smaller than what this "
            "DataLoader is going to create."
        )
        unknown = "DataLoader is not able to compute a suggested max number of worker in current system."
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. "
            f"{unknown if cores is None else known} Please be aware that excessive worker creation might get "
            "DataLoader running slow or even freeze, lower the worker number to avoid potential slowness/freeze if "
            "necessary.",
            stacklevel=user_level(),
        )


def _context(given: Any, num_workers: int) -> Any:
    """The multiprocessing context that an argument stands for."""
    if given is None:
        return None
    if num_workers <= 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(given, str):
        methods = multiprocessing.get_all_start_methods()
        if given not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={given}"
        )
    return given


def _check_workers(number: int, timeout: float, prefetch_factor: int | None, persistent: bool) -> None:
    """Refuse what PyTorch refuses."""
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
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and number == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


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
