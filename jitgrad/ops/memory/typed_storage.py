"""Storages that know a dtype, which PyTorch keeps for old programs and files: ``storage()``, ``FloatStorage``."""

from __future__ import annotations

from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.registry import FUNCTIONS, method
from jitgrad.dispatch.strides import restrided
from jitgrad.ops.memory.storage import Storage, UntypedStorage, new_items, untyped_storage

__all__ = ["TypedStorage", "storage_dtype"]

_DEPRECATED = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)


class TypedStorage(Storage):
    """Memory as elements of a dtype: ``TypedStorage(4, dtype=...)``, or of a list, or of an untyped storage."""

    __module__ = "jitgrad.storage"
    _untyped_storage: UntypedStorage
    dtype: Any

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None,
                 _internal: bool = False):  # fmt: skip
        if len(args) > 1 or (args and wrap_storage is not None):
            raise RuntimeError(
                f"{type(self)}.__init__ received an invalid combination of arguments. Expected one of:\n * no "
                "arguments\n * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)"
            )
        self.dtype = dtype or dtypes.get_default_dtype()
        if wrap_storage is not None:
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            self._untyped_storage = wrap_storage
        elif args and not isinstance(args[0], int):
            self._untyped_storage = untyped_storage(new_items(args[0], self.dtype))
        else:
            self._untyped_storage = UntypedStorage((args[0] if args else 0) * self.dtype.itemsize, device=device)

    @property
    def _items(self) -> Tensor:
        """The elements, as a tensor on the memory."""
        memory, dtype = self._untyped_storage._items, self.dtype.numpy
        layout = intern(dtype, (memory.numel() // dtype.itemsize,), None, memory._layout.device)
        return wrap(restrided(memory._data, layout.shape, layout.strides, 0, dtype), layout)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super().__getitem__(index)

    def _with(self, untyped: UntypedStorage) -> TypedStorage:
        return self if untyped is self._untyped_storage else TypedStorage(wrap_storage=untyped, dtype=self.dtype)

    def clone(self) -> TypedStorage:
        """A copy in memory of its own."""
        return self._with(self._untyped_storage.clone())

    def cpu(self) -> TypedStorage:
        """The storage in this process's memory."""
        return self._with(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The storage on a CUDA device; AssertionError where there is none."""
        return self._with(self._untyped_storage.cuda(device))

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The same elements on another device."""
        return self._with(self._untyped_storage.to(device=device))

    def resize_(self, size: int) -> None:
        """Change the number of elements; the tensors on the memory keep what they have."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def type(self, dtype: Any = None) -> str:
        """The storage's name, as "torch.FloatStorage"."""
        return f"torch.{self.dtype.title}Storage"

    def pickle_storage_type(self) -> str:
        """The name that stands for the dtype in files."""
        return self._pickle_storage_type()

    def _pickle_storage_type(self) -> str:
        if self.dtype in _NEW:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return f"{self.dtype.title}Storage"

    @classmethod
    def from_buffer(cls, buffer: Any, *args: Any, dtype: Any = None, **options: Any) -> TypedStorage:
        """A storage with a copy of a buffer's elements; see ``UntypedStorage.from_buffer``."""
        options["dtype"] = dtype = dtype or dtypes.get_default_dtype()
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(buffer, *args, **options), dtype=dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """A storage on the memory of a mapped file of ``size`` elements of the default dtype."""
        dtype = getattr(cls, "dtype", None) or dtypes.get_default_dtype()
        return TypedStorage(wrap_storage=UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype=dtype)

    def __reduce__(self) -> Any:
        return _typed_on, (self._untyped_storage, self.dtype)

    def _title(self) -> str:
        return f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"


class _LegacyStorage(type(TypedStorage)):  # type: ignore[misc]
    """Metaclass of ``FloatStorage`` and its kin: names of dtypes that make a TypedStorage."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None, _internal: bool = False) -> TypedStorage:
        if len(args) > 1:
            raise RuntimeError(
                f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n * no arguments\n * "
                "(int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\nToo many positional arguments"
            )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)

    def from_buffer(cls, *args: Any, **options: Any) -> TypedStorage:
        """A storage with a copy of a buffer's elements; see ``UntypedStorage.from_buffer``."""
        return TypedStorage.from_buffer(*args, dtype=cls.dtype, **options)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _typed_on(untyped: UntypedStorage, dtype: dtypes.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def _typed_storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows all or a part of, as elements of its dtype."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self._layout.dtype)


def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor shows all or a part of, as elements of its dtype (deprecated in PyTorch)."""
    warn_once(_DEPRECATED)
    return _typed_storage(self)


def storage_type(self: Tensor) -> Any:
    """The class of its typed storage."""
    return TypedStorage


for _function in (storage, _typed_storage, storage_type):
    method(_function)
_NEW = (dtypes.uint16, dtypes.uint32, dtypes.uint64)  # dtypes that came after these classes
_DTYPES: dict[str, dtypes.dtype] = {f"{d.title}Storage": d for d in dtypes.all_dtypes() if d not in _NEW}
for _name, _dtype in _DTYPES.items():
    FUNCTIONS[_name] = _LegacyStorage(_name, (TypedStorage,), {
        "dtype": _dtype, "__doc__": f"Memory as {_dtype.name}.", "__module__": "jitgrad"})  # fmt: skip
FUNCTIONS["TypedStorage"] = TypedStorage


def _cast(name: str, dtype: dtypes.dtype) -> None:
    def convert(self: Storage) -> TypedStorage:
        return _typed_storage(self._items.to(dtype, copy=True))

    convert.__name__ = name
    convert.__doc__ = f"A copy of the elements as {dtype.name}."
    setattr(Storage, name, convert)


_CASTS = {**dtypes.ALIASES, "bool": "bool", "byte": "uint8", "char": "int8", "bfloat16": "bfloat16",
          "complex_float": "complex64", "complex_double": "complex128"}  # fmt: skip
for _name, _target in _CASTS.items():
    if _name not in ("cfloat", "cdouble"):
        _cast(_name, dtypes.by_name(_target))


def storage_dtype(name: str) -> dtypes.dtype:
    """The dtype of a legacy storage class, by its name; KeyError for another name."""
    return _DTYPES[name]
