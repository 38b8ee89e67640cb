"""save and load: tensors, numbers, strings and containers of them, in a zip of .npy files and JSON.

Reading such a file runs no code. Objects of other classes are pickled beside it, and are read only
with ``weights_only=False``. Any zip tool and NumPy open a file without jitgrad.

``structure.json`` holds the value. Strings, numbers, bools and None stand for themselves; anything else is an object
one of whose keys says what it is: {"list": [...]}, {"dict": [[key, value], ...]}, {"tensor": "data/0.npy", ...}. Where
tensors show different parts of the same memory, a file has all of it and {"view": "data/0.npy", ...} the place of each.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.strides import owner_of
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.creation.from_data import from_numpy
from jitgrad.ops.shape.lazy_view import is_conj, is_neg, with_bits, without_bits

__all__ = ["load", "save"]

_STRUCTURE, _FORMAT = "structure.json", "jitgrad-1"
_UNSAFE = (
    "Weights only load failed. The file holds a pickled object of class {kind}, and to read that is to run code from "
    "the file. Load it with `weights_only=False` if you trust its source; better, save state_dict() instead of objects."
)


def save(obj: Any, f: Any) -> None:
    """Write ``obj`` to a path or a binary file.

    Tensors that share memory, as tied weights and views do, share it again after ``load``. Gradients and
    graphs are not kept.
    """
    if not (isinstance(f, (str, os.PathLike)) or hasattr(f, "write")):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    writer = _Writer()
    structure = {"format": _FORMAT, "value": writer.encode(obj)}
    writer.write_tensors()
    with zipfile.ZipFile(os.fspath(f) if isinstance(f, (str, os.PathLike)) else f, "w") as archive:
        for name, content in writer.files.items():
            archive.writestr(name, content)
        archive.writestr(_STRUCTURE, json.dumps(structure))


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool = True) -> Any:
    """Read what ``save`` wrote.

    map_location: a device for all tensors, or a function of (tensor, "cpu"). RuntimeError, with the file's name, for a
    damaged file and for one of another format; pickle.UnpicklingError for pickled objects unless
    ``weights_only=False``.
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return load(file, map_location, pickle_module, weights_only=weights_only)
    if not (hasattr(f, "read") and hasattr(f, "seek")):
        raise AttributeError(
            f"load: expected a path or a binary file that can be read and sought, but got {type(f).__name__}"
        )
    with _damage_named(f):
        structure, arrays, pickles = _contents(f)
    # Between the two blocks runs what the caller trusts or wrote, whose errors are its own.
    tensors = {name: _placed(from_numpy(array), map_location) for name, array in arrays.items()}
    objects = None if weights_only else {name: pickle.loads(content) for name, content in pickles.items()}
    with _damage_named(f):
        return _Reader(tensors, objects).decode(structure)


@contextlib.contextmanager
def _damage_named(f: Any) -> Iterator[None]:
    """Turn whatever reading a damaged file raises into one error; what is meant to be raised passes."""
    try:
        yield
    except (_WrongFormat, pickle.UnpicklingError) as error:
        raise type(error)(f"load: {getattr(f, 'name', f)}: {error}") from None
    except Exception as error:  # of zipfile, zlib, json, NumPy and of `_Reader`: some fifteen classes
        name, cause = getattr(f, "name", f), f"{type(error).__name__}: {error}"
        raise RuntimeError(f"load: {name} is damaged, or was not written by jitgrad.save ({cause})") from None


class _WrongFormat(RuntimeError):
    """The file is one of ours, but of another version."""


def _contents(f: Any) -> tuple[Any, dict[str, np.ndarray], dict[str, bytes]]:
    """The value in JSON, and by name the arrays and pickles of a file, all of it checked against its CRC-32."""
    with zipfile.ZipFile(f) as archive:
        structure = json.loads(archive.read(_STRUCTURE))
        if structure["format"] != _FORMAT:
            raise _WrongFormat(f"it has format {structure['format']!r}; this version reads {_FORMAT!r}")
        files = {name: archive.read(name) for name in archive.namelist()}
    arrays = {k: np.load(io.BytesIO(v), allow_pickle=False) for k, v in files.items() if k.endswith(".npy")}
    return structure["value"], arrays, {k: v for k, v in files.items() if k.endswith(".pickle")}


def _placed(tensor: Tensor, map_location: Any) -> Tensor:
    if callable(map_location):
        moved = map_location(tensor, "cpu")
        return tensor if moved is None else moved
    return tensor if map_location is None else tensor.to(map_location)


_PLAIN = (str, int, float, bool, type(None))
_CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "size": Size}
_MAPPINGS: dict[str, type] = {"dict": dict, "ordered": OrderedDict, "counter": Counter}


