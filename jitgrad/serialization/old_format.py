"""The format that ``jitgrad.save`` wrote before it wrote PyTorch's: a zip of .npy files and JSON. It is only read.

``structure.json`` holds the value. Strings, numbers, bools and None stand for themselves; anything else is an object
one of whose keys says what it is: {"list": [...]}, {"dict": [[key, value], ...]}, {"tensor": "data/0.npy", ...}. Where
tensors show different parts of the same memory, a file has all of it and {"view": "data/0.npy", ...} the place of each.
Objects of other classes are pickled beside it, and are read only with ``weights_only=False``.
"""

from __future__ import annotations

import contextlib
import io
import json
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
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.creation.from_data import from_numpy
from jitgrad.ops.shape.lazy_view import with_bits
from jitgrad.serialization.zip_file import ZipReader

__all__ = ["is_old", "load"]

_STRUCTURE, _FORMAT = "structure.json", "jitgrad-1"
_UNSAFE = (
    "The file holds a pickled object of class {kind}, and to read that is to run code from "
    "the file. Load it with `weights_only=False` if you trust its source; better, save state_dict() instead of objects."
)


def is_old(reader: ZipReader) -> bool:
    """Whether a zip file is of this format."""
    return reader.has_record(_STRUCTURE) and not reader.has_record("data.pkl")


def load(f: Any, map_location: Any, weights_only: bool) -> Any:
    """Read what ``jitgrad.save`` wrote before it wrote PyTorch's format.

    map_location: a device for all tensors, or a function of (tensor, "cpu"). RuntimeError, with the file's name, for a
    damaged file and for one of another format; pickle.UnpicklingError for pickled objects if ``weights_only``.
    """
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


_CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "size": Size}
_MAPPINGS: dict[str, type] = {"dict": dict, "ordered": OrderedDict, "counter": Counter}


class _Reader:
    """Turns what stands in the JSON into values.

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
