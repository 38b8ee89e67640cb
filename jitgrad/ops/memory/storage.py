"""The memory that a tensor shows all or a part of, as PyTorch's storages: ``untyped_storage()``.

A storage here is an object made when it is asked for, on the memory that the tensor's array was cut from. Two tensors
share memory if their storages have one address (``data_ptr()``), which is how programs compare them. Storages that
know a dtype are in typed_storage.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device as device_type
from jitgrad.core.device import resolve
from jitgrad.core.layout import intern, layout_of
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.registry import FUNCTIONS, method, public
from jitgrad.dispatch.strides import Memory, extent, owner_of, restrided, storage_of
from jitgrad.kernels.lazy_array import memory_of
from jitgrad.ops.memory import sharing
from jitgrad.ops.memory.mapped_file import file_of, mapped_bytes
from jitgrad.ops.memory.pickled import PickledArray

__all__ = ["Storage", "UntypedStorage", "is_storage", "new_items", "storage_of_bytes", "untyped_storage"]

_BYTE = np.dtype(np.uint8)


class Storage:
    """What both kinds have; ``_items``: a tensor of one dimension on the memory, of bytes or of a dtype."""

    _items: Tensor
    is_cuda = property(lambda self: self.device.type == "cuda", doc="Whether the memory is on a CUDA device.")
    is_sparse = is_hpu = False

    @property
    def device(self) -> Any:
        """Where the memory is."""
        return self._items.device

    @property
    def _cdata(self) -> int:
        return self._items.data_ptr() or id(self.untyped()._items._data)  # type: ignore[attr-defined]

    def size(self) -> int:
        """The number of elements."""
        return self._items.numel()

    __len__ = _size = size

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self._items.nbytes)

    _nbytes = nbytes

    def element_size(self) -> int:
        """Bytes an element."""
        return self._items.element_size()

    def get_device(self) -> int:
        """The index of the CUDA device, -1 on CPU."""
        return self._items.get_device()

    def data_ptr(self) -> int:
        """The address of the first element, 0 if there is none."""
        return self._items.data_ptr()

    _data_ptr = data_ptr

    def _checked(self, index: Any) -> Any:
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if isinstance(index, int) and not -self.size() <= index < self.size():
            raise IndexError(f"index {index} out of range for storage of size {self.size()}")
        return index

    def __getitem__(self, index: Any) -> Any:
        return self._items[self._checked(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._items[self._checked(index)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return list(self._items.tolist())

    def fill_(self, value: Any) -> Any:
        """Make every element ``value``."""
        self._items.fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Take over the numbers of a storage of as many bytes."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self.untyped()._items.copy_(source.untyped()._items)  # type: ignore[attr-defined]
        return self

    def is_shared(self) -> bool:
        """Whether other processes see writes to the memory."""
        return sharing.is_shared(self._items)

    def share_memory_(self) -> Any:
        """The storage itself. Only a tensor can be moved to shared memory, by its ``share_memory_()``."""
        return self

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is pinned for transfers: never here."""
        return False

    def resizable(self) -> bool:
        """Whether ``resize_`` can change the size."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Storage) or type(self) is not type(other):
            return NotImplemented
        return self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._cdata not in memo:
            memo[self._cdata] = self.clone()  # type: ignore[attr-defined]
            memo.setdefault(id(memo), []).append(self._items)  # keeps the key its own
        return memo[self._cdata]

    def __repr__(self) -> str:
        lines = "...\n" if self.device.type == "meta" else "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[{self._title()} of size {self.size()}]"

    def _title(self) -> str:
        return f"torch.storage.UntypedStorage(device={self.device})"


class UntypedStorage(Storage):
    """Memory as bytes: ``UntypedStorage(4)`` or ``UntypedStorage([1, 2])``."""

    __module__ = "jitgrad.storage"

    def __init__(self, size: Any = 0, *, device: Any = None):
        if isinstance(size, int):
            layout = intern(_BYTE, (size,), None, resolve("cpu" if device is None else device))
            self._items = wrap(np.zeros(size, _BYTE) if layout.device == "cpu" else empty_for(layout), layout)
        else:
            self._items = new_items(size, dtypes.uint8)

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    _untyped_storage = property(untyped)

    @property
    def filename(self) -> str | None:
        """The name of the file that writes reach, None where they stay in memory."""
        return None if self._items._layout.device != "cpu" else file_of(memory_of(self._items._data))

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return UntypedStorage(device=self.device)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _untyped_on(self._items[index])
        return super().__getitem__(index)

    def clone(self) -> UntypedStorage:
        """A copy in memory of its own."""
        return _untyped_on(self._items.clone())

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """The same bytes on another device; the storage itself if it is there."""
        wanted = resolve(device)
        if wanted == self._items._layout.device:
            return self
        if wanted != "cpu" and wanted.type == "meta":
            return UntypedStorage(self.nbytes(), device="meta")
        return _untyped_on(self._items.to(device))

    def cpu(self) -> UntypedStorage:
        """The storage in this process's memory."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """The storage on a CUDA device; AssertionError where there is none."""
        return self.to(device="cuda" if device is None else device_type(device))

    def type(self, dtype: Any = None) -> str:
        """The storage's name."""
        return "torch.storage.UntypedStorage" if self.device.type == "cpu" else f"torch.{self.device.type}.ByteStorage"

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes; the tensors on the memory keep what they have."""
        old = self._items
        self._items = UntypedStorage(size)._items
        count = min(size, old.numel())
        self._items[:count].copy_(old[:count])
        return self

    def byteswap(self, dtype: dtypes.dtype) -> None:
        """Reverse the bytes of each element of ``dtype``; of complex ones, of the real and imaginary part each."""
        item = dtype.itemsize // (2 if dtype.is_complex else 1)
        if self.nbytes() % item:
            raise RuntimeError(f"the length of data is not a multiple of {item}")
        if item > 1:
            rows = self._items.view(-1, item)
            rows.copy_(rows.flip(1))

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0,
                    dtype: Any = dtypes.uint8) -> UntypedStorage:  # fmt: skip
        """A storage with a copy of a buffer's elements of ``dtype``, whose bytes have this order."""
        if byte_order not in ("native", "little", "big", None):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        array = np.frombuffer(buffer, dtype.numpy, count, offset)
        made = storage_of_bytes(np.array(array).reshape(-1).view(np.uint8))
        if byte_order in ("little", "big") and byte_order != sys.byteorder:
            made.byteswap(dtype)
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """A storage on the memory of a mapped file; writes reach the file only if it is ``shared``."""
        return storage_of_bytes(mapped_bytes(os.fspath(filename), shared, nbytes))

    def __reduce__(self) -> Any:
        return _storage_of_pickle, (PickledArray(self.cpu()._items.numpy()),)


