"""The memory that a tensor shows all or a part of, as PyTorch's storages: ``untyped_storage()``, ``storage()``.

A storage here is an object made when it is asked for, on the memory that the tensor's array was cut from. Two tensors
share memory if their storages have one address (``data_ptr()``), which is how programs compare them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device
from jitgrad.core.layout import layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.registry import FUNCTIONS, method, public
from jitgrad.dispatch.strides import Memory, owner_of, storage_of
from jitgrad.kernels.lazy_array import memory_of
from jitgrad.ops.creation import sharing

__all__ = ["TypedStorage", "UntypedStorage"]

_DEPRECATED = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)


class _Storage:
    """What both kinds have; ``_items``: a tensor of one dimension on the memory, of bytes or of a dtype."""

    _items: Tensor
    is_cuda = is_sparse = False

    def __init__(self, size: Any = 0):
        dtype = self._new_dtype().numpy
        array = np.zeros(size, dtype) if isinstance(size, int) else np.array(list(size), dtype)
        self._items = wrap(array, layout_of(array))

    def _new_dtype(self) -> dtypes.dtype:
        return dtypes.uint8

    @property
    def device(self) -> device:
        """Where the memory is."""
        return self._items.device

    def size(self) -> int:
        """The number of elements."""
        return self._items.numel()

    __len__ = size

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self._items.nbytes)

    def element_size(self) -> int:
        """Bytes an element."""
        return self._items.element_size()

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._items.data_ptr()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made = object.__new__(type(self))
            made._items = self._items[index]
            return made
        return self._items[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._items[index] = value

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
        """Take over the numbers of a storage of the same size."""
        self._items.copy_(source._items)
        return self

    def clone(self) -> Any:
        """A copy in memory of its own."""
        made = object.__new__(type(self))
        made._items = self._items.clone()
        return made

    def cpu(self) -> Any:
        """The storage itself, if it is on the CPU."""
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Storage) or type(self) is not type(other):
            return NotImplemented
        return self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    def __hash__(self) -> int:
        return hash((self.data_ptr(), self.nbytes()))

    def _title(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[{self._title()} of size {self.size()}]"


class UntypedStorage(_Storage):
    """Memory as bytes."""

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    @property
    def _cdata(self) -> int:
        return self.data_ptr()

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes; the tensors on the memory keep what they have."""
        old = self._items
        array = np.zeros(size, np.uint8)
        self._items = wrap(array, layout_of(array))
        count = min(size, old.numel())
        self._items[:count].copy_(old[:count])
        return self

    def _title(self) -> str:
        return f"torch.storage.UntypedStorage(device={self.device})"


class TypedStorage(_Storage):
    """Memory as elements of a dtype."""

    dtype_of_new: Any = None

    def _new_dtype(self) -> dtypes.dtype:
        return self.dtype_of_new or dtypes.get_default_dtype()

    @property
    def dtype(self) -> dtypes.dtype:
        """The dtype of the elements."""
        return self._items.dtype

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return untyped_storage(self._items)

    def type(self) -> str:
        """The storage's name, as "torch.FloatStorage"."""
        return f"torch.{self.dtype.title}Storage"

    def _title(self) -> str:
        return f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"


def _whole(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """All of the memory that a tensor shows a part of, as one dimension."""
    if x._layout.device != "cpu":
        raise NotImplementedError(f"storages of tensors on {x.device} are not in jitgrad")
    start, nbytes = storage_of(x)
    array: Any = np.empty(0, dtype)
    if nbytes:
        place = Memory(owner_of(memory_of(x._data)), start, (nbytes,), (1,), np.dtype(np.uint8))
        array = np.asarray(place).view(dtype)
    return wrap(array, layout_of(array))


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor shows all or a part of."""
    made = object.__new__(UntypedStorage)
    made._items = _whole(self, np.dtype(np.uint8))
    return made


def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows all or a part of, as elements of its dtype (deprecated in PyTorch)."""
    warnings.warn(_DEPRECATED, UserWarning, stacklevel=user_level())
    made = object.__new__(TypedStorage)
    made._items = _whole(self, self._layout.numpy_dtype)
    return made


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, _Storage)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in pinned memory, of which there is none without CUDA: RuntimeError, as PyTorch says it."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


for _function in (untyped_storage, storage, pin_memory):
    method(_function)
public(is_storage, method_too=False)
for _dtype in dtypes.all_dtypes():
    _name = f"{_dtype.title}Storage"
    _made = type(_name, (TypedStorage,), {"dtype_of_new": _dtype, "__doc__": f"Memory as {_dtype.name}."})
    FUNCTIONS[_name] = _made
FUNCTIONS.update(UntypedStorage=UntypedStorage, TypedStorage=TypedStorage)
