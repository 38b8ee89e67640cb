"""The safetensors format: a header in JSON and the bytes of tensors behind it, without gaps; nothing that could run.

Eight bytes with the length of the header, the header {name: {"dtype", "shape", "data_offsets": [begin, end]}} and
texts under "__metadata__", filled up with spaces to a multiple of eight bytes, then the tensors, those of the widest
dtype first, so that each is aligned. Files are the same, byte for byte, as the library's that defines the format.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device as device_type
from jitgrad.core.layout import layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.ops.shape.lazy_view import is_conj, is_neg
from jitgrad.serialization.files import naming, replacing

__all__ = ["SafetensorError", "load", "load_file", "safe_open", "save", "save_file"]


class SafetensorError(Exception):
    """A file is not as the format wants it, or lacks what is asked for."""


_MOST_HEADER = 100_000_000
# In the order of the format, by which tensors are sorted; the bits of an element of those that are not in jitgrad.
_ORDER: dict[str, str | int] = {
    "BOOL": "bool", "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": "uint8", "I8": "int8", "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": "int16", "U16": "uint16", "F16": "float16",
    "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64",
    "I64": "int64", "U64": "uint64",
}  # fmt: skip
_RANK = {name: k for k, name in enumerate(_ORDER)}
_NAME_OF = {value: name for name, value in _ORDER.items() if isinstance(value, str)}

# -- writing ----------------------------------------------------------------------------------------


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The file with these tensors, as bytes.

    ValueError for tensors that are not contiguous, RuntimeError where they share memory.
    """
    return b"".join(bytes(part) for part in _parts(tensors, metadata))


def save_file(tensors: dict[str, Tensor], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write the file with these tensors; it replaces one that was there when all is written."""
    parts = _parts(tensors, metadata)
    with replacing(os.fspath(filename)) as file:
        for part in parts:
            file.write(part)


def _parts(tensors: Any, metadata: Any) -> list[Any]:
    """The header and the memory of each tensor, in order."""
    _check(tensors, metadata)
    entries = sorted(tensors.items(), key=lambda item: (-_RANK[_dtype_name(item[1])], item[0].encode()))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata is not None else {}
    parts: list[Any] = []
    end = 0
    for name, tensor in entries:
        begin, end = end, end + int(tensor.nbytes)
        header[name] = {"dtype": _dtype_name(tensor), "shape": list(tensor.shape), "data_offsets": [begin, end]}
        parts.append(_bytes_of(tensor))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]


def _dtype_name(tensor: Tensor) -> str:
    name = _NAME_OF.get(tensor.dtype.name)
    if name is None:
        raise KeyError(tensor.dtype)
    return name


def _bytes_of(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().reshape(-1)
    if is_conj(flat) or is_neg(flat):
        flat = flat.clone()
    if sys.byteorder == "big":
        bytes_ = flat.clone().untyped_storage()
        bytes_.byteswap(tensor.dtype)
        return bytes_._items.numpy().data
    return (flat.view(dtypes.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)).data


_SHARED = """
            Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: {}.
            A potential way to correctly save your model is to use `save_model`.
            More information at https://huggingface.co/docs/safetensors/torch_shared_tensors
            """  # noqa: E501
_STRIDED = (
    "You are trying to save a non contiguous tensor: `{}` which is not allowed. It either means you are trying to save "
    "tensors which are reference of each other in which case it's recommended to save only the full tensors, and "
    "reslice at load time, or simply call `.contiguous()` on your tensor to pack it before saving."
)


def _check(tensors: Any, metadata: Any) -> None:
    """The errors of what can't be written."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if not isinstance(name, str):
            raise TypeError(f"argument 'tensor_dict': '{type(name).__name__}' object is not an instance of 'str'")
    sparse = [name for name, tensor in tensors.items() if str(tensor.layout) != "torch.strided"]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support. You can make it "
            "a dense tensor before saving with `.to_dense()` but be aware this might make a much larger file than "
            "needed."
        )
    for tensor in tensors.values():
        if tensor.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    failing = [names for names in overlapping(tensors) if len(names) > 1]
    if failing:
        raise RuntimeError(_SHARED.format(failing))
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(_STRIDED.format(name))
    for part in (*(metadata or {}), *(metadata or {}).values()):
        if not isinstance(part, str):
            raise TypeError(f"argument 'metadata': '{type(part).__name__}' object is not an instance of 'str'")


