"""What both formats of PyTorch's files share when they are read: names, persistent ids, bytes of bools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core import dtypes
from jitgrad.ops.memory.storage import UntypedStorage
from jitgrad.serialization import unpickler
from jitgrad.serialization.allow_list import brief
from jitgrad.serialization.names import StorageType, is_torch, named

__all__ = ["UNSAFE", "cleaned", "reading", "storage_place"]

UNSAFE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)


def cleaned(made: UntypedStorage, dtype: Any) -> UntypedStorage:
    """A storage of bools whose bytes are 0 or 1, as kernels take for granted."""
    if dtype.name == "bool" and made.nbytes() and bool((made._items > 1).any()):
        made._items.copy_(made._items.ne(0))
    return made


def storage_place(place: Any, count: int) -> tuple[Any, ...]:
    """The parts of a persistent id: "storage", a dtype, a key, the tag of a device, a number of elements, ..."""
    if not isinstance(place, tuple):
        raise AssertionError(f"saved_id must be a tuple, got {type(place).__name__}")
    word = place[0] if place else None
    if not isinstance(word, (str, bytes)) or word not in ("storage", b"storage"):
        raise AssertionError(f"Unknown typename for persistent_load, expected 'storage' but got '{brief(word)}'")
    kind = place[1] if len(place) == count else None
    dtype = dtypes.uint8 if kind is UntypedStorage else kind.dtype if isinstance(kind, StorageType) else None
    if dtype is None or type(place[4]) is not int or place[4] < 0 or not isinstance(place[2], (str, int, bytes)):
        raise RuntimeError(f"a storage of the file is named wrongly: {[brief(part) for part in place]}")
    location = place[3].decode("ascii", "replace") if isinstance(place[3], bytes) else place[3]
    if not isinstance(location, str):
        raise RuntimeError(f"a storage of the file is named wrongly: {[brief(part) for part in place]}")
    return (dtype, place[2], location, *place[4:])


def reading(machine: Any, content: Any, persistent_load: Callable[[Any], Any], arguments: dict[str, Any]) -> Any:
    """An unpickler of the module ``machine`` that knows PyTorch's names and storages."""

    class Reading(machine.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if type(name) is str and "Storage" in name and is_torch(module):
                try:
                    return StorageType(name)
                except KeyError:
                    pass
            if machine is unpickler or not is_torch(module):
                return super().find_class(module, name)
            return named("torch._tensor" if module == "torch.tensor" else module, name)

    made = Reading(content, **arguments)
    made.persistent_load = persistent_load
    return made
