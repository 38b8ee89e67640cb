"""Memory of tensors: charged to the op that allocates it, and given back where it is freed."""

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

_live: dict[int, weakref.ref[Any]] = {}  # arrays that own memory, by id
_FOREIGN = {"aten::from_numpy", "aten::frombuffer", "aten::from_dlpack", "aten::as_tensor", "aten::asarray"}


def _owner(array: Any) -> Any:
    """The array whose memory this one shows."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array


def _note(tensor: Any, charged: bool = True) -> None:
    """A tensor is new, and perhaps its memory."""
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
    """Learn what is there already, then watch what is made."""
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor) and "_data" in thing.__dict__:  # isinstance would ask proxies
            _note(thing, charged=False)
    tensor_observers.append(_note)


def stop() -> None:
    """Watch no more."""
    if _note in tensor_observers:
        tensor_observers.remove(_note)
    _live.clear()


recording.add_taker(lambda options: options.memory, start, stop)
