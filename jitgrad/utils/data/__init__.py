"""Data sets, and loaders that give them out in batches, under PyTorch's names.

``dataset.py`` has what holds samples, ``sampler.py`` the orders in which they are visited, ``dataloader.py`` joins
both and makes batches. Nothing here reads files. Read ``dataloader.py`` first.

All is read in the calling process: ``num_workers`` starts none, and warns. Random numbers are drawn in the
same order as by PyTorch, so the same seed gives the same batches.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.utils.data.dataloader import DataLoader, default_collate
from jitgrad.utils.data.dataset import ConcatDataset, Dataset, IterableDataset, random_split, Subset, TensorDataset
from jitgrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "default_collate",
    "random_split",
]

explain_missing_names(__name__)
