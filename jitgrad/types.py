"""Types for annotations, under PyTorch's names."""

from __future__ import annotations

import builtins
import os
from typing import IO, TypeAlias

from jitgrad.core.device import device
from jitgrad.core.dtypes import dtype
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.ops.memory.storage import UntypedStorage
from jitgrad.ops.memory.typed_storage import TypedStorage

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = TypedStorage | UntypedStorage
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
_dtype, _device, _size = dtype, device, Size | list[int] | tuple[int, ...]
_complex: TypeAlias = complex
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...]
