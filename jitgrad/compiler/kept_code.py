"""Rewritten code of jitgrad's own functions on disk: a first compiled step follows dozens of them.

To rewrite a function its file is parsed, which takes 3 ms, and the result compiled. The name of a file here is a digest
of the function's code, lines included, and of the sources of the rewriting. Functions of users are rewritten in each
process: what becomes of them is not ours to keep.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import marshal
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

from jitgrad.kernels.cache_files import cache_directory, read_checked, write_checked

__all__ = ["is_in_package", "kept_code", "steps_of"]

_PACKAGE = Path(__file__).parents[1]


def is_in_package(code: CodeType) -> bool:
    """Whether code is jitgrad's own."""
    return code.co_filename.startswith(f"{_PACKAGE}{os.sep}")


def kept_code(code: CodeType, qualname: str, rewrite: Callable[[], CodeType]) -> CodeType:
    """The rewritten code of a function, from disk; else that of ``rewrite()``, which is kept."""
    if not is_in_package(code):
        return rewrite()
    digest = hashlib.sha256(repr((qualname, _described(code), _sources())).encode()).hexdigest()[:24]
    path = cache_directory() / f"{code.co_name.strip('<>')}-{digest}.code"
    with suppress(Exception):  # it isn't there, or whatever lies in the file: rewriting afresh is right
        if (payload := read_checked(path)) is not None:
            return marshal.loads(payload)
    made = rewrite()
    with suppress(OSError):  # a folder that can't be written to, of which the compiler warns
        write_checked(path, marshal.dumps(made))
    return made


def _described(value: Any) -> Any:
    """All of a code object, or of a constant in one, in the same words in each process."""
    if isinstance(value, CodeType):
        names = value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars
        counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
        lines = value.co_filename, value.co_firstlineno, value.co_linetable
        return names, counts, lines, value.co_code, value.co_exceptiontable, _described(value.co_consts)
    if isinstance(value, tuple):
        return [_described(v) for v in value]
    # The order of a set differs from process to process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value


def steps_of(code: CodeType) -> list[Any]:
    """The instructions of a code object, without what depends on where it stands: how far jumps go, classes' names."""
    jumps, found = {*dis.hasjrel, *dis.hasjabs}, list[Any]()
    for step in dis.get_instructions(code):
        value = step.argval
        argument = steps_of(value) if isinstance(value, CodeType) else _described(value)
        if step.opname == "STORE_NAME" and value == "__qualname__":
            found.pop()
        elif step.opname != "EXTENDED_ARG":
            found.append((step.opname, None if step.opcode in jumps else argument))
    return found


@functools.cache
def _sources() -> str:
    """A digest of the sources that decide what is made of a function."""
    found, folder = hashlib.sha256(), Path(__file__).parent
    for name in ("instrument.py", "definitions.py"):
        found.update((folder / name).read_bytes())
    return found.hexdigest()
