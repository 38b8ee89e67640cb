"""The formats that PyTorch wrote before 1.6: a row of pickles and then the storages; before 0.2, a tar file of those.

The row: a magic number, a version, the sizes of C's types, the value, the keys of the storages in the order in which
their numbers follow, each after its count. So a tensor is made before its numbers are read, on memory that is filled
later. A claim of more memory than the file has bytes left is refused.
"""

from __future__ import annotations

import difflib
import inspect
import os
import pickle
import struct
import sys
import tarfile
import warnings
from typing import Any

import numpy as np

from jitgrad.core.tensor import typename
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.ops.memory.pickled import saving
from jitgrad.ops.memory.storage import UntypedStorage, storage_of_bytes
from jitgrad.ops.memory.typed_storage import TypedStorage
from jitgrad.serialization import unpickler
from jitgrad.serialization.allow_list import brief
from jitgrad.serialization.files import fill
from jitgrad.serialization.locations import restoring
from jitgrad.serialization.pickle_claims import check_claims
from jitgrad.serialization.pickler import pickled, placing
from jitgrad.serialization.torch_pickles import UNSAFE, cleaned, reading, storage_place

__all__ = ["MAGIC_NUMBER", "PROTOCOL_VERSION", "SourceChangeWarning", "load", "save"]

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


class SourceChangeWarning(Warning):
    """The source of a class is not what it was when a file was written."""


# -- writing ----------------------------------------------------------------------------------------