def overlapping(tensors: dict[str, Tensor]) -> list[set[str]]:
    """The names of tensors on one storage, in sets of those whose memory overlaps."""
    storages: dict[Any, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        if storage.nbytes() and tensor.device.type != "meta":
            last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) * tensor.itemsize
            begin = tensor.data_ptr()
            place = (tensor.device, storage.data_ptr(), storage.nbytes())
            storages.setdefault(place, []).append((begin, begin + last + tensor.itemsize, name))
    groups: list[set[str]] = []
    for spans in storages.values():
        reach = -1
        for begin, end, name in sorted(spans):
            if begin < reach:
                groups[-1].add(name)
            else:
                groups.append({name})
            reach = max(reach, end)
    return groups


# -- reading ----------------------------------------------------------------------------------------


class _Header:
    """The header of a file: `entries`, {name: (dtype of jitgrad or None, its name, shape, begin, end)} in order.

    Begin and end count from the start of the file. SafetensorError for everything that the format does not allow.
    """

    def __init__(self, content: Any, what: str):
        self.what = what
        size = len(content)
        if size < 8:
            raise self._error("header too small")
        length = int.from_bytes(bytes(content[:8]), "little")
        if length > _MOST_HEADER:
            raise self._error("header too large")
        if length > size - 8:
            raise self._error("invalid header length")
        try:
            found = json.loads(bytes(content[8 : 8 + length]).decode())
        except UnicodeDecodeError as error:
            raise self._error(f"invalid UTF-8 in header: {error}") from None
        except (ValueError, RecursionError) as error:
            raise self._error(f"invalid JSON in header: {error}") from None
        if not isinstance(found, dict):
            raise self._error(f"invalid JSON in header: invalid type: {type(found).__name__}, expected a map")
        self.metadata = self._texts(found.pop("__metadata__", None))
        self.entries = self._placed(found, 8 + length, size)

    def _error(self, text: str) -> SafetensorError:
        return SafetensorError(f"Error while deserializing{self.what}: {text}")

    def _texts(self, metadata: Any) -> dict[str, str] | None:
        if metadata is not None and not (
            isinstance(metadata, dict) and all(isinstance(text, str) for text in metadata.values())
        ):
            raise self._error("invalid JSON in header: invalid type in __metadata__, expected a string")
        return metadata

    def _placed(self, found: dict[str, Any], start: int, size: int) -> dict[str, tuple[Any, ...]]:
        read = sorted(((*self._entry(name, entry), name) for name, entry in found.items()), key=lambda e: e[3:5])
        entries: dict[str, tuple[Any, ...]] = {}
        end_before = 0
        for dtype, dtype_name, shape, begin, end, name in read:
            if begin != end_before or end < begin:
                raise self._error(f"invalid offset for tensor `{name}`")
            bits = dtype.itemsize * 8 if dtype is not None else int(_ORDER[dtype_name])
            wanted = math.prod(shape) * bits
            if wanted >= 1 << 64:
                raise self._error("overflow computing buffer size from shape and/or element type")
            if wanted != (end - begin) * 8:
                raise self._error("invalid shape, data type, or offset for tensor")
            entries[name] = dtype, dtype_name, shape, start + begin, start + end
            end_before = end
        if start + end_before != size:
            raise self._error("incomplete metadata, file not fully covered")
        return entries

    def _entry(self, name: str, entry: Any) -> tuple[Any, ...]:
        """(dtype, its name, shape, begin, end) of a tensor."""
        if not isinstance(entry, dict):
            raise self._error(f"invalid JSON in header: invalid type for `{name}`, expected struct TensorInfo")
        for field in ("dtype", "shape", "data_offsets"):
            if field not in entry:
                raise self._error(f"invalid JSON in header: missing field `{field}`")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _ORDER:
            known = ", ".join(f"`{known}`" for known in _ORDER)
            raise self._error(f"invalid JSON in header: unknown variant `{dtype}`, expected one of {known}")
        if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
            raise self._error(f"invalid JSON in header: invalid shape or data_offsets of `{name}`")
        for number in (*shape, *offsets):
            if type(number) is not int or not 0 <= number < 1 << 64:
                raise self._error(f"invalid JSON in header: invalid value: {number!r}, expected usize")
        ours = _ORDER[dtype]
        return dtypes.by_name(ours) if isinstance(ours, str) else None, dtype, tuple(shape), *offsets


