"""What a pickle claims to need: Python's unpickler in C allocates it, and zeros it, before it reads on.

It keeps what a pickle names by number in a table as long as twice the largest number, so one wrong bit of a file may
ask for 64 GB, and the system ends the process. In a sound pickle these numbers count what came before. It has memory
for a text or for bytes before it looks whether the file is so long.
"""

from __future__ import annotations

import os
import pickletools
from pickle import UnpicklingError
from typing import Any

__all__ = ["check_claims"]

# {instruction: the bytes of its argument, or pickletools' negative number for one that ends at a line or says its size}
_ARGUMENTS = {ord(op.code): op.arg.n if op.arg is not None else 0 for op in pickletools.opcodes}
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4: 4, pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}  # fmt: skip
_NUMBERED, _NUMBERED_IN_TEXT, _STOP, _FRAME = b"rp.\x95"


def check_claims(file: Any) -> None:
    """UnpicklingError if the pickle that comes next numbers something higher than it has bytes until there.

    Likewise for texts and bytes that are longer than what is left of the file. The file's position is as before. What
    is no pickle is left to the unpickler, which stops where this does.
    """
    start, read = file.tell(), file.read
    end = file.seek(0, os.SEEK_END)
    file.seek(start)
    while code := read(1):
        size, number = _ARGUMENTS.get(code[0]), 0
        if size is None or code[0] == _STOP:
            break
        if size == pickletools.UP_TO_NEWLINE:
            line = file.readline()
            if code in b"ci":  # a module and a name
                file.readline()
            number = int(line) if code[0] == _NUMBERED_IN_TEXT and line.strip().isdigit() else 0
        elif size < 0:
            length = int.from_bytes(read(_LENGTHS[size]), "little")
            _check_length(length, end - file.tell())
            file.seek(length, os.SEEK_CUR)
        elif size:
            argument = read(size)
            number = int.from_bytes(argument, "little") if code[0] == _NUMBERED else 0
            if code[0] == _FRAME:
                _check_length(int.from_bytes(argument, "little"), end - file.tell())
        if number and number > file.tell() - start:
            raise UnpicklingError(f"the pickle numbers something {number}, which it has not as many bytes for")
    file.seek(start)


def _check_length(length: int, left: int) -> None:
    if length > left:
        raise UnpicklingError(f"the pickle claims {length} bytes, of which the file has {left} left")
