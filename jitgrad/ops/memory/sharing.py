"""Tensors in memory that processes share: ``share_memory_()``, and what sends such a tensor to another process.

Memory is shared by moving it: the tensor, its base and the other views of that get arrays on new memory with the same
numbers. Memory that programs reach by other ways (arrays of NumPy's, ``detach()``) stays where it is. When a tensor
there is shared, too, it gets the same new memory, if nothing was written meanwhile. On Windows nothing is shared, and
processes are given copies.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import Layout
from jitgrad.core.shared_memory import SharedMemory, available
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.registry import method
from jitgrad.dispatch.strides import Memory, owner_of, storage_of
from jitgrad.kernels.lazy_array import memory_of, with_bits_of

__all__ = ["on_memory", "shared_empty", "shared_memory_of", "shared_place"]

# {id of an array that owned memory: (weak reference to it, the shared memory that its numbers have moved to)}, as long
# as tensors that were not moved keep it alive.
_moved: dict[int, tuple[Any, SharedMemory]] = {}


def shared_memory_of(array: Any) -> SharedMemory | None:
    """The shared memory that an array shows a part of, if it does."""
    owner = owner_of(array)
    return owner.base if isinstance(owner.base, SharedMemory) else None


def on_memory(memory: SharedMemory, layout: Layout, start: int = 0) -> Any:
    """The array of a layout, ``start`` bytes into shared memory."""
    dtype = layout.numpy_dtype
    if not layout.numel:
        return np.ndarray(layout.array_shape, dtype, memory.array())
    strides = [step * dtype.itemsize for step in layout.strides]
    return np.ndarray(layout.shape, dtype, memory.array(), start, strides)


def shared_empty(layout: Layout) -> Tensor:
    """A new tensor in shared memory where there is any, of zeros then."""
    if not available:
        return wrap(empty_for(layout), layout)
    return wrap(on_memory(SharedMemory(layout.numel * layout.numpy_dtype.itemsize), layout), layout)


def shared_place(x: Tensor) -> tuple[SharedMemory, int]:
    """(shared memory, where in it the tensor's first element is), after the tensor was moved there."""
    share_memory_(x)
    array = memory_of(x._data)
    memory = shared_memory_of(array)
    assert memory is not None
    return memory, array.__array_interface__["data"][0] - memory.address if array.size else 0


def _relatives(x: Tensor) -> Iterator[Tensor]:
    """A tensor, its base, and the views of that."""
    base = x if x._base is None else x._base
    yield base
    yield from [view for reference in base._views or () if (view := reference()) is not None]
    yield x  # perhaps again: a part of a tensor that was moved already is left alone


def _move(x: Tensor) -> None:
    """Put a tensor, and those that share its memory and are known, on shared memory."""
    start, nbytes = storage_of(x)
    owner = owner_of(memory_of(x._data))
    old = np.asarray(Memory(owner, start, (nbytes,), (1,), np.dtype(np.uint8))) if nbytes else np.empty(0, np.uint8)
    reference, memory = _moved.get(id(owner), (lambda: None, None))
    if memory is None or reference() is not owner or not np.array_equal(memory.array(), old):
        memory = SharedMemory(nbytes)
        memory.array()[:] = old
        key = id(owner)
        _moved[key] = weakref.ref(owner, lambda _: _moved.pop(key, None)), memory
    for relative in _relatives(x):
        array = memory_of(relative._data)
        if relative._level is None and isinstance(array, np.ndarray) and owner_of(array) is owner:
            place = array.__array_interface__["data"][0] - start if array.size else 0
            relative._data = with_bits_of(relative._data, on_memory(memory, relative._layout, place))


@method
def is_shared(self: Tensor) -> bool:
    """Whether other processes that have the tensor see writes to it: after ``share_memory_()``, and on CUDA."""
    if self._layout.device != "cpu":
        return True
    return shared_memory_of(memory_of(self._data)) is not None


@method
def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor to memory that processes share, and return it: those it is sent to see writes to it.

    Its base and the views of that are moved, too. RuntimeError where there is no memory. No effect on Windows.
    """
    if not is_shared(self) and available:
        if read_observers:
            announce_read("share_memory_()")
        _move(self)
    return self
