"""Names of ``torch.serialization`` with which programs open checkpoints themselves."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.serialization.allow_list import allowed_globals, user_globals
from jitgrad.serialization.files import check_seekable, is_zip
from jitgrad.serialization.saving import open_binary
from jitgrad.serialization.unpickler import globals_of
from jitgrad.serialization.zip_file import ZipReader, ZipWriter

__all__ = ["get_unsafe_globals_in_checkpoint", "mkdtemp", "normalize_storage_type", "storage_to_tensor_type"]

_is_zipfile = is_zip


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a file that neither PyTorch nor ``add_safe_globals`` allows; nothing of it is made.

    ValueError for what is no checkpoint.
    """
    with _open_file_like(f, "rb") as file:
        if not is_zip(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        reader = ZipReader(file)
        if reader.has_record("constants.pkl"):
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint"
            )
        found = globals_of(io.BytesIO(reader.get_record("data.pkl")))
    return list(found - set(allowed_globals()) - set(user_globals()))


@contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is gone afterwards."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of storages of this name."""
    return FUNCTIONS[storage_type.__name__]


def storage_to_tensor_type(storage: Any) -> Any:
    """The type of tensors that have such storages, as ``FloatTensor``."""
    return FUNCTIONS[f"{storage.dtype.title}Tensor"]


@contextmanager
def _open_file_like(name_or_buffer: Any, mode: str) -> Iterator[Any]:
    """A path's file, or the file itself."""
    if isinstance(name_or_buffer, (str, os.PathLike)):
        with open(name_or_buffer, mode) as file:
            yield file
    elif "w" in mode:
        yield name_or_buffer
        name_or_buffer.flush()
    elif "r" in mode:
        check_seekable(name_or_buffer)
        yield name_or_buffer
    else:
        raise RuntimeError(f"Expected 'r' or 'w' in mode but got {mode}")


@contextmanager
def _open_zipfile_reader(name_or_buffer: Any) -> Iterator[ZipReader]:
    """The records of a checkpoint."""
    with contextlib.ExitStack() as stack:
        yield ZipReader(stack.enter_context(_open_file_like(name_or_buffer, "rb")))


@contextmanager
def _open_zipfile_writer(name_or_buffer: Any) -> Iterator[ZipWriter]:
    """A checkpoint to which records can be written."""
    with open_binary(name_or_buffer) as (file, name):
        writer = ZipWriter(file, name)
        yield writer
        writer.write_end_of_file()
