"""Options of `save` and `load` for the whole process, as PyTorch names them, and the contexts that set some.

`options` holds them; ``jitgrad.utils.serialization.config`` shows them under PyTorch's names.
"""

from __future__ import annotations

import mmap
import sys
from enum import Enum
from typing import Any

from jitgrad.ops.memory.pickled import saving

__all__ = [
    "LoadEndianness", "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options", "options",
    "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data",
]  # fmt: skip


class LoadEndianness(Enum):
    """The order of bytes of files that don't say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_PRIVATE, _SHARED = (getattr(mmap, name, None) for name in ("MAP_PRIVATE", "MAP_SHARED"))


class _Options:
    """What the functions below get and set."""

    mmap = False
    endianness: LoadEndianness | None = None
    mmap_flags = _PRIVATE
    calculate_storage_offsets = False
    compute_crc32 = True
    use_pinned_memory_for_d2h = False
    storage_alignment = 64

    def big_endian(self) -> bool:
        """Whether files that don't say it have the most significant byte first."""
        if self.endianness is LoadEndianness.NATIVE:
            return sys.byteorder == "big"
        return self.endianness is LoadEndianness.BIG


options = _Options()


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that is taken for files that don't say theirs; None: little."""
    return options.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set what `get_default_load_endianness` returns."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    options.endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` writes a checksum of each record, and `load` compares those that a file has."""
    return options.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set what `get_crc32_options` returns.

    PyTorch never compares them. Here a damaged record is an error; who changes records in place can switch it off.
    """
    options.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int | None:
    """The flags with which ``load(mmap=True)`` maps a file."""
    return options.mmap_flags


class set_default_mmap_options:
    """Set what `get_default_mmap_options` returns: ``MAP_PRIVATE`` or ``MAP_SHARED``; as a context, for its time."""

    def __init__(self, flags: int):
        if sys.platform == "win32":
            raise RuntimeError("Changing the default mmap options is currently not supported for Windows")
        if flags not in (_PRIVATE, _SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev = options.mmap_flags
        options.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        options.mmap_flags = self.prev


class skip_data:
    """A context in which `save` leaves the place of tensors' numbers empty, and `load` the numbers themselves."""

    def __init__(self, materialize_fake_tensors: bool = False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = saving.skip_data, saving.materialize_fake_tensors
        saving.skip_data, saving.materialize_fake_tensors = True, self.materialize_fake_tensors

    def __exit__(self, *error: Any) -> None:
        saving.skip_data, saving.materialize_fake_tensors = self._before
