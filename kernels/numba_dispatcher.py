"""Source text to Numba's dispatchers: the only place that calls njit, imported when a kernel has to be compiled."""

from __future__ import annotations

import ast
import functools
import linecache
import marshal
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core.compiler import Compiler
from numba.core.typing.typeof import typeof_impl

from jitgrad.kernels.argument_kinds import kind_of, numba_types
from jitgrad.kernels.codegen.source import Definition
from jitgrad.kernels.collector import paused_collector
from jitgrad.kernels.disk_cache import DiskCache, is_called
from jitgrad.kernels.inlined_functions import share_inlined
from jitgrad.kernels.kernel_text import OPTIONS, KernelError, KernelText
from jitgrad.kernels.lazy_array import LazyArray, Unresolved
from jitgrad.kernels.native_compilation import numba_setting
from jitgrad.kernels.statistics import compilation, statistics
from jitgrad.kernels.stored_kernel import Overload

try:
    from jitgrad.kernels.pipeline import InlinedPipeline, KernelPipeline
except ImportError:  # a Numba whose parts have moved; its own pipeline does the same, more slowly
    KernelPipeline = InlinedPipeline = Compiler  # type: ignore[misc]
try:
    from jitgrad.kernels.quick_numba import quick_numba
except (ImportError, AttributeError):  # likewise
    quick_numba = nullcontext  # type: ignore[assignment]

__all__ = ["compiled", "numba_dispatcher"]


class _Timed:
    """A dispatcher's compile method that counts time and explains failures."""

    def __init__(self, name: str, dispatcher: Any, cache: DiskCache):
        self.name, self.compile, self.cache = name, dispatcher.compile, cache
        self.overloads = dispatcher.overloads

    def __call__(self, signature: Any) -> Any:
        start, loaded = time.perf_counter(), statistics.loaded
        try:
            # Under DISABLE_JIT what a kernel calls would stay Python, while the kernel is compiled. The collector would
            # take a fifth of the time to find that nearly all of Numba's objects are in use.
            with (
                numba_setting("BOUNDSCHECK", None), numba_setting("DISABLE_JIT", 0), quick_numba(), paused_collector()
            ):  # fmt: skip
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
    """The Numba type of an argument, asked for when the dispatcher has not met its like yet.

    Of an array Numba would first ask whether it is a masked one, and import ``numpy.ma`` for that, which takes 10 ms.
    """
    if type(value) is not np.ndarray:
        return ask_numba(value)
    try:
        (found,) = numba_types([kind_of(value)])
    except NotImplementedError:
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


@typeof_impl.register(LazyArray)
def _refuse(array: LazyArray, context: Any) -> Any:
    raise Unresolved  # else Numba would compile the kernel for a Python object, and fail some milliseconds later


def numba_dispatcher(made: KernelText, definitions: Sequence[Definition] = ()) -> Any:
    """Numba's dispatcher of the function that a text defines; a plain function if ``NUMBA_DISABLE_JIT`` is set.

    definitions: see `compiler.compile_text`; only these are left as they are by that setting.
    """
    module = ModuleType(f"jitgrad_kernel_{made.name}_{made.key}")
    # Registered first: what is loaded from disk looks its module up by name.
    sys.modules[module.__name__] = module
    with numba_setting("DISABLE_JIT", config.DISABLE_JIT if definitions else 0):
        exec(marshal.loads(made.code), module.__dict__)
        for d in definitions:
            exec(compile(ast.Module([d.tree], []), d.file, "exec"), module.__dict__)
        share_inlined(module, made.name, InlinedPipeline)
        options = {
            "pipeline_class": Compiler if definitions else KernelPipeline, "_nrt": made.allocates,
            "boundscheck": made.checked, "fastmath": set(made.fastmath),
        }  # fmt: skip
        dispatcher = numba.njit(**OPTIONS, **options)(getattr(module, made.name))
    if hasattr(dispatcher, "_cache"):
        dispatcher._cache = cache = DiskCache(f"{made.name}-{made.key}", made.text)
        dispatcher.compile = _Timed(made.name, dispatcher, cache)
        dispatcher._compile_for_args = _TooBig(dispatcher)
        dispatcher.typeof_pyval = functools.partial(_type_of, dispatcher, dispatcher.typeof_pyval)
    return dispatcher


def compiled(dispatcher: Any, signature: tuple[Any, ...]) -> Overload:
    """What a dispatcher compiles for Numba types."""
    dispatcher.compile(signature)
    result = dispatcher.overloads[signature]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return Overload(address, is_called(result), None, result)
