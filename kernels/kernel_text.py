"""What a kernel is compiled from: a text that is self-contained, so its hash names everything that decides its machine
code, and is what that is kept under on disk."""

from __future__ import annotations

import ast
import functools
import hashlib
import marshal
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jitgrad.kernels.codegen.source import Definition

__all__ = [
    "CONTRACT", "OPTIONS", "PRELUDE", "REASSOCIATE", "KernelError", "KernelText", "file_name", "kernel_text",
]  # fmt: skip

# Every kernel's text begins with this and names nothing else that it does not define.
PRELUDE = """\
import math
import numpy as np
from numba import njit
"""
_Words = tuple[tuple[str, str, str], ...]
# What is imported where a text has the word: (word, file in kernels, names).
IMPORTED: _Words = (
    (" draw(", "random_draw", "draw"),
    ("scratch(", "words/scratch", "scratch"),
    ("prefetch(", "words/prefetch", "prefetch"),
    (" fma(", "words/fma", "fma"),
    (" stream(", "words/stream", "drain, stream"),
    (" gemm(", "words/gemm", "gemm"),
    (" gemm_part(", "words/gemm", "gemm_part"),
    (" product_tile(", "words/tile", "product_tile"),
    (" squares_tile(", "words/tile", "squares_tile"),
    (" sum_tile(", "words/tile", "sum_tile"),
    ("array_at(", "words/memory", "array_at, number_at"),
    ("matrix_in(", "words/memory", "matrix_in"),
    ("_within", "words/checked_index", "_within, _within_flat"),
    ("_places(", "words/winograd", "copy_numbers, gradient_places, tile_places, tile_results"),
    ("float16(", "words/half", "from_bfloat16, from_float16, to_bfloat16, to_float16"),
)
# The same for text of ours alone; a user's may call Python's and NumPy's functions with what it likes.
REPLACED: _Words = (("min(", "words/extremes", "min"), ("max(", "words/extremes", "max"))
NEW_ARRAYS: _Words = (("np.empty(", "words/new_arrays", "numpy as np"), ("np.zeros", "words/new_arrays", "numpy as np"))
# nogil: for the pool of threads. error_model: x / 0 is inf, as in NumPy, and costs no branch.
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Never fastmath=True, under which isnan(nan) is false. Sums may be reordered where a loop says so: nsz, as a sum of
# lanes starts from +0.
CONTRACT, REASSOCIATE = frozenset({"contract"}), frozenset({"contract", "reassoc", "nsz"})


class KernelError(TypeError):
    """A kernel's text cannot be compiled for the argument types that it was given."""

    place = ""  # file, line and text of the statement, where Numba names one


def _raises(tree: ast.AST) -> bool:
    return any(isinstance(node, (ast.Raise, ast.Assert)) for node in ast.walk(tree))


@functools.cache
def _import_words(file: str, names: str) -> str:
    """A line for a kernel's text that imports words, with a digest of their file: another version, another kernel."""
    path = Path(__file__).parent / f"{file}.py"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.exists() else ""
    return f"from jitgrad.kernels.{file.replace('/', '.')} import {names}  # {digest}\n"


def _imports(text: str, of_user: bool) -> str:
    """The lines that import the words which a text has."""
    words = IMPORTED if of_user else IMPORTED + REPLACED
    # Numba takes ``number.view(np.int32)`` only where ``np`` is NumPy itself.
    if not of_user and ".view(" not in text:
        words += NEW_ARRAYS
    return "".join(dict.fromkeys([_import_words(file, names) for word, file, names in words if word in text]))


# Constants such as T(0.5). As a global of the module a constant is one statement of Numba's IR; as a call it is three.
_CONSTANT = re.compile(
    r"np\.int64\(-?\d+\)\.view\(np\.float64\)"
    r"|\b(?:T|A|np\.(?:float|u?int)(?:32|64))\(-?\d[\d.]*(?:e-?\d+)?(?: \*\* \(-\d+\))?\)(?!\.)"
)


def _with_constants(text: str) -> str:
    """The text with constants replaced by names of globals, which its last lines define.

    A constant has the same name in all texts: functions that are equal stay so, and are compiled once.
    """
    names: dict[str, str] = {}
    named = _CONSTANT.sub(lambda found: names.setdefault(found[0], f"_{found[0].encode().hex()}"), text)
    return "\n".join([named, *(f"{name} = {number}" for number, name in names.items())])


class KernelText(NamedTuple):
    """A kernel's complete text and the options it is compiled with.

    key: the hash of both, under which machine code is kept. code: the text's code object, marshalled. writes: the
    positions of the parameters that it stores into, where that was found out.
    """

    name: str
    text: str
    fastmath: frozenset[str]
    checked: bool
    allocates: bool
    key: str
    code: bytes
    writes: tuple[int, ...] | None = None


def kernel_text(
    name: str, text: str, fastmath: frozenset[str] = CONTRACT, definitions: Sequence[Definition] = (),
    checked: bool = False, allocates: bool = True,
) -> KernelText:  # fmt: skip
    """A kernel's complete text, with its key and code object; the parameters are those of `compiler.compile_text`."""
    text = PRELUDE + _imports(text, of_user=bool(definitions)) + text
    chosen = f"{sorted(OPTIONS.items())}{'checked' if checked else ''}{'' if allocates else 'uncounted'}"
    # Machine code has the lines of the exceptions that it raises.
    chosen += "".join(f"{d.file}:{d.tree.lineno}" for d in definitions if _raises(d.tree))
    key = hashlib.sha256(f"{text}{sorted(fastmath)}{chosen}".encode()).hexdigest()[:24]
    # In a user's text T and A may be functions.
    named = text if definitions else _with_constants(text)
    code = marshal.dumps(compile(named, file_name(name, key), "exec"))
    return KernelText(name, text, fastmath, checked, allocates, key, code)


def file_name(name: str, key: str) -> str:
    """The file name of a text in tracebacks, made of that of its file in the cache."""
    return f"<jitgrad {name}-{key}.py>"
