"""save and load: tensors, numbers, strings and containers of them, in a zip of .npy files and JSON.

Reading such a file runs no code. Objects of other classes are pickled beside it, and are read only
with ``weights_only=False``. Any zip tool and NumPy open a file without jitgrad.

``structure.json`` holds the value. Strings, numbers, bools and None stand for themselves; anything else is an object
whose first key says what it is: {"list": [...]}, {"dict": [[key, value], ...]}, {"tensor": "data/0.npy", ...}.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.creation.from_data import from_numpy

__all__ = ["load", "save"]

_STRUCTURE, _FORMAT = "structure.json", "jitgrad-1"
_UNSAFE = (
    "Weights only load failed. The file holds a pickled object of class {kind}, and to read that is to run code from "
    "the file. Load it with `weights_only=False` if you trust its source; better, save state_dict() instead of objects."
)


def save(obj: Any, f: Any) -> None:
    """Write ``obj`` to a path or a binary file.

    Tensors that share one array, as tied weights do, share it again after ``load``. Gradients and
    graphs are not kept.
    """
    writer = _Writer()
    structure = {"format": _FORMAT, "value": writer.encode(obj)}
    with zipfile.ZipFile(os.fspath(f) if isinstance(f, (str, os.PathLike)) else f, "w") as archive:
        for name, content in writer.files.items():
            archive.writestr(name, content)
        archive.writestr(_STRUCTURE, json.dumps(structure))


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool = True) -> Any:
    """Read what ``save`` wrote.

    map_location: a device for all tensors, or a function of (tensor, "cpu"). RuntimeError for a file
    of another format, pickle.UnpicklingError for pickled objects unless ``weights_only=False``.
    """
    try:
        archive = zipfile.ZipFile(os.fspath(f) if isinstance(f, (str, os.PathLike)) else f)
        structure = json.loads(archive.read(_STRUCTURE))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise RuntimeError(f"load: {f} was not written by jitgrad.save ({error})") from None
    if structure.get("format") != _FORMAT:
        raise RuntimeError(f"load: {f} has format {structure.get('format')!r}; this version reads {_FORMAT!r}")
    with archive:
        return _Reader(archive, map_location, weights_only).decode(structure["value"])


_PLAIN = (str, int, float, bool, type(None))
_CONTAINERS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "size": Size}
_MAPPINGS: dict[str, type] = {"dict": dict, "ordered": OrderedDict}


class _Writer:
    """Turns values into JSON, tensors and pickles into files beside it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.arrays: dict[int, str] = {}
        self.alive: list[Any] = []  # the arrays, held so that no other object gets the id of one

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:  # by exact type: a subclass of int or str is pickled, to come back as what it was
            return value
        for name, container in _CONTAINERS.items():
            if kind is container:
                return {name: [self.encode(v) for v in value]}
        if isinstance(value, dict) and (kind is dict or isinstance(value, OrderedDict)):
            items = [[self.encode(k), self.encode(v)] for k, v in value.items()]
            return {"dict" if kind is dict else "ordered": items}
        return self._encode_special(value)

    def _encode_special(self, value: Any) -> Any:
        if isinstance(value, Tensor) and type(value) in (Tensor, Parameter):
            return {"tensor": self._array(value), "grad": value.requires_grad, "parameter": type(value) is not Tensor}
        if isinstance(value, dtypes.dtype):
            return {"dtype": value.name}
        if isinstance(value, device):
            return {"device": str(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, slice):
            return {"slice": [self.encode(v) for v in (value.start, value.stop, value.step)]}
        return {"pickle": self._file("pickle", pickle.dumps(value)), "kind": type(value).__qualname__}

    def _array(self, tensor: Tensor) -> str:
        array = tensor.detach().cpu().numpy()
        key = id(tensor._data)
        if key not in self.arrays:
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            self.arrays[key] = self._file("npy", content.getvalue())
            self.alive.append(tensor._data)
        return self.arrays[key]

    def _file(self, suffix: str, content: bytes) -> str:
        name = f"data/{len(self.files)}.{suffix}"
        self.files[name] = content
        return name


class _Reader:
    """Turns what ``_Writer`` wrote into values. A file of tensor data is read once and shared by all that name it."""

    def __init__(self, archive: zipfile.ZipFile, map_location: Any, weights_only: bool):
        self.archive, self.map_location, self.weights_only = archive, map_location, weights_only
        self.tensors: dict[str, Tensor] = {}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for name, container in _CONTAINERS.items():
            if name in value:
                return container(self.decode(v) for v in value[name])
        for name, mapping in _MAPPINGS.items():
            if name in value:
                return mapping((self.decode(k), self.decode(v)) for k, v in value[name])
        name = next(iter(value))
        return _DECODERS[name](self, value)

    def tensor(self, value: dict[str, Any]) -> Tensor:
        name = value["tensor"]
        if name not in self.tensors:
            array = np.load(io.BytesIO(self.archive.read(name)), allow_pickle=False)
            self.tensors[name] = self._placed(from_numpy(array))
        result = self.tensors[name].detach()
        if value["parameter"]:
            return Parameter(result, requires_grad=value["grad"])
        return result.requires_grad_(value["grad"])

    def _placed(self, tensor: Tensor) -> Tensor:
        if callable(self.map_location):
            moved = self.map_location(tensor, "cpu")
            return tensor if moved is None else moved
        return tensor if self.map_location is None else tensor.to(self.map_location)

    def pickled(self, value: dict[str, Any]) -> Any:
        if self.weights_only:
            raise pickle.UnpicklingError(_UNSAFE.format(kind=value["kind"]))
        return pickle.loads(self.archive.read(value["pickle"]))


_DECODERS: dict[str, Callable[[_Reader, dict[str, Any]], Any]] = {
    "tensor": _Reader.tensor,
    "pickle": _Reader.pickled,
    "dtype": lambda reader, value: dtypes.by_name(value["dtype"]),
    "device": lambda reader, value: device(value["device"]),
    "complex": lambda reader, value: complex(*value["complex"]),
    "bytes": lambda reader, value: bytes.fromhex(value["bytes"]),
    "slice": lambda reader, value: slice(*[reader.decode(v) for v in value["slice"]]),
}
