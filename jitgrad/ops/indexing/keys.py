"""What stands between the brackets of ``x[...]``: its items are classified, views made, index tensors left by dim."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import by_name
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.batch_rules import is_batch
from jitgrad.ops.creation.constants import zeros
from jitgrad.ops.creation.from_data import array_of, from_numpy
from jitgrad.ops.indexing.index_errors import warn_of_bytes
from jitgrad.ops.indexing.index_pattern import INDEX_DTYPES
from jitgrad.ops.shape.expand import Unsqueeze
from jitgrad.ops.shape.slicing import Select, Slice

__all__ = ["BATCHED_MASK", "apply_key"]

Indices = list[Tensor | None]


def _listed(key: Any) -> tuple[Any, ...]:
    """The key as a tuple; a list that holds slices, sequences or tensors means one, as in PyTorch."""
    if isinstance(key, tuple):
        return key
    # 32 was the most dims of a NumPy array when this rule was made: a longer list can only be an index.
    if not (isinstance(key, list) and len(key) < 32 and any(map(_structures, key))):
        return (key,)
    warnings.warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; "
        "use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
        "x[torch.tensor(seq)], which will result either in an error or a different result",
        UserWarning, stacklevel=user_level(),
    )  # fmt: skip
    return tuple(key)


def _structures(item: Any) -> bool:
    """Whether a list that holds this item means a tuple."""
    return isinstance(item, (Tensor, list, tuple, slice, np.ndarray)) or item is None or item is Ellipsis


def _index_tensor(item: Any) -> Tensor:
    """A list, range or array as an index: of bools a mask, of anything else int64."""
    if isinstance(item, np.ndarray):
        return from_numpy(np.asarray(item, order="C"))  # ascontiguousarray would give one without dims a dim
    array = array_of(item, None)
    if array.dtype not in (np.bool_, np.uint8, np.int64):
        array = array_of(item, by_name("int64"))
    return from_numpy(array)


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and item._layout.dtype.name in ("bool", "uint8")


def _prepared(key: Any) -> list[Any]:
    """Every item as an int, bool, slice, None, Ellipsis or tensor with dims (or a mask)."""
    items = []
    for item in _listed(key):
        if isinstance(item, (list, tuple, range, np.ndarray, str)):
            item = _index_tensor(item)
        if isinstance(item, (bool, np.bool_)):
            item = bool(item)
        elif isinstance(item, Tensor):
            item = _tensor_item(item)
        elif hasattr(type(item), "__index__"):
            item = operator.index(item)
        elif not (item is None or item is Ellipsis or isinstance(item, slice)):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                f"(got {type(item).__name__})"
            )
        items.append(item)
    return items


BATCHED_MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with "
    "a boolean mask."
)


def _tensor_item(item: Tensor) -> Any:
    """A tensor without dims as the int or bool that it holds; any other as it is.

    A wrapped int stays a tensor: a batch of them has no value that all samples share.
    """
    name = item._layout.dtype.name
    if name not in INDEX_DTYPES and (item._layout.ndim or item._layout.dtype.category != 1):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if item._layout.ndim:
        warn_of_bytes(item)
    if item._layout.ndim or (item._level is not None and name[:3] == "int"):
        return item
    if is_batch(item):  # each sample would have another shape
        raise RuntimeError(BATCHED_MASK)
    return bool(item.item()) if name in ("bool", "uint8") else int(item.item())


def _dims_taken(item: Any) -> int:
    """How many dims of the indexed tensor an item stands for."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item._layout.ndim if _is_mask(item) else 1


def apply_key(x: Tensor, key: Any, writing: bool = False) -> tuple[Tensor, Indices]:
    """Apply what makes views; return the result and the index tensors that are left, by dim.

    Ints select, slices slice, None inserts a dim, in this order, as ops of their own. A single slice is
    always applied, but for ``writing``; one among others only if it leaves something out.
    """
    items = _prepared(key)
    taken = sum(map(_dims_taken, items))
    if taken > x._layout.ndim:
        _refuse(x, items)
    result, dim, indices = x, 0, []  # type: Tensor, int, Indices
    for place, item in enumerate(items):
        if item is Ellipsis:
            dim += x._layout.ndim - taken if place == items.index(Ellipsis) else 0
        elif isinstance(item, bool) or item is None:
            result = Unsqueeze.apply(result, dim)
            if item is not None:
                _put(indices, dim, _bool_index(item))
            dim += 1
        elif isinstance(item, int):
            result = _select(result, dim, item, place)
        elif isinstance(item, slice):
            result = _slice(result, dim, item, always=len(items) == 1 and not writing)
            dim += 1
        else:
            _put(indices, dim, item)
            dim += item._layout.ndim if _is_mask(item) else 1
    return result, indices


def _refuse(x: Tensor, items: Sequence[Any]) -> None:
    """IndexError for a key that stands for more dims than there are."""
    if x._layout.ndim == 0 and len(items) == 1 and isinstance(items[0], int):
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
            "0-dim tensor to a number"
        )
    if x._layout.ndim == 0 and len(items) == 1 and isinstance(items[0], slice):
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim}")


def _put(indices: Indices, dim: int, index: Tensor) -> None:
    """Set the index of ``dim``; None stands for the dims before it that have none."""
    indices += [None] * (dim + 1 - len(indices))
    indices[dim] = index


def _bool_index(flag: bool) -> Tensor:
    """The index into a new dim of size 1 that a bool stands for: its element, or none."""
    return zeros(int(flag), dtype=by_name("int64"))


def _select(x: Tensor, dim: int, index: int, place: int) -> Tensor:
    n = x._layout.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {n}")
    return Select.apply(x, dim, index)


def _slice(x: Tensor, dim: int, item: slice, always: bool) -> Tensor:
    n = x._layout.shape[dim]
    step = 1 if item.step is None else int(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    start, end, _ = slice(item.start, item.stop, step).indices(n)
    if (start, end, step) == (0, n, 1) and not always:
        return x
    return Slice.apply(x, dim, start, max(end, start), step)
