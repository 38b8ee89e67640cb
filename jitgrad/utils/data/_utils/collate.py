"""Batches of samples: ``default_collate``, ``default_convert`` and ``collate``, to which a program adds types."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import jitgrad
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor
from jitgrad.ops.memory.sharing import shared_empty

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

_Map = dict[Any, Callable[..., Any]] | None
_UNKNOWN = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch of samples: tensors, arrays and numbers are stacked along a new first dim.

    Tuples, lists and dicts of these become one container of batches; strings stay a list. TypeError for other types,
    RuntimeError for lists of different lengths.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: _Map = None) -> Any:
    """Make a batch of samples, all of which are taken to be like the first.

    collate_fn_map: {type or tuple of types: function of the batch and of this map by name}, tried in its order for the
    first sample's class and then for its parents. Containers are taken apart; TypeError for what remains.
    """
    first = batch[0]
    kinds = collate_fn_map or {}
    if type(first) in kinds:
        return kinds[type(first)](batch, collate_fn_map=collate_fn_map)
    for kind, function in kinds.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)

    def part(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _like_mapping(first, {key: part([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(part(column) for column in zip(*batch, strict=False)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [part(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _like_sequence(first, columns)
    raise TypeError(_UNKNOWN.format(type(first)))


def _like_mapping(model: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the model's class with these items and, where it can be copied, with its other attributes."""
    try:
        if isinstance(model, MutableMapping):
            made = copy.copy(model)
            made.update(items)
            return made
        return type(model)(items)  # type: ignore[call-arg]
    except TypeError:  # a class that can't be copied, or made of a dict
        return items


def _like_sequence(model: Sequence[Any], items: Iterable[Any]) -> Any:
    """The same for sequences."""
    items = list(items)
    try:
        if isinstance(model, MutableSequence):
            made = copy.copy(model)
            for k, item in enumerate(items):
                made[k] = item
            return made
        return type(model)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """What a loader gives that makes no batches: arrays become tensors, in containers too; all else stays."""
    kind = type(data)
    if isinstance(data, Tensor) or isinstance(data, (str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and kind.__module__ == "numpy":
        return data if _no_numbers(data) and kind is np.ndarray else jitgrad.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        items = [default_convert(item) for item in data]
        return kind(*items) if hasattr(data, "_fields") else items
    return _like_sequence(data, map(default_convert, data)) if isinstance(data, Sequence) else data


def _no_numbers(array: Any) -> bool:
    """Whether an array has strings or objects."""
    return array.dtype.kind in "SUO"


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: _Map = None) -> Tensor:
    """Stack tensors along a new first dim, in a worker process in memory that its parent sees, too."""
    first = batch[0]
    if first.layout is not jitgrad.strided:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; please provide a custom "
            "collate_fn to handle them appropriately."
        )
    if jitgrad.utils.data.get_worker_info() is None:
        return jitgrad.stack(list(batch), 0)
    out = shared_empty(intern(first.dtype.numpy, (len(batch), *first.shape)))
    return jitgrad.stack(list(batch), 0, out=out)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: _Map = None) -> Any:
    """Stack arrays as tensors."""
    if _no_numbers(batch[0]):
        raise TypeError(_UNKNOWN.format(batch[0].dtype))
    return collate([jitgrad.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: _Map = None) -> Tensor:
    """A tensor of NumPy's numbers."""
    return jitgrad.as_tensor(batch)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: _Map = None) -> Tensor:
    """A tensor of Python's numbers, which keep their precision whatever the default dtype."""
    return jitgrad.tensor(batch, dtype=jitgrad.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: _Map = None) -> Tensor:
    """A tensor of Python's integers."""
    return jitgrad.tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: _Map = None) -> Any:
    """Strings as they are."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
