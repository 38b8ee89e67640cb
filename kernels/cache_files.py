"""The folder that holds what is compiled, and its files: checked when they are read, written whole or not at all."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from jitgrad.kernels.cache_root import cache_root
from jitgrad.kernels.gathers import NO_GATHERS
from jitgrad.kernels.processor import processor

__all__ = ["cache_directory", "kernel_file", "read_checked", "write_atomically", "write_checked"]

# The version of the files' format. It is part of the folder's name, so that no version of jitgrad loads files that it
# would misread: before 2, a kernel's file held a wrapper for Python, which Numba calls without a check; before 3,
# libraries as Numba stores them; before 4, kernels that Numba alone could load.
_FORMAT = 4


def _stamp() -> str:
    """Names everything outside the kernel's text that its machine code depends on."""
    return _stamp_of(*map(os.environ.get, ("NUMBA_OPT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")))


@functools.cache
def _stamp_of(level: str | None, name: str | None, chosen: str | None) -> str:
    settings = [] if level is None else [f"NUMBA_OPT={level}"]
    host = processor()
    cpu, features = name or host[0], chosen or host[1]
    decides = _FORMAT, features, NO_GATHERS, settings, llvm.get_process_triple()
    digest = hashlib.sha256(repr(decides).encode()).hexdigest()[:12]
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    return f"numba{_numba_version()}-{python}-{cpu}-{digest}"


def _numba_version() -> str:
    """Numba's version, from its file, since to import Numba takes longer than to load kernels."""
    if (spec := find_spec("numba")) is not None and spec.origin is not None:
        file = Path(spec.origin).with_name("_version.py")
        if file.exists() and (found := re.search(r'"version": "([^"]+)"', file.read_text())):
            return found[1]
    import numba

    return numba.__version__


def cache_directory() -> Path:
    """The folder that holds the kernels of this version, processor and settings."""
    return cache_root() / _stamp()


def kernel_file(stem: str, kinds: Sequence[Any]) -> Path:
    """The file of a kernel for arguments of these kinds, or Numba types, which print alike.

    The hash of Numba's types differs from process to process.
    """
    names = ", ".join([kind if isinstance(kind, str) else repr(kind) for kind in kinds])
    return cache_directory() / f"{stem}-{hashlib.sha256(names.encode()).hexdigest()[:16]}.kernel"


def _checksum(path: Path, payload: bytes) -> bytes:
    """32 bytes of SHA-256 that come first in a file. They cover its name: a kernel copied to another's is not taken."""
    return hashlib.sha256(f"{path.parent.name}/{path.name}".encode() + payload).digest()


def read_checked(path: Path) -> bytes | None:
    """What `write_checked` has written; None if it is damaged or was written under another name."""
    blob = path.read_bytes()
    return blob[32:] if _checksum(path, blob[32:]) == blob[:32] else None


def write_checked(path: Path, payload: bytes) -> None:
    """Write a file of the cache that `read_checked` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _checksum(path, payload) + payload)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one and a rename: other processes see all of it or none."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
