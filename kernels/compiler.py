"""Source text to machine code: the only place that calls njit.

A kernel's text is self-contained, so its hash names everything that decides its machine code, and is what
``disk_cache.py`` keeps that under.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
import marshal
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import config, types
from numba.core.compiler import Compiler
from numba.core.errors import NumbaNotImplementedError
from numba.np.numpy_support import from_dtype, map_layout

from jitgrad.kernels.codegen.source import Definition
from jitgrad.kernels.collector import paused_collector
from jitgrad.kernels.disk_cache import DiskCache
from jitgrad.kernels.inlined_functions import share_inlined
from jitgrad.kernels.native_library import numba_setting
from jitgrad.kernels.statistics import compilation, statistics

try:
    from jitgrad.kernels.pipeline import InlinedPipeline, KernelPipeline
except ImportError:  # a Numba whose parts have moved; its own pipeline does the same, more slowly
    KernelPipeline = InlinedPipeline = Compiler  # type: ignore[misc]
try:
    from jitgrad.kernels.quick_numba import quick_numba
except (ImportError, AttributeError):  # likewise
    quick_numba = nullcontext  # type: ignore[assignment]

__all__ = ["PRELUDE", "KernelError", "KernelText", "compile_kernel", "compile_text", "kernel_text"]

# Every kernel's text begins with this and names nothing else that it does not define.
PRELUDE = """\
import math
import numpy as np
from numba import njit
"""
_Words = tuple[tuple[str, str, str], ...]
# What is imported where a text has the word: (word, file in kernels, names).
IMPORTED: _Words = (
    (" draw(", "mersenne_twister", "draw"),
    ("scratch(", "words/scratch", "scratch"),
    ("prefetch(", "words/prefetch", "prefetch"),
    (" stream(", "words/stream", "drain, stream"),
    (" gemm(", "words/gemm", "gemm"),
    (" gemm_part(", "words/gemm", "gemm_part"),
    (" product_tile(", "words/tile", "product_tile"),
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


class _Timed:
    """A dispatcher's compile method that counts time and explains failures."""

    def __init__(self, name: str, dispatcher: Any, cache: DiskCache):
        self.name, self.compile, self.cache = name, dispatcher.compile, cache
        self.overloads = dispatcher.overloads

    def __call__(self, signature: Any) -> Any:
        start, loaded = time.perf_counter(), statistics.loaded
        try:
            # The collector would take a fifth of the time to find that nearly all of Numba's objects are in use.
            with numba_setting("BOUNDSCHECK", None), quick_numba(), paused_collector():
                # Another thread that called it at the same time may have been faster.
                known = tuple(getattr(signature, "args", signature)) in self.overloads
                try:
                    entry = self.compile(signature)
                finally:
                    # Still under Numba's lock: another thread that compiles the same kernel takes the file's lock next.
                    self.cache.unlock()
        except Exception as error:  # Numba's own, or one of Python's from within Numba
            args = ", ".join(str(a) for a in getattr(signature, "args", signature))
            raise _explained(f"{self.name}: cannot compile for ({args})", error) from None
        seconds = time.perf_counter() - start
        if statistics.loaded == loaded and not known:
            statistics.compiled += 1
            statistics.compile_seconds += seconds
            compilation.compiled = True
        compilation.seconds += seconds
        return entry


class _TooBig:
    """A dispatcher's step from arguments to types, in which ints beyond 64 bits become objects: OverflowError names it.

    Called for types that were not met before only; calls of what is compiled don't come here.
    """

    def __init__(self, dispatcher: Any):
        self.compile_for = dispatcher._compile_for_args

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.compile_for(*args, **kwargs)
        except KernelError:
            if any(isinstance(a, int) and not -(1 << 63) <= a < 1 << 64 for a in args):
                raise OverflowError("int too big to convert") from None
            raise


def _type_of(dispatcher: Any, ask_numba: Callable[[Any], Any], value: Any) -> Any:
    """The Numba type of an argument, asked for when it is of a kind that the process has not met yet.

    Of an array Numba would first ask whether it is a masked one, and import ``numpy.ma`` for that, which takes 10 ms.
    """
    if type(value) is not np.ndarray:
        return ask_numba(value)
    try:
        found = types.Array(from_dtype(value.dtype), value.ndim, map_layout(value), readonly=not value.flags.writeable)
    except NumbaNotImplementedError:
        return ask_numba(value)
    dispatcher._types_active_call.add(found)
    return found


