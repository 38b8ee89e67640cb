"""Source text to machine code: the only place that calls njit.

A kernel's text is self-contained, so its hash names everything that decides its machine code.
Compiled overloads are kept on disk, one file each, under a name made of that hash, the argument
types, the CPU and the versions of Python and Numba; a file that exists is therefore never stale.
Processes that need the same kernel at once compile it once between them: ``cache_lock.py``.
Numba's own ``cache=True`` is not used: its key misses options, constants and callees, and its
index file has no lock.
"""

from __future__ import annotations

import ast
import atexit
import functools
import hashlib
import linecache
import os
import pickle
import re
import shutil
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import config
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.codegen.source import Definition
from jitgrad.kernels.collector import paused_collector
from jitgrad.kernels.gathers import NO_GATHERS
from jitgrad.kernels.inlined_functions import share_inlined
from jitgrad.kernels.loaded_code import unpickled

try:
    from jitgrad.kernels.pipeline import InlinedPipeline, KernelPipeline
except ImportError:  # a Numba whose parts have moved; its own pipeline does the same, more slowly
    KernelPipeline = InlinedPipeline = Compiler  # type: ignore[misc]

__all__ = [
    "KernelError", "cache_directory", "compilation", "compile_text", "cpu_features", "import_words", "kept_library",
    "numba_setting", "read_checked", "statistics", "write_checked",
]  # fmt: skip

# Every kernel's text begins with this and names nothing else that it does not define.
PRELUDE = """\
import math
import numpy as np
from numba import njit
"""
# What is imported where a text has the word: (word, file of kernels/words, names).
IMPORTED = (
    ("scratch(", "scratch", "scratch"),
    (" gemm(", "gemm", "gemm"),
    (" gemm_part(", "gemm", "gemm_part"),
    (" product_tile(", "tile", "product_tile"),
    (" sum_tile(", "tile", "sum_tile"),
    ("_within", "checked_index", "_within, _within_flat"),
    ("_places(", "winograd", "copy_numbers, gradient_places, tile_places, tile_results"),
    ("float16(", "half", "from_bfloat16, from_float16, to_bfloat16, to_float16"),
)
# nogil: for the pool of threads. error_model: x / 0 is inf, as in NumPy, and costs no branch.
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Never fastmath=True, under which isnan(nan) is false. Sums may be reordered where a loop says so: nsz, as a sum of
# lanes starts from +0.
CONTRACT, REASSOCIATE = frozenset({"contract"}), frozenset({"contract", "reassoc", "nsz"})


class KernelError(TypeError):
    """A kernel's text cannot be compiled for the argument types that it was given."""

    place = ""  # file, line and text of the statement, where Numba names one


class Statistics:
    """What this process compiled and what it found on disk."""

    compiled: int = 0
    loaded: int = 0
    compile_seconds: float = 0.0
    load_seconds: float = 0.0


statistics = Statistics()


class Compilation(threading.local):
    """What this thread has spent on machine code since its latest observed launch began.

    seconds: for writing a kernel's text, for compiling it or reading from disk what was compiled before, and for
    waiting until another thread has done so. compiled: whether any of it was compiling.
    """

    seconds: float = 0.0
    compiled: bool = False


compilation = Compilation()


def _user_cache() -> Path:
    if os.environ.get("JITGRAD_CACHE_DIR"):
        return Path(os.environ["JITGRAD_CACHE_DIR"])
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "jitgrad" / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "jitgrad"


@functools.cache
def _host() -> tuple[str, str]:
    """The CPU and its features. LLVM compiles for these: machine code of another CPU could trap."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def cpu_features() -> set[str]:
    """The CPU's features by LLVM's names, such as "avx2"."""
    return {feature[1:] for feature in _host()[1].split(",") if feature[:1] == "+"}


def _stamp() -> str:
    """Names everything outside the kernel's text that its machine code depends on."""
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k == "NUMBA_OPT")
    host = _host()
    cpu, features = os.environ.get("NUMBA_CPU_NAME") or host[0], os.environ.get("NUMBA_CPU_FEATURES") or host[1]
    digest = hashlib.sha256(repr((features, NO_GATHERS, settings, llvm.get_process_triple())).encode()).hexdigest()[:12]
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    return f"numba{numba.__version__}-{python}-{cpu}-{digest}"