def save(obj: Any, file: Any, pickle_module: Any, protocol: int) -> None:
    """Write the row."""
    kept: dict[str, UntypedStorage] = {}
    dtypes_of: dict[str, Any] = {}
    place_storage = placing(lambda number, storage: f"{storage._cdata}{number:06d}", kept, dtypes_of.setdefault)
    seen: set[type] = set()

    def place(item: Any) -> Any:
        if isinstance(item, type) and issubclass(item, _module_class()):
            if item in seen:
                return None
            seen.add(item)
            return "module", item, *_source(item)
        found = place_storage(item)
        return None if found is None else (*found, None)

    sizes = {name: struct.Struct(f"={code}").size for name, code in (("short", "h"), ("int", "i"), ("long", "l"))}
    about = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for value in (MAGIC_NUMBER, PROTOCOL_VERSION, about):
        file.write(pickle.dumps(value, protocol))
    file.write(pickled(obj, place, pickle_module, protocol))
    file.write(pickle.dumps(sorted(kept), protocol))
    for key in sorted(kept):
        storage = kept[key].cpu()
        file.write(struct.pack("<q", storage.nbytes() // dtypes_of[key].itemsize))
        file.write(np.ascontiguousarray(storage._items.numpy()).data)


def _module_class() -> type:
    from jitgrad.nn import Module

    return Module


def _source(kind: type) -> tuple[str | None, str | None]:
    """(file, text) of a class; a warning and None where Python does not have them."""
    try:
        return inspect.getsourcefile(kind), "".join(inspect.getsourcelines(kind)[0])
    except (OSError, TypeError):
        warnings.warn(_NO_SOURCE.format(kind.__name__), UserWarning, stacklevel=user_level())
        return None, None


_NO_SOURCE = (
    "Couldn't retrieve source code for container of type {}. It won't be checked for correctness upon loading."
)


def _check_source(kind: Any, file: Any, original: Any) -> None:
    """Warn where a class is not what it was."""
    _, current = _source(kind)
    if current is None or current == original:
        return
    if not getattr(kind, "dump_patches", False):
        what = (
            "you can retrieve the original source code by accessing the object's source attribute or set "
            "`torch.nn.Module.dump_patches = True` and use the patch tool to revert the changes."
        )
    else:
        what = _dump_patch(f"{kind.__name__}.patch", current, original, file)
    warnings.warn(f"source code of class '{typename(kind)}' has changed. {what}", SourceChangeWarning,
                  stacklevel=user_level())  # fmt: skip


def _dump_patch(name: str, current: str, original: str, file: str) -> str:
    lines = "\n".join(difflib.unified_diff(current.split("\n"), original.split("\n"), file, file, lineterm=""))
    try:
        if os.path.exists(name):
            with open(name, encoding="utf-8") as patch:
                same = patch.read() == lines
        else:
            with open(name, "x", encoding="utf-8") as patch:
                patch.write(lines)
            same = True
    except OSError:
        same = False
    if same:
        return f"Saved a reverse patch to {name}. Run `patch -p0 < {name}` to revert your changes."
    return (
        f"Tried to save a patch, but couldn't create a writable file {name}. Make sure it doesn't exist and your "
        "working directory is writable."
    )


# -- reading ----------------------------------------------------------------------------------------


def load(file: Any, map_location: Any, machine: Any, arguments: dict[str, Any]) -> Any:
    """Read the row, or a tar file."""
    if _is_tar(file):
        if machine is unpickler:
            raise RuntimeError(f"Cannot use ``weights_only=True`` with files saved in the legacy .tar format. {UNSAFE}")
        return _load_tar(file, map_location, machine, arguments)
    return _Row(file, map_location, machine, arguments).load()


def _is_tar(file: Any) -> bool:
    start = file.tell()
    head = file.read(512)
    file.seek(start)
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        return start == 0
    except tarfile.HeaderError:
        return False


def _reading(machine: Any, content: Any, persistent_load: Any, arguments: dict[str, Any]) -> Any:
    """An unpickler for a pickle that no checksum vouches for, as it does in zip files."""
    if machine is not unpickler:  # which allocates nothing by numbers
        check_claims(content)
    return reading(machine, content, persistent_load, arguments)


class _Row:
    """A file of the row of pickles, that is read."""

    def __init__(self, file: Any, map_location: Any, machine: Any, arguments: dict[str, Any]):
        self.file, self.machine, self.arguments = file, machine, arguments
        self.restore = restoring(map_location)
        self.storages: dict[Any, TypedStorage] = {}
        self.views: dict[Any, UntypedStorage] = {}
        self.empty: dict[Any, tuple[UntypedStorage, Any]] = {}  # on the CPU, until their numbers are read
        start = file.tell()
        file.seek(0, os.SEEK_END)
        self.left = file.tell() - start
        file.seek(start)

    def _pickle(self) -> Any:
        if self.machine is unpickler:
            return unpickler.Unpickler(self.file, encoding=self.arguments["encoding"]).load()
        check_claims(self.file)
        return self.machine.load(self.file, **self.arguments)

    def load(self) -> Any:
        """The value."""
        if self._pickle() != MAGIC_NUMBER:
            raise RuntimeError("Invalid magic number; corrupt file?")
        version = self._pickle()
        if version != PROTOCOL_VERSION:
            raise RuntimeError(f"Invalid protocol version: {version}")
        self._pickle()
        result = _reading(self.machine, self.file, self.persistent, self.arguments).load()
        keys = self._pickle()
        if not isinstance(keys, list):
            raise RuntimeError("the file has no list of its storages")
        if not saving.skip_data:
            for key in keys:
                self._fill(key)
            if self.empty:
                raise RuntimeError(f"the file lacks the numbers of {len(self.empty)} storages")
        return result

    def persistent(self, place: Any) -> Any:
        """A class with its source, or a storage, whose numbers come later."""
        if isinstance(place, tuple) and len(place) == 4 and place[0] in ("module", b"module"):
            if all(place[2:]):
                _check_source(*place[1:])
            return place[1]
        dtype, key, location, numel, view = storage_place(place, 6)
        if key not in self.storages:
            nbytes = numel * dtype.itemsize
            if nbytes > self.left:
                raise RuntimeError(f"a storage of {nbytes} bytes does not fit into the file: it is damaged or cut off")
            self.left -= nbytes
            # Memory that is filled here, and then where the caller wants it: all on the CPU needs no second copy.
            made = UntypedStorage(nbytes)
            placed = self.restore(made, location)
            self.empty[key] = made, dtype
            self.storages[key] = TypedStorage(wrap_storage=placed, dtype=dtype)
        if view is None:
            return self.storages[key]
        return self._view(view, key, dtype)

    def _view(self, view: Any, key: Any, dtype: Any) -> TypedStorage:
        """A part of a storage, which files of before 0.4 may have; in elements."""
        if not (isinstance(view, tuple) and len(view) == 3 and all(type(n) is int and n >= 0 for n in view[1:])):
            raise RuntimeError("a part of a storage in the file is named wrongly")
        name, offset, size = view
        if name not in self.views:
            whole = self.storages[key].untyped()
            if (offset + size) * dtype.itemsize > whole.nbytes():
                raise RuntimeError("a part of a storage in the file reaches beyond it")
            self.views[name] = whole[offset * dtype.itemsize : (offset + size) * dtype.itemsize]
        return TypedStorage(wrap_storage=self.views[name], dtype=dtype)

    def _fill(self, key: Any) -> None:
        """Read the numbers of a storage."""
        if not isinstance(key, (str, bytes, int)) or key not in self.empty:
            raise AssertionError(f"storage key {brief(key)} not found in deserialized_objects")
        made, dtype = self.empty.pop(key)
        head = self.file.read(8)
        if len(head) < 8:
            raise EOFError("Ran out of input")
        (count,) = struct.unpack("<q", head)
        numel = made.nbytes() // dtype.itemsize
        if count != numel:
            raise RuntimeError(f"storage has wrong byte size: expected {numel} got {count}")
        missing = fill(self.file, memoryview(made._items._data))
        if missing:
            raise RuntimeError(f"unexpected EOF, expected {missing} more bytes. The file might be corrupted.")
        if sys.byteorder == "big":
            made.byteswap(dtype)
        placed = self.storages[key].untyped()
        if cleaned(made, dtype) is not placed and placed.device.type != "meta":
            placed.copy_(made)


def _load_tar(file: Any, map_location: Any, machine: Any, arguments: dict[str, Any]) -> Any:
    """Read a tar file of before 0.2: "storages", "tensors" and the value, which names those by number."""
    restore = restoring(map_location)
    found: dict[Any, Any] = {}
    with tarfile.open(fileobj=file, mode="r:", format=tarfile.PAX_FORMAT) as archive:
        members: list[Any] = [archive.extractfile(name) for name in ("storages", "tensors", "pickle")]
        if None in members:
            raise RuntimeError("the tar file is no checkpoint")
        storages, tensors, value = members

        def part(content: Any) -> Any:
            return _reading(machine, content, found.__getitem__, arguments).load()

        for _ in range(part(storages)):
            key, location, kind = part(storages)
            (count,) = struct.unpack("<q", storages.read(8))
            content = storages.read(count * kind.dtype.itemsize)
            made = restore(storage_of_bytes(np.frombuffer(bytearray(content), np.uint8)), location)
            found[key] = TypedStorage(wrap_storage=made, dtype=kind.dtype)
        for target, root, offset, numel in part(storages):
            item = found[root].dtype.itemsize
            shown = found[root].untyped()[offset * item : (offset + numel) * item]
            found[target] = TypedStorage(wrap_storage=shown, dtype=found[root].dtype)
        for _ in range(part(tensors)):
            key, storage, _ = part(tensors)
            (ndim, _) = struct.unpack("<ii", tensors.read(8))
            sizes = struct.unpack(f"<{2 * ndim + 1}q", tensors.read(16 * ndim + 8))
            empty = FUNCTIONS["empty"](0, dtype=found[storage].dtype)
            found[key] = empty.set_(found[storage], sizes[-1], sizes[:ndim], sizes[ndim : 2 * ndim])

        def persistent(place: Any) -> Any:
            if isinstance(place, tuple):
                if all(place[1:]):
                    _check_source(*place)
                return place[0]
            return found[int(place)]

        return _reading(machine, value, persistent, arguments).load()