def _explained(what: str, error: Exception) -> KernelError:
    """The cause that Numba's report names, and the line of code with its file."""
    lines = [line.strip() for line in str(error).splitlines()]
    made = KernelError(what)
    made.place = _place(lines)
    # Why the only candidate was rejected says more than that none was found.
    marks = [k for k, line in enumerate(lines) if line.endswith("raised a specific error:")]
    causes = lines[marks[0] + 1 : marks[0] + 2] if marks else []
    end = next((k for k, line in enumerate(lines) if line.startswith("File ")), len(lines))
    noise = ("Failed in", "During:", "There are", "-", "<", "^", "[1]", "Overload ")
    causes += [line for line in lines[:end] if line and not line.startswith(noise)][:2]
    cause = "; ".join(filter(None, [*causes, made.place])) or type(error).__name__
    made.args = (f"{what}: {cause}",)
    return made


def _place(lines: list[str]) -> str:
    """The first line of code outside Numba that a report names, with the full path of its file."""
    for line in lines:
        if found := re.match(r'File "(.+)", line (\d+)', line):
            file, number = found[1], int(found[2])
            file = os.path.abspath(file) if os.path.exists(file) else file  # Numba has it from the current folder
            if not file.startswith(os.path.dirname(numba.__file__)):
                return f"{file}:{number}: {linecache.getline(file, number).strip()}"
    return ""


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
    """A kernel's complete text, with its key and code object; the parameters are those of `compile_text`."""
    text = PRELUDE + _imports(text, of_user=bool(definitions)) + text
    chosen = f"{sorted(OPTIONS.items())}{'checked' if checked else ''}{'' if allocates else 'uncounted'}"
    # Machine code has the lines of the exceptions that it raises.
    chosen += "".join(f"{d.file}:{d.tree.lineno}" for d in definitions if _raises(d.tree))
    key = hashlib.sha256(f"{text}{sorted(fastmath)}{chosen}".encode()).hexdigest()[:24]
    # In a user's text T and A may be functions.
    named = text if definitions else _with_constants(text)
    code = marshal.dumps(compile(named, _file_name(name, key), "exec"))
    return KernelText(name, text, fastmath, checked, allocates, key, code)


def _file_name(name: str, key: str) -> str:
    """The file name of a text in tracebacks, made of that of its file in the cache."""
    return f"<jitgrad {name}-{key}.py>"


def compile_text(
    name: str, text: str, fastmath: frozenset[str] = CONTRACT, definitions: Sequence[Definition] = (),
    checked: bool = False, allocates: bool = True,
) -> Any:  # fmt: skip
    """Return the function ``name`` that ``text`` defines, as a lazily compiling Numba dispatcher.

    ``text`` may use ``np``, ``math`` and ``njit`` and must define everything else that it names. ``checked``: indices
    are compared with the arrays' sizes. ``allocates``: False for a text that makes no arrays; without the counting of
    references to arrays it is compiled in less time. ``definitions``: a user's functions among those of the text, with
    the same statements at the lines of the user's file, which errors and debuggers then show.
    """
    return compile_kernel(kernel_text(name, text, fastmath, definitions, checked, allocates), definitions)


def compile_kernel(made: KernelText, definitions: Sequence[Definition] = ()) -> Any:
    """The function of a text, see `compile_text`."""
    name, text, filename = made.name, made.text, _file_name(made.name, made.key)
    module = ModuleType(f"jitgrad_kernel_{name}_{made.key}")
    # Registered first: what is loaded from disk looks its module up by name.
    sys.modules[module.__name__] = module
    # Tracebacks, and Numba's errors, show the lines of generated text.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    # A user's loop is a plain function under NUMBA_DISABLE_JIT, for a debugger to step through.
    with numba_setting("DISABLE_JIT", config.DISABLE_JIT if definitions else 0):
        exec(marshal.loads(made.code), module.__dict__)
        for d in definitions:
            exec(compile(ast.Module([d.tree], []), d.file, "exec"), module.__dict__)
        share_inlined(module, name, InlinedPipeline)
        options = {
            "pipeline_class": Compiler if definitions else KernelPipeline, "_nrt": made.allocates,
            "boundscheck": made.checked, "fastmath": set(made.fastmath),
        }  # fmt: skip
        dispatcher = numba.njit(**OPTIONS, **options)(getattr(module, name))
    if hasattr(dispatcher, "_cache"):
        dispatcher._cache = cache = DiskCache(f"{name}-{made.key}", text)
        dispatcher.compile = _Timed(name, dispatcher, cache)
        dispatcher._compile_for_args = _TooBig(dispatcher)
        dispatcher.typeof_pyval = functools.partial(_type_of, dispatcher, dispatcher.typeof_pyval)
        dispatcher.text_file = filename
        dispatcher.made = None if definitions else made
    return dispatcher