def cache_directory() -> Path:
    """The folder that holds compiled kernels: ``$JITGRAD_CACHE_DIR``, else the user's cache."""
    try:
        return _user_cache() / _stamp()
    except RuntimeError:  # no home directory
        return _temporary_cache() / _stamp()


@functools.cache
def _temporary_cache() -> Path:
    """A folder for this process alone, where the user has no home.

    Not one that other processes would find: what lies in the cache is unpickled, and anybody may write to the folder
    of temporary files.
    """
    folder, process = tempfile.mkdtemp(prefix="jitgrad-"), os.getpid()  # readable and writable by this user only

    @atexit.register
    def remove() -> None:
        if os.getpid() == process:  # a forked child uses its parent's folder
            shutil.rmtree(folder, ignore_errors=True)

    warnings.warn(
        f"jitgrad found no home directory and keeps compiled kernels in {folder} until this process ends; every "
        "process will compile them again. Set JITGRAD_CACHE_DIR to a writable folder.",
        stacklevel=3,
    )
    return Path(folder)


class DiskCache:
    """Numba's cache protocol for one kernel: a checked file per overload, written by rename."""

    warned = False
    cache_path = None

    def __init__(self, stem: str, text: str):
        self.stem, self.text = stem, text
        self.lock: CacheLock | None = None

    def _path(self, signature: Any) -> Path:
        # repr, since the hash of Numba's types differs from process to process.
        types_hash = hashlib.sha256(repr(tuple(getattr(signature, "args", signature))).encode()).hexdigest()[:16]
        return cache_directory() / f"{self.stem}-{types_hash}.kernel"

    def load_overload(self, signature: Any, target_context: Any) -> CompileResult | None:
        path = self._path(signature)
        result = _load(path, target_context)
        if result is None:
            # Held until this process has compiled and saved the kernel: `unlock`.
            self.lock = CacheLock(path)
            # Another process may have saved it since this one looked.
            result = _load(path, target_context)
        return result

    def unlock(self) -> None:
        """Let other processes go on, whether the kernel was saved or could not be compiled."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        payload = pickle.dumps(result._reduce())
        try:
            path = self._path(signature)
            write_checked(path, payload)
            # For who wants to read a kernel: `Kernel.origin` names this file.
            source = path.parent / f"{self.stem}.py"
            if not source.exists():
                _write(source, self.text.encode())
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not DiskCache.warned:
            DiskCache.warned = True
            warnings.warn(
                f"jitgrad cannot keep compiled kernels in {cache_directory()} ({error}); "
                "every process will compile them again. Set JITGRAD_CACHE_DIR to a writable folder.",
                stacklevel=2,
            )

    def flush(self) -> None:
        """Part of Numba's protocol; files are only removed by ``python -m jitgrad cache``."""


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
    _write(path, _checksum(path, payload) + payload)


def kept_library(name: str, text: str, compile_library: Callable[[], Any]) -> Any:
    """The library of a module of LLVM's, from disk; else what ``compile_library`` makes, which is then kept there.

    text: the module's, or what else alone decides the machine code. The library must have object caching enabled.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_directory() / f"{name}-{digest}.library"
    if (library := _kept(path)) is not None:
        return library
    lock = CacheLock(path)
    try:
        # Another process may have saved it since this one looked.
        if (library := _kept(path)) is not None:
            return library
        library = compile_library()
        with suppress(Exception):  # a folder that can't be written to, another Numba: every process compiles it again
            write_checked(path, pickle.dumps(library.serialize_using_object_code()))
        return library
    finally:
        lock.release()


def _kept(path: Path) -> Any:
    """The library that a file holds; None if there is none to be had."""
    with suppress(Exception):  # it isn't there, or whatever lies in the file: compiling afresh is right
        if (payload := read_checked(path)) is not None:
            return cpu_target.target_context.codegen().unserialize_library(pickle.loads(payload))


def _load(path: Path, target_context: Any) -> CompileResult | None:
    """The kernel that a file holds; None if it isn't there, is damaged, or was written under another name."""
    start = time.perf_counter()
    try:
        payload = read_checked(path)
        if payload is None:
            return None
        # All that running a compiled kernel needs. Numba's own cache calls `refresh`, which imports everything that
        # compiling needs, SciPy's linear algebra among it, and takes 0.2 s.
        rtsys.initialize(target_context)
        result = CompileResult._rebuild(target_context, *unpickled(payload))
    except Exception:  # whatever lies in the file, compiling afresh is right
        return None
    statistics.loaded += 1
    statistics.load_seconds += time.perf_counter() - start
    return result


