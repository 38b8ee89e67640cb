"""Texts of jitgrad's own loops on disk, with what Python made of them.

To emit a loop's text its syntax tree, those of its helpers and those of the words that it calls are parsed, resolved
and written out again: 7 ms a loop, and 3 for Python to compile the text. Both depend only on the loop and on the
sources of the folders that emit texts, so a file is named by a digest of these sources and of the loop's module,
qualified name and name (two loops made by one function differ in the last only). Loops of users are emitted anew each
time: what they name may come from anywhere.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

from jitgrad.kernels.cache_files import cache_directory, read_checked, write_checked
from jitgrad.kernels.kernel_text import KernelText

__all__ = ["is_kept", "kept_text"]

_LOOPS = "jitgrad.kernels.loops."  # the package of the loops whose texts are kept
_FOLDERS = ("", "codegen", "loops", "words")  # of the sources that decide these


def is_kept(function: Callable[..., Any]) -> bool:
    """Whether texts of a loop are kept: of one of ours."""
    return (function.__module__ or "").startswith(_LOOPS)


def kept_text(function: Callable[..., Any], variant: str, make: Callable[[], KernelText]) -> KernelText:
    """The text of a loop's ``variant``, from disk; else what ``make`` returns, which is then kept there."""
    if not is_kept(function):
        return make()
    decides = function.__module__, function.__qualname__, function.__name__, variant, _sources()
    digest = hashlib.sha256(repr(decides).encode()).hexdigest()[:24]
    path = cache_directory() / f"{function.__name__}-{digest}.text"
    with suppress(Exception):  # it isn't there, or whatever lies in the file: emitting it afresh is right
        if (payload := read_checked(path)) is not None:
            return KernelText(*pickle.loads(payload))
    made = make()
    with suppress(OSError):  # a folder that can't be written to, of which the compiler warns
        write_checked(path, pickle.dumps(tuple(made)))
    return made


@functools.cache
def _sources() -> str:
    """A digest of the sources, and of the version of Python's code objects."""
    found, root = hashlib.sha256(MAGIC_NUMBER), Path(__file__).parent
    for folder in _FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