class _Writer:
    """Turns values into JSON, tensors and pickles into files beside it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        # By the array that owns the memory: it, and (entry in the JSON, array) of the tensors on it. Holding the owner
        # keeps other objects from getting its id.
        self.memory: dict[int, tuple[Any, list[tuple[dict[str, Any], np.ndarray]]]] = {}

    def encode(self, value: Any) -> Any:
        """The value in JSON; files of tensors are written, and named in it, by `write_tensors`."""
        kind = type(value)
        if kind in _PLAIN:  # by exact type: a subclass of int or str is pickled, to come back as what it was
            return value
        for name, container in _CONTAINERS.items():
            if kind is container:
                return {name: [self.encode(v) for v in value]}
        if kind in (dict, Counter) or isinstance(value, OrderedDict):
            name = "dict" if kind is dict else "counter" if kind is Counter else "ordered"
            items = {name: [[self.encode(k), self.encode(v)] for k, v in value.items()]}
            # A module's state_dict has the versions of its parts in an attribute.
            return items | {"attributes": self.encode(vars(value))} if getattr(value, "__dict__", None) else items
        return self._encode_special(value)

    def _encode_special(self, value: Any) -> Any:
        if isinstance(value, Tensor) and type(value) in (Tensor, Parameter):
            return self._tensor(value)
        if isinstance(value, dtypes.dtype):
            return {"dtype": value.name}
        if isinstance(value, device):
            return {"device": str(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if type(value) in (bytes, bytearray):
            return {type(value).__name__: value.hex()}
        if isinstance(value, slice):
            return {"slice": [self.encode(v) for v in (value.start, value.stop, value.step)]}
        return {"pickle": self._file("pickle", pickle.dumps(value)), "kind": type(value).__qualname__}

    def _tensor(self, tensor: Tensor) -> dict[str, Any]:
        memory, bits = without_bits(tensor), (is_conj(tensor), is_neg(tensor))
        entry: dict[str, Any] = {"grad": tensor.requires_grad}
        if tensor.dtype is dtypes.bfloat16:  # NumPy doesn't know it: its bits
            memory, entry["bfloat16"] = memory.detach().view(dtypes.int16), True
        array = memory.cpu().numpy()
        entry["parameter"] = type(tensor) is not Tensor
        if any(bits):
            entry["bits"] = bits
        owner = owner_of(array) if array is memory._data else memory._data
        self.memory.setdefault(id(owner), (owner, []))[1].append((entry, array))
        return entry

    def write_tensors(self) -> None:
        """One file for all tensors on the same memory, whole if they show different parts of it."""
        for owner, tensors in self.memory.values():
            first = tensors[0][1]
            if all(_place(array) == _place(first) for _, array in tensors):
                name = self._file("npy", _npy(first))
                for entry, _ in tensors:
                    entry["tensor"] = name
                continue
            flat, start = owner.ravel(order="K"), _place(owner)[0]  # in the order of memory
            name = self._file("npy", _npy(flat)) if np.shares_memory(flat, owner) else ""
            for entry, array in tensors:
                strides, size = [s // array.itemsize for s in array.strides], array.itemsize
                offset, rest = divmod(_place(array)[0] - start, size)
                if rest or not name:  # memory with gaps, or of another dtype: by itself
                    entry["tensor"] = self._file("npy", _npy(array))
                else:
                    dtype = dtypes.from_numpy_dtype(array.dtype).name
                    entry.update(view=name, dtype=dtype, shape=array.shape, strides=strides, offset=offset)

    def _file(self, suffix: str, content: bytes) -> str:
        name = f"data/{len(self.files)}.{suffix}"
        self.files[name] = content
        return name


def _place(array: np.ndarray) -> tuple[Any, ...]:
    """Which memory an array shows, and how."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    # Of bfloat16, which NumPy doesn't know, the bits; the entry says how to read them.
    np.save(content, array.view(np.uint16) if array.dtype.kind == "V" else array, allow_pickle=False)
    return content.getvalue()


class _Reader:
    """Turns what ``_Writer`` wrote into values.

    ``tensors`` and ``objects``: those of the files, by name; objects is None where pickles are not read.
    """

    def __init__(self, tensors: dict[str, Tensor], objects: dict[str, Any] | None):
        self.tensors, self.objects = tensors, objects

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for name, container in _CONTAINERS.items():
            if name in value:
                return container(self.decode(v) for v in value[name])
        for name, mapping in _MAPPINGS.items():
            if name in value:
                result = mapping({self.decode(k): self.decode(v) for k, v in value[name]})
                if "attributes" in value:
                    vars(result).update(self.decode(value["attributes"]))
                return result
        return next(decode for name, decode in _DECODERS.items() if name in value)(self, value)

    def tensor(self, value: dict[str, Any]) -> Tensor:
        return _leaf(self.tensors[value["tensor"]], value)

    def view(self, value: dict[str, Any]) -> Tensor:
        whole = self.tensors[value["view"]].view(dtypes.by_name(value["dtype"]))
        return _leaf(whole.as_strided(value["shape"], value["strides"], value["offset"]), value)

    def pickled(self, value: dict[str, Any]) -> Any:
        if self.objects is None:
            raise pickle.UnpicklingError(_UNSAFE.format(kind=value["kind"]))
        return self.objects[value["pickle"]]


def _leaf(tensor: Tensor, value: dict[str, Any]) -> Tensor:
    tensor = tensor.view(dtypes.bfloat16) if value.get("bfloat16") else tensor
    tensor = with_bits(tensor, *value.get("bits", (False, False)))
    if value["parameter"]:
        return Parameter(tensor, requires_grad=value["grad"])
    return tensor.requires_grad_(value["grad"])


_DECODERS: dict[str, Callable[[_Reader, dict[str, Any]], Any]] = {
    "tensor": _Reader.tensor,
    "view": _Reader.view,
    "pickle": _Reader.pickled,
    "dtype": lambda reader, value: dtypes.by_name(value["dtype"]),
    "device": lambda reader, value: device(value["device"]),
    "complex": lambda reader, value: complex(*value["complex"]),
    "bytes": lambda reader, value: bytes.fromhex(value["bytes"]),
    "bytearray": lambda reader, value: bytearray.fromhex(value["bytearray"]),
    "slice": lambda reader, value: slice(*[reader.decode(v) for v in value["slice"]]),
}
