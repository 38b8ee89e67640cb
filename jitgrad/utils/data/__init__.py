"""Data sets, and loaders that give them out in batches, under PyTorch's names.

``dataset.py`` has what holds samples, ``sampler.py`` and ``distributed.py`` the orders in which they are visited,
``dataloader.py`` joins both and makes batches: ``iterator.py`` in the calling process, ``worker_iterator.py`` in
processes that run ``_utils/worker.py``. Nothing here reads files. Read ``dataloader.py`` first.

Random numbers are drawn in the same order as by PyTorch, so the same seed gives the same batches, in workers too. Of
PyTorch's package the data pipes are missing, which PyTorch no longer develops.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.utils.data.dataloader import _DatasetKind, DataLoader, default_collate, default_convert, get_worker_info
from jitgrad.utils.data.dataset import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, random_split, StackDataset, Subset, TensorDataset,
)  # fmt: skip
from jitgrad.utils.data.distributed import DistributedSampler
from jitgrad.utils.data.sampler import (
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler,
)  # fmt: skip

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "_DatasetKind", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

explain_missing_names(__name__)