def _tensor_at(content: Any, entry: tuple[Any, ...], name: str) -> Tensor:
    """A tensor on the bytes of a file; a copy where they are not aligned."""
    dtype, dtype_name, shape, begin, end = entry
    if dtype is None:
        raise SafetensorError(f"tensor `{name}` has dtype {dtype_name}, which is not in jitgrad")
    count = (end - begin) // dtype.itemsize
    if begin % dtype.itemsize:
        memory = np.frombuffer(bytearray(content[begin:end]), np.uint8)
    else:
        memory = np.frombuffer(content, np.uint8, end - begin, begin) if count else np.empty(0, np.uint8)
    try:
        array = memory.view(dtype.numpy).reshape(shape)
    except ValueError as error:  # more dimensions, or larger ones of an empty tensor, than NumPy has
        raise SafetensorError(f"tensor `{name}` of shape {list(shape)} can't be made: {error}") from None
    tensor = wrap(array, layout_of(array))
    if sys.byteorder == "big":
        tensor = tensor.clone()
        tensor.untyped_storage().byteswap(dtype)
    if dtype.name == "bool" and count and bool((tensor.view(dtypes.uint8) > 1).any()):
        return tensor.view(dtypes.uint8).ne(0)  # kernels take it for granted that a bool is 0 or 1
    return tensor


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file's bytes."""
    header, content = _Header(data, ""), bytearray(data)
    return {name: _tensor_at(content, entry, name) for name, entry in sorted(header.entries.items())}


def load_file(filename: Any, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Tensor]:
    """The tensors of a file, which stay in the file until they are used."""
    with safe_open(filename, framework="pt", device=device, backend=backend) as file:
        return {name: file.get_tensor(name) for name in file.offset_keys()}


class safe_open:
    """A file whose tensors are read when they are asked for: a context, or an object.

    framework: "pt" for tensors, "np" or "numpy" for arrays.
    """

    def __init__(self, filename: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap"):
        if framework not in ("pt", "torch", "pytorch", "np", "numpy"):
            raise SafetensorError(f"framework {framework} is invalid")
        where = device_type(device)
        if where.type not in ("cpu", "cuda"):
            raise SafetensorError(f"device {device} is invalid")
        self._as_array, self._device = framework in ("np", "numpy"), where
        path = os.fspath(filename)
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size and backend == "mmap":
                    content: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
                else:
                    content = bytearray(file.read())
        except FileNotFoundError:
            raise FileNotFoundError(f"No such file or directory: {os.fsdecode(path)}") from None
        self._content: Any = content
        with naming(os.fsdecode(path)):
            self._header = _Header(content, " header")

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        self._content = None

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._opened().entries)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of the file."""
        return list(self._opened().entries)

    def metadata(self) -> dict[str, str] | None:
        """The texts of the file."""
        return self._opened().metadata

    def get_tensor(self, name: str) -> Any:
        """A tensor, by its name."""
        return self._finished(self._found(name))

    def get_tensors(self, names: list[str]) -> dict[str, Any]:
        """Several tensors, by name."""
        return {name: self.get_tensor(name) for name in names}

    def get_slice(self, name: str) -> _Slice:
        """What can be indexed to read a part of a tensor."""
        return _Slice(self, self._entry(name), self._found(name))

    def _opened(self) -> _Header:
        if self._content is None:
            raise SafetensorError("File is closed")
        return self._header

    def _entry(self, name: str) -> tuple[Any, ...]:
        entries = self._opened().entries
        if name not in entries:
            raise SafetensorError(f"File does not contain tensor {name}")
        return entries[name]

    def _found(self, name: str) -> Tensor:
        return _tensor_at(self._content, self._entry(name), name)

    def _finished(self, tensor: Tensor) -> Any:
        return tensor.numpy() if self._as_array else tensor.to(self._device)


class _Slice:
    """A tensor of a file, parts of which are read by indexing."""

    def __init__(self, file: safe_open, entry: tuple[Any, ...], whole: Tensor):
        self._file, self._entry, self._whole = file, entry, whole

    def get_shape(self) -> list[int]:
        """The sizes of the whole tensor."""
        return list(self._entry[2])

    def get_dtype(self) -> str:
        """The format's name of the dtype."""
        return self._entry[1]

    def __getitem__(self, index: Any) -> Any:
        return self._file._finished(self._whole[index])