def _write(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # Atomic: another process sees the whole file or none.
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class _Timed:
    """A dispatcher's compile method that counts time and explains failures."""

    def __init__(self, name: str, dispatcher: Any, cache: DiskCache):
        self.name, self.compile, self.cache = name, dispatcher.compile, cache
        self.overloads = dispatcher.overloads

    def __call__(self, signature: Any) -> Any:
        start, loaded = time.perf_counter(), statistics.loaded
        try:
            # The collector would take a fifth of the time to find that nearly all of Numba's objects are in use.
            with numba_setting("BOUNDSCHECK", None), paused_collector():
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


@contextmanager
def numba_setting(name: str, value: Any) -> Iterator[None]:
    """A setting of Numba's for the time of a compilation.

    NUMBA_BOUNDSCHECK and NUMBA_DISABLE_JIT are for loops that users debug. jitgrad's strided kernels index beyond
    arrays of one element on purpose, so both would break them.
    """
    # Numba compiles under this lock (it is reentrant), so no other thread compiles with the changed setting.
    with global_compiler_lock:
        before = getattr(config, name)
        setattr(config, name, value)
        try:
            yield
        finally:
            setattr(config, name, before)


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
def import_words(file: str, names: str) -> str:
    """A line for a kernel's text that imports words, with a digest of their file: another version, another kernel."""
    path = Path(__file__).with_name("words") / f"{file}.py"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.exists() else ""
    return f"from jitgrad.kernels.words.{file} import {names}  # {digest}\n"


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
    text = PRELUDE + "".join(import_words(file, names) for word, file, names in IMPORTED if word in text) + text
    chosen = f"{sorted(OPTIONS.items())}{'checked' if checked else ''}{'' if allocates else 'uncounted'}"
    # Machine code has the lines of the exceptions that it raises.
    chosen += "".join(f"{d.file}:{d.tree.lineno}" for d in definitions if _raises(d.tree))
    key = hashlib.sha256(f"{text}{sorted(fastmath)}{chosen}".encode()).hexdigest()[:24]
    stem = f"{name}-{key}"
    module = types.ModuleType(f"jitgrad_kernel_{name}_{key}")
    # Registered first: what is loaded from disk looks its module up by name.
    sys.modules[module.__name__] = module
    filename = f"<jitgrad {stem}.py>"
    # Tracebacks, and Numba's errors, show the lines of generated text.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    # A user's loop is a plain function under NUMBA_DISABLE_JIT, for a debugger to step through.
    with numba_setting("DISABLE_JIT", config.DISABLE_JIT if definitions else 0):
        exec(compile(text, filename, "exec"), module.__dict__)
        for d in definitions:
            exec(compile(ast.Module([d.tree], []), d.file, "exec"), module.__dict__)
        share_inlined(module, name, InlinedPipeline)
        pipeline = Compiler if definitions else KernelPipeline
        options = {"pipeline_class": pipeline, "_nrt": allocates, "boundscheck": checked, "fastmath": set(fastmath)}
        dispatcher = numba.njit(**OPTIONS, **options)(getattr(module, name))
    if hasattr(dispatcher, "_cache"):
        dispatcher._cache = cache = DiskCache(stem, text)
        dispatcher.compile = _Timed(name, dispatcher, cache)
        dispatcher._compile_for_args = _TooBig(dispatcher)
        dispatcher.text_file = filename
    return dispatcher