def new_items(values: Any, dtype: dtypes.dtype) -> Tensor:
    """A tensor of one dimension with these numbers."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise TypeError(f"new(): invalid data type '{type(values).__name__}'")
    array = np.array(list(values), dtype.numpy)
    return wrap(array, layout_of(array))


def _untyped_on(items: Tensor) -> UntypedStorage:
    """The storage whose bytes a tensor of them is."""
    made = object.__new__(UntypedStorage)
    made._items = items
    return made


def _storage_of_pickle(memory: PickledArray) -> UntypedStorage:
    """The storage of a pickle."""
    return storage_of_bytes(memory.array)


def storage_of_bytes(array: np.ndarray) -> UntypedStorage:
    """The storage on an array of bytes."""
    return _untyped_on(wrap(array, layout_of(array)))


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor shows all or a part of."""
    if self._layout.device != "cpu":
        return _on_device(self)
    start, nbytes = storage_of(self)
    array: Any = np.empty(0, _BYTE)
    if nbytes:
        array = np.asarray(Memory(owner_of(memory_of(self._data)), start, (nbytes,), (1,), _BYTE))
    return storage_of_bytes(array)


def _on_device(x: Tensor) -> UntypedStorage:
    """The memory of a tensor on a device: what its base shows, since a device's arrays know no owner."""
    owner = x if x._base is None else x._base
    nbytes = extent(owner._layout.shape, owner._layout.strides) * owner._layout.dtype.itemsize
    layout = intern(_BYTE, (nbytes,), None, owner._layout.device)
    return _untyped_on(wrap(restrided(memory_of(owner._data), layout.shape, layout.strides, 0, _BYTE), layout))


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, Storage)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in pinned memory, of which there is none without CUDA: RuntimeError, as PyTorch says it."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


for _function in (untyped_storage, pin_memory):
    method(_function)
public(is_storage, method_too=False)
FUNCTIONS["UntypedStorage"] = UntypedStorage
