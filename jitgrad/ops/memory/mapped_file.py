"""Tensors on the memory of mapped files: ``from_file``."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import resolve
from jitgrad.core.errors import must_be
from jitgrad.core.layout import layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.strides import owner_of
from jitgrad.ops.creation.constants import as_dtype, finished

__all__ = ["file_of", "mapped_bytes"]


class _Mapped(mmap.mmap):
    """A file's bytes; ``filename`` says which file's if writes reach it."""

    filename: str | None = None


def file_of(array: np.ndarray) -> str | None:
    """The name of the file that writes to an array reach, None if there is none."""
    base: Any = owner_of(array).base
    content = base.obj if isinstance(base, memoryview) else base
    return content.filename if isinstance(content, _Mapped) else None


def mapped_bytes(name: str, shared: bool, nbytes: int) -> np.ndarray:
    """The first bytes of a file as an array. Writes reach the file if it is ``shared``, which makes it large enough.

    RuntimeError for a file that can't be opened or is too small.
    """
    if not nbytes:
        return np.empty(0, np.uint8)
    mode = "read-write" if shared else "read-only"
    try:
        descriptor = os.open(name, (os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise RuntimeError(
            f"unable to open file <{name}> in {mode} mode: {error.strerror} ({error.errno})"
        ) from None
    with open(descriptor, "r+b" if shared else "rb", buffering=0) as file:
        have = os.fstat(descriptor).st_size
        if have < nbytes and shared:
            file.truncate(nbytes)
        elif have < nbytes:
            raise RuntimeError(f"file <{name}> size <{have}> is smaller than the required mapping size <{nbytes}>")
        try:
            content = _Mapped(descriptor, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        except (OSError, OverflowError):  # which Python raises for negative lengths, the system for lack of memory
            raise RuntimeError(
                f"unable to mmap {nbytes} bytes from file <{name}>: Cannot allocate memory (12)"
            ) from None
    content.filename = name if shared else None
    return np.frombuffer(content, np.uint8)


def from_file(filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None,
              layout: Any = None, device: Any = None, pin_memory: bool = False,
              requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ``size`` elements on the memory of a file, whose bytes are read as ``dtype``.

    shared: writes to the tensor change the file, which is made, or made larger, where needed; else they stay in the
    tensor. RuntimeError for a file that can't be opened or, if not shared, is too small.
    """
    chosen = as_dtype("from_file", dtype) or dtypes.get_default_dtype()
    if not isinstance(filename, str):
        raise must_be("from_file", "filename", 1, "str", filename)
    if not isinstance(shared, (bool, type(None))):
        raise must_be("from_file", "shared", 2, "bool", shared)
    if pin_memory:
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    if resolve(device) != "cpu":
        raise NotImplementedError(f"files are mapped into the CPU's memory only, not on {resolve(device)}")
    count = 0 if size is None else int_argument("from_file", "size", 3, size)
    array = mapped_bytes(filename, bool(shared), count * chosen.itemsize).view(chosen.numpy)
    return finished("from_file", wrap(array, layout_of(array)), requires_grad)


public(from_file, method_too=False)
