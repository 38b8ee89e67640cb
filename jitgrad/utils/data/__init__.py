"""Data sets, and loaders that give them out in batches."""

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
