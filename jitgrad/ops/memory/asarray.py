"""Tensors on memory that something else has: asarray, frombuffer."""

from __future__ import annotations

import warnings
from array import array
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import resolve
from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.parameter_types import mark_explaining
from jitgrad.dispatch.registry import public
from jitgrad.ops.creation.constants import as_dtype, finished
from jitgrad.ops.creation.from_data import as_tensor, from_numpy, writable
from jitgrad.ops.memory.dlpack import from_dlpack, is_capsule

__all__: list[str] = []

_READ_ONLY = (
    "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can write to "
    "the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the buffer to protect its "
    "data or make it writable before converting it to a tensor. This type of warning will be suppressed for the rest "
    "of this program."
)


_BUFFERS = (bytes, bytearray, memoryview, array)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """As `as_tensor`, and on the memory of a DLPack capsule, or of a buffer, read as ``dtype``; ``copy=True`` copies.

    ``copy=False``: ValueError where the memory can't be shared.
    """
    if is_capsule(obj):
        obj = from_dlpack(obj)
    if copy is False:
        _check_alias(obj, as_dtype("asarray", dtype), device)
    if isinstance(obj, _BUFFERS):
        chosen = as_dtype("asarray", dtype) or dtypes.get_default_dtype()
        shared = frombuffer(obj, dtype=chosen, requires_grad=requires_grad and not copy)
        return finished("asarray", shared.clone(), requires_grad) if copy else shared
    result = as_tensor(obj, dtype, device)
    result = result.detach() if isinstance(obj, Tensor) and not requires_grad and not obj._requires_grad else result
    return finished("asarray", result.clone() if copy else result, requires_grad)


def _check_alias(obj: Any, dtype: dtypes.dtype | None, device: Any) -> None:
    """ValueError (of NumPy's numbers RuntimeError) for memory that no tensor of this dtype and device can share."""
    if isinstance(obj, np.generic):
        raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
    if isinstance(obj, (Tensor, np.ndarray)):
        own = obj.dtype if isinstance(obj, Tensor) else dtypes.from_numpy_dtype(obj.dtype)
        here = obj._layout.device if isinstance(obj, Tensor) else "cpu"
        if device is not None and resolve(device) != here:
            raise ValueError(f"can't alias tensor from device '{here}' to '{resolve(device)}'.")
        if dtype is not None and dtype is not own:
            raise ValueError(
                f"can't alias tensor with dtype '{scalar_type(own)}' into dtype '{scalar_type(dtype)}'."
            )
    elif not isinstance(obj, _BUFFERS):
        raise ValueError("can't alias arbitrary sequence into a tensor.")


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor on the memory of an object that has Python's buffer interface.

    count: how many elements, by default all; offset: in bytes. ValueError for what does not fit.
    """
    try:
        memory = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    _check_part(memory.nbytes, dtype.itemsize, count, offset)
    array = np.frombuffer(memory, dtype.numpy, count, offset)
    if memory.readonly:
        warnings.warn(_READ_ONLY, UserWarning, stacklevel=2)
    return from_numpy(writable(array)).requires_grad_(requires_grad)


def _check_part(length: int, itemsize: int, count: int, offset: int) -> None:
    """ValueError unless a buffer of ``length`` bytes has ``count`` elements after ``offset`` bytes."""
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % itemsize:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({itemsize})"
        )
    if offset + count * itemsize > length:
        raise ValueError(
            f"requested buffer length ({count} * {itemsize} bytes) after offset ({offset} bytes) must not be greater "
            f"than actual buffer length ({length} bytes)"
        )


mark_explaining(asarray)  # every value has its own error
for _function in (asarray, frombuffer):
    public(_function, method_too=False)
