"""The zip files that checkpoints are: records stored as they are, each from a multiple of 64 bytes on.

PyTorch's writer leaves sizes to a descriptor after each record, dates everything zero, and fills the gap before a
record with an extra field "FB" of Zs. `ZipWriter` writes the same bytes, so that what finds records by counting (as
PyTorch can) finds them in our files. `ZipReader` takes any zip file: Python's ``zipfile`` reads the directory, and
every record is checked against it, since a file may be damaged or made to do harm.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgrad.serialization.files import fill
from jitgrad.serialization.options import options

__all__ = ["ZipReader", "ZipWriter"]

_LIMIT = 0xFFFFFFFF  # sizes and offsets from here on are in an extra field
_UTF8, _DESCRIPTOR = 0x800, 0x8
_LOCAL, _CENTRAL = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L")
_BOMB_BYTES, _BOMB_RATIO = 1 << 24, 200  # compressed records that grow beyond both are refused


class ZipWriter:
    """Writes records to a binary file; ``name``: of the folder in which they are."""

    def __init__(self, file: Any, name: str = "archive"):
        self.file, self.name = file, name
        self.position = 0
        self.directory: list[bytes] = []
        self.checksums: list[tuple[str, int]] = []

    def write_record(self, name: str, data: Any, size: int | None = None) -> None:
        """Write the bytes of ``data`` (text, bytes or a storage)."""
        if hasattr(data, "untyped"):
            data = data.untyped().cpu()._items.numpy()
        content = memoryview(data.encode() if isinstance(data, str) else data).cast("B")
        checksum = zlib.crc32(content) if options.compute_crc32 else 0
        self._write(name, content.nbytes, checksum, [content])

    def write_record_metadata(self, name: str, size: int) -> None:
        """Write a record of zeros, to be filled in later: its checksum says that there is none."""
        zeros = memoryview(bytes(min(size, 1 << 20)))
        self._write(name, size, 0, (zeros[: min(len(zeros), size - k)] for k in range(0, size, 1 << 20)))

    def _write(self, name: str, size: int, checksum: int, parts: Any) -> None:
        path = f"{self.name}/{name}".encode()
        start = self.position
        large = struct.pack("<2Q", size, size) if size >= _LIMIT else b""
        large += struct.pack("<Q", start) if start >= _LIMIT else b""
        extra = struct.pack("<2H", 1, len(large)) + large if large else b""
        gap = -(start + _LOCAL.size + len(path) + len(extra) + 4) % options.storage_alignment
        local = extra + struct.pack("<2sH", b"FB", gap) + b"Z" * gap
        flags = _UTF8 | (_DESCRIPTOR if size else 0)
        self._put(_LOCAL.pack(b"PK\3\4", 0, flags, 0, 0, 0, 0, 0, 0, len(path), len(local)) + path + local)
        for part in parts:
            self._put(part)
        if size:
            self._put(struct.pack("<4sL2Q" if extra else "<4s3L", b"PK\7\10", checksum, size, size))
        short, offset = min(size, _LIMIT), min(start, _LIMIT)
        self.directory.append(_CENTRAL.pack(b"PK\1\2", 0, 0, flags, 0, 0, 0, checksum, short, short, len(path),
                                            len(extra), 0, 0, 0, 0, offset) + path + extra)  # fmt: skip
        self.checksums.append((name, checksum))

    def _put(self, content: Any) -> None:
        self.file.write(content)
        self.position += len(content)

    def write_end_of_file(self) -> None:
        """Write the version of the format, a number that depends on all contents, and the directory."""
        self.write_record("version", "3\n")
        names, numbers = (hashlib.blake2b(repr([r[k] for r in self.checksums]).encode(), digest_size=8) for k in (0, 1))
        self.write_record(".data/serialization_id", "".join(f"{int(h.hexdigest(), 16):020d}" for h in (names, numbers)))
        start, content, count = self.position, b"".join(self.directory), len(self.directory)
        self._put(content)
        end, size = self.position, len(content)
        self._put(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 0x031E, 45, 0, 0, count, count, size, start))
        self._put(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        few = min(count, 0xFFFF)
        self._put(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, few, few, min(size, _LIMIT), min(start, _LIMIT), 0))


class ZipReader:
    """Reads records of a file that can be sought; RuntimeError, in PyTorch's words, where they are not right."""

    def __init__(self, file: Any):
        self.file, self.origin = file, 0
        with self._damage("reading zip archive: failed finding central directory"):
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
            file.seek(0, os.SEEK_END)
            self.size = file.tell()
        if not entries:
            raise RuntimeError("PytorchStreamReader failed reading zip archive: archive does not contain any files")
        first = entries[0].filename
        self.folder = first.partition("/")[0] + "/" if "/" in first else ""
        self.entries = {e.filename.removeprefix(self.folder): e for e in entries}
        if sum(e.compress_size for e in entries) > self.size or len(self.entries) < len(entries):
            raise RuntimeError("PytorchStreamReader failed reading zip archive: records overlap or have the same name")

    @contextmanager
    def _damage(self, what: str) -> Iterator[None]:
        """Turn what a damaged file makes ``zipfile`` and others raise into one error."""
        try:
            yield
        except (zipfile.BadZipFile, NotImplementedError, zlib.error, struct.error, ValueError, OverflowError,
                EOFError, IndexError, MemoryError, UnicodeDecodeError) as error:  # fmt: skip
            raise RuntimeError(f"PytorchStreamReader failed {what}: {error}") from None
        except OSError as error:
            if error.errno != errno.EINVAL:  # which a place before the file's beginning is
                raise
            raise RuntimeError(f"PytorchStreamReader failed {what}: it names places that there are not") from None

    def get_all_records(self) -> list[str]:
        """The names of the records, without their folder's."""
        return list(self.entries)

    def has_record(self, name: str) -> bool:
        """Whether there is such a record."""
        return name in self.entries

    def serialization_id(self) -> str:
        """The number that depends on the contents, "" in files of old versions."""
        name = ".data/serialization_id"
        return self.get_record(name).decode("ascii", "replace") if self.has_record(name) else ""

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self.entries:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self.entries[name]

    def get_record_header_offset(self, name: str) -> int:
        """Where the header of a record begins."""
        return self._entry(name).header_offset

    def get_record_offset(self, name: str) -> int:
        """Where the bytes of a record begin."""
        entry, what = self._entry(name), f"reading file {name}"
        with self._damage(what):
            self.file.seek(entry.header_offset)
            header = _LOCAL.unpack(self.file.read(_LOCAL.size))
            path = self.file.read(header[-2])
        start = entry.header_offset + _LOCAL.size + header[-2] + header[-1]
        if header[0] != b"PK\3\4" or path != entry.orig_filename.encode(errors="replace"):
            raise RuntimeError(f"PytorchStreamReader failed {what}: the record's header does not fit the directory")
        if start + entry.compress_size > self.size or entry.flag_bits & 1:
            raise RuntimeError(f"PytorchStreamReader failed {what}: it reaches beyond the file, or is encrypted")
        return start

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self.read(name).tobytes()

    def read(self, name: str, nbytes: int | None = None) -> np.ndarray:
        """The bytes of a record in memory of their own; ``nbytes``: how many there have to be."""
        entry = self._entry(name)
        self.check_size(name, nbytes)
        start = self.get_record_offset(name)
        self.file.seek(start)
        with self._damage(f"reading file {name}"):
            if entry.compress_type == zipfile.ZIP_STORED:
                content = np.empty(entry.file_size, np.uint8)
                if missing := fill(self.file, content.data):
                    raise EOFError(f"the file ends {missing} bytes too early")
            else:
                content = self._decompressed(entry)
        if entry.CRC and options.compute_crc32 and zlib.crc32(content.data) != entry.CRC:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: its checksum is wrong, it is damaged")
        return content

    def check_size(self, name: str, nbytes: int | None) -> None:
        """RuntimeError unless a record has ``nbytes``, or if it grows too much."""
        entry = self._entry(name)
        stored = entry.compress_type == zipfile.ZIP_STORED
        if (nbytes is not None and entry.file_size != nbytes) or (stored and entry.file_size != entry.compress_size):
            raise RuntimeError(
                f"PytorchStreamReader failed reading file {name}: it has {entry.file_size} bytes, and should have "
                f"{nbytes}"
            )
        if not stored and entry.file_size > max(_BOMB_BYTES, _BOMB_RATIO * entry.compress_size):
            raise RuntimeError(
                f"PytorchStreamReader failed reading file {name}: {entry.compress_size} bytes that grow to "
                f"{entry.file_size} are refused"
            )

    def _decompressed(self, entry: zipfile.ZipInfo) -> np.ndarray:
        """A record that another tool has compressed, never more than the directory promises."""
        if entry.compress_type != zipfile.ZIP_DEFLATED:
            raise ValueError(f"compression {entry.compress_type} is not supported")
        machine = zlib.decompressobj(-15)
        content = machine.decompress(self.file.read(entry.compress_size), entry.file_size + 1)
        if len(content) != entry.file_size:
            raise ValueError("its size is wrong")
        return np.frombuffer(bytearray(content), np.uint8)

    def mapped(self, content: mmap.mmap | bytearray, name: str, nbytes: int) -> np.ndarray:
        """The bytes of a record as a part of the mapped file."""
        entry = self._entry(name)
        self.check_size(name, nbytes)
        if entry.compress_type != zipfile.ZIP_STORED:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it is compressed and can't be mapped")
        start = self.get_record_offset(name)
        return np.frombuffer(content, np.uint8, nbytes, start) if nbytes else np.empty(0, np.uint8)
