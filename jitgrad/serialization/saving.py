"""``save``: files that PyTorch reads, as zip (since 1.6) or in the format before it."""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import contextmanager
from typing import Any

from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.ops.memory.pickled import saving
from jitgrad.ops.memory.storage import UntypedStorage
from jitgrad.serialization import legacy_format
from jitgrad.serialization.files import check_dill, replacing
from jitgrad.serialization.options import options
from jitgrad.serialization.pickler import pickled, placing
from jitgrad.serialization.zip_file import ZipWriter

__all__ = ["DEFAULT_PROTOCOL", "save"]

DEFAULT_PROTOCOL = 2


def save(obj: Any, f: Any, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:  # fmt: skip
    """Write ``obj`` to a path or a binary file, as PyTorch does: either reads what the other wrote.

    Tensors that share memory share it again after ``load``, which is why all of the memory is written of which a tensor
    shows a part. Hooks, gradients and graphs are not kept. A file at a path is replaced when all is written, so that
    after an error the one before is there.
    """
    check_dill(pickle_module)
    if not (isinstance(f, (str, os.PathLike)) or hasattr(f, "write")):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization and saving.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    if read_observers:
        announce_read("save()")
    with open_binary(f) as (file, name):
        if not _use_new_zipfile_serialization:
            legacy_format.save(obj, file, pickle_module, pickle_protocol)
            return
        writer = ZipWriter(file, name)
        _write(obj, writer, pickle_module, pickle_protocol, not _disable_byteorder_record)
        writer.write_end_of_file()


@contextmanager
def open_binary(f: Any) -> Any:
    """(the file to write to, the name of the folder in its zip file) of a path or file."""
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with replacing(path) as file:
            name = os.path.splitext(os.path.basename(os.fsdecode(path)))[0]
            yield file, name or "archive"
        return
    if not callable(getattr(f, "write", None)):
        raise TypeError(f"Buffer of {str(type(f)).strip('<>')} has no callable attribute 'write'")
    yield f, "archive"
    f.flush()


def _write(obj: Any, writer: ZipWriter, pickle_module: Any, protocol: int, byte_order: bool) -> None:
    """All records but the last ones."""
    kept: dict[str, UntypedStorage] = {}
    place = placing(lambda number, storage: str(number), kept)
    writer.write_record("data.pkl", pickled(obj, place, pickle_module, protocol))
    writer.write_record(".format_version", "1")
    writer.write_record(".storage_alignment", str(options.storage_alignment))
    if byte_order:
        writer.write_record("byteorder", sys.byteorder)
    for key, storage in kept.items():
        if saving.skip_data:
            writer.write_record_metadata(f"data/{key}", storage.nbytes())
        else:
            writer.write_record(f"data/{key}", storage)
