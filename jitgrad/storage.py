"""PyTorch's module of storages: the classes, and how a plain pickle of PyTorch's names their contents."""

import io
from typing import Any

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.ops.memory.storage import UntypedStorage
from jitgrad.ops.memory.typed_storage import TypedStorage
from jitgrad.serialization import load

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes) -> Any:
    """The storage in a plain pickle that PyTorch wrote."""
    return load(io.BytesIO(b), weights_only=False)


explain_missing_names(__name__)
