"""Names in files: what stands in a file for a class or function of jitgrad, and what a name in a file means here.

A file has PyTorch's names. What PyTorch keeps in another module than jitgrad says so by ``pickled_as``, or is offered
by the module of that name (`PLACES`); all else in ``jitgrad.X`` is ``torch.X``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.device import device
from jitgrad.core.handles import RemovableHandle
from jitgrad.core.layout import Size
from jitgrad.core.lazy_import import PLACES
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import FUNCTIONS, published
from jitgrad.ops.memory.rebuild import LATER, TORCH_NAMES
from jitgrad.ops.memory.typed_storage import storage_dtype

__all__ = ["StorageType", "import_late", "is_torch", "named", "torch_name"]


class StorageType:
    """A class of storages that a file names: it stands for the dtype, and nothing is made of it."""

    def __init__(self, name: str):
        self._dtype = storage_dtype(name)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


_CLASSES = {device: "device", dtypes.dtype: "dtype", Size: "Size", Tensor: "Tensor"}
TORCH_NAMES.update({kind: ("torch", name) for kind, name in _CLASSES.items()})
TORCH_NAMES[RemovableHandle] = "torch.utils.hooks", "RemovableHandle"
_BY_TORCH_NAME: dict[tuple[str, str], Any] = {}
_COUNT = "", ""  # no name of a file's: how many names the table was made of


def torch_name(obj: Any) -> tuple[str, str] | None:
    """PyTorch's (module, name) for a dtype, class or function of jitgrad; None for what is not jitgrad's."""
    if isinstance(obj, dtypes.dtype):
        return "torch", obj.name
    try:
        if obj in TORCH_NAMES:
            return TORCH_NAMES[obj]
    except TypeError:  # cannot be hashed
        return None
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module.partition(".")[0] != "jitgrad":
        return None
    return "torch" + PLACES.get((module, name), module).removeprefix("jitgrad"), name


def _tables() -> dict[tuple[str, str], Any]:
    if _BY_TORCH_NAME.get(_COUNT) != len(TORCH_NAMES):
        _BY_TORCH_NAME[_COUNT] = len(TORCH_NAMES)
        _BY_TORCH_NAME.update({place: obj for obj, place in TORCH_NAMES.items()})
        _BY_TORCH_NAME.update({("torch", d.name): d for d in dtypes.all_dtypes()})
    return _BY_TORCH_NAME


def import_late(module: str, name: str) -> None:
    """Import the module that has what a name in a file means, if it is not imported yet."""
    if (module, name) in LATER:
        import_module(LATER.pop((module, name)))


def named(module: str, name: str) -> Any:
    """What a name of PyTorch's in a file means: jitgrad's class or function; AttributeError or ImportError if none."""
    import_late(module, name)
    found = _tables().get((module, name))
    if found is not None:
        return found
    if module in ("torch", "torch.storage") and "." not in name and published(name) is not None:
        return FUNCTIONS[name]
    place = import_module("jitgrad" + module.removeprefix("torch"))
    for part in name.split("."):
        place = getattr(place, part)
    return place


def is_torch(module: str) -> bool:
    """Whether a module's name is one of PyTorch's."""
    return module == "torch" or module.startswith("torch.")


