"""Pickles as `save` writes them: storages are named and kept outside, and what is jitgrad's has PyTorch's names."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.device import device
from jitgrad.core.layout import Size
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.ops.memory.pickled import saving
from jitgrad.ops.memory.rebuild import _get_layout, reduce_for_file
from jitgrad.ops.memory.storage import UntypedStorage, is_storage
from jitgrad.ops.memory.typed_storage import TypedStorage
from jitgrad.serialization.locations import location_tag
from jitgrad.serialization.names import torch_name

__all__ = ["pickled", "placing"]

_TWO_DTYPES = "Cannot save multiple tensors or storages that view the same data as different types"


def placing(name: Callable[[int, UntypedStorage], str], kept: dict[str, UntypedStorage],
            note: Callable[[str, Any], None] = lambda key, dtype: None) -> Callable[[Any], Any]:  # fmt: skip
    """``persistent_id`` of picklers: storages are put into ``kept`` under their names, all else is pickled.

    ``name(number, storage)`` names one, the first of which has number 0; ``note`` is told the dtype of each.
    """
    seen: dict[int, Any] = {}  # {address: dtype}
    # By size, too: on a device, where arrays know no owner, a part of memory may be a storage of its own.
    keys: dict[tuple[int, int], str] = {}

    def place(obj: Any) -> Any:
        if not is_storage(obj):
            return None
        untyped = obj.untyped()
        if isinstance(obj, TypedStorage):
            dtype, kind, count = obj.dtype, FUNCTIONS[obj._pickle_storage_type()], obj.size()
        else:
            dtype, kind, count = dtypes.uint8, UntypedStorage, untyped.nbytes()
        address = 0 if untyped.device.type == "meta" else untyped.data_ptr()
        if address and seen.setdefault(address, dtype) is not dtype:
            raise RuntimeError(_TWO_DTYPES)
        identity = untyped._cdata, untyped.nbytes()
        key = keys[identity] if identity in keys else keys.setdefault(identity, name(len(keys), untyped))
        kept.setdefault(key, untyped)
        note(key, dtype)
        return "storage", kind, key, location_tag(untyped), count

    return place


# -- pickles with PyTorch's names -------------------------------------------------------------------


def pickled(obj: Any, persistent_id: Callable[[Any], Any], pickle_module: Any, protocol: int) -> bytes:
    """The pickle of an object, in which what is jitgrad's has PyTorch's names."""
    content = io.BytesIO()
    quick = pickle_module is pickle and protocol == 2
    base: Any = pickle_module.Pickler if not (pickle_module is pickle and not quick) else pickle._Pickler
    names: dict[tuple[str, str], tuple[str, str]] = {}
    members: dict[str, Any] = {"persistent_id": lambda self, item: persistent_id(item)}
    if quick:
        members["reducer_override"] = lambda self, item: _reduced(item, names)
    elif issubclass(base, pickle._Pickler):
        members |= _renaming(base)
    before, saving.active, saving.reduce = saving.active, True, reduce_for_file
    try:
        type("Pickler", (base,), members)(content, protocol=protocol).dump(obj)
    finally:
        saving.active = before
    return _renamed(content.getvalue(), names) if names else content.getvalue()


def _reduced(item: Any, names: dict[tuple[str, str], tuple[str, str]]) -> Any:
    """What the quick pickler is told about an object; ``names`` notes each name of jitgrad's that it will write."""
    if isinstance(item, (type, FunctionType, dtypes.dtype)):
        place = torch_name(item)
        if place is None:
            return NotImplemented
        if isinstance(item, dtypes.dtype):
            here = "bool_" if item is dtypes.bool_ else item.name
            names["jitgrad.core.dtypes", here] = place
            return here
        names[item.__module__, item.__qualname__] = place
        return NotImplemented
    return _call_of(item)


def _call_of(item: Any) -> Any:
    """The call that PyTorch has in files for a size, a device and a layout."""
    kind = type(item)
    if kind is Size:
        return Size, (tuple(item),)
    if kind is device:
        return device, (item.type,) if item.index is None else (item.type, item.index)
    if kind is FUNCTIONS["layout"] and (item.name == "strided" or item.name.startswith("sparse")):
        return _get_layout, (repr(item),)
    return NotImplemented


def _renamed(content: bytes, names: dict[tuple[str, str], tuple[str, str]]) -> bytes:
    """A pickle of protocol 2 with names replaced.

    The pickler has written each of them once, as "c", the module, the name. Where a text of the pickle reads the same,
    its instructions are followed one by one to tell which is which.
    """
    new = {b"c%s\n%s\n" % tuple(n.encode() for n in old): b"c%s\n%s\n" % tuple(n.encode() for n in to)
           for old, to in names.items()}  # fmt: skip
    pattern = re.compile(b"|".join(re.escape(old) for old in sorted(new, key=len, reverse=True)))
    found = pattern.findall(content)
    if len(found) == len(set(found)) == len(new):
        return pattern.sub(lambda match: new[match.group()], content)
    result, last = [], 0
    for code, argument, at in pickletools.genops(content):
        if code.name == "GLOBAL" and argument is not None and at is not None:
            old = b"c%s\n" % argument.replace(" ", "\n").encode()
            result += [content[last:at], new.get(old, old)]
            last = at + len(old)
    return b"".join([*result, content[last:]])


def _renaming(base: Any) -> dict[str, Any]:
    """Members of a subclass of Python's own pickler that writes PyTorch's names, in any protocol."""

    def save_global(self: Any, item: Any, name: str | None = None) -> None:
        place = torch_name(item)
        if place is None:
            return base.save_global(self, item, name)
        module, name = place
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(item)

    def save_named(self: Any, item: Any) -> None:  # a class or a function
        ours = base.dispatch[type(item)] if torch_name(item) is None else save_global
        ours(self, item)

    def reducer_override(self: Any, item: Any) -> Any:
        if isinstance(item, dtypes.dtype):
            return item.name
        return _call_of(item)

    return {"save_global": save_global, "reducer_override": reducer_override,
            "dispatch": {**base.dispatch, FunctionType: save_named, type: save_named}}  # fmt: skip
