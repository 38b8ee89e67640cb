"""Memory of tensors: its bytes count for the op that allocates it, and negatively where it is freed.

New tensors are seen through ``core/tensor_observers.py``. Several tensors may share an array, so it is the array that
owns the memory that is counted, once, and freed memory is learnt of by a weak reference to it.
"""

from __future__ import annotations

import functools
import gc
import weakref
from typing import Any

import numpy as np

from jitgrad.core.tensor import Tensor
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.profiler import recording

__all__: list[str] = []

_live: dict[int, weakref.ref[Any]] = {}  # the arrays that own memory and have been counted, by id
# Ops whose result shares memory that something other than jitgrad allocated.
_FOREIGN = {"aten::from_numpy", "aten::frombuffer", "aten::from_dlpack", "aten::as_tensor", "aten::asarray"}


def _owner(array: Any) -> Any:
    """The array that owns the memory which ``array`` is a view of."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array


def _count(tensor: Any, charged: bool = True) -> None:
    """Count the memory of a new tensor, unless it is that of an older one. ``charged``: as allocated now."""
    array = _owner(tensor._data)
    key = id(array)
    if key in _live or not isinstance(array, np.ndarray) or not array.nbytes:
        return
    running = recording.current()
    if charged and running is not None and running.name in _FOREIGN:
        charged = False
    freed = functools.partial(_freed, key, array.nbytes if charged else 0)
    _live[key] = weakref.ref(array, freed)
    if charged:
        recording.charge(array.nbytes)


def _freed(key: int, nbytes: int, _: Any) -> None:
    if _live.pop(key, None) is not None and nbytes and recording.is_on():
        recording.charge(-nbytes)


def start() -> None:
    """Take note of the tensors that there are, so that views of them are not counted as new; then observe new ones."""
    for thing in gc.get_objects():
        # isinstance would run code of proxy objects, which may import modules or raise.
        if issubclass(type(thing), Tensor) and "_data" in thing.__dict__:
            _count(thing, charged=False)
    tensor_observers.append(_count)


def stop() -> None:
    """Stop observing."""
    if _count in tensor_observers:
        tensor_observers.remove(_count)
    _live.clear()


recording.add_instrument(lambda options: options.memory, start, stop)
