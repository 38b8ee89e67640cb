"""A kernel's function: for each combination of argument kinds that it is called with, machine code from disk.

What isn't on disk Numba compiles (numba_dispatcher.py), which is imported for that only. To import Numba takes longer
than all else that a program does whose kernels are on disk.
"""

from __future__ import annotations

import functools
import linecache
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jitgrad.kernels.argument_kinds import Kind, kinds_of, numba_types, plain
from jitgrad.kernels.cache_files import kernel_file
from jitgrad.kernels.cache_lock import CacheLock
from jitgrad.kernels.codegen.source import Definition
from jitgrad.kernels.kernel_text import KernelError, KernelText, file_name
from jitgrad.kernels.python_call import CallTable, are_found
from jitgrad.kernels.statistics import compilation, statistics
from jitgrad.kernels.stored_kernel import Overload, load_kernel
from jitgrad.kernels.words.compiler_lock import compiler_lock

__all__ = ["CompiledFunction"]


class CompiledFunction(functools.partial[Any]):
    """The function that a kernel's text defines: called with arrays and numbers, it compiles what it lacks.

    It is a ``partial`` of a built-in function, by which a call reaches machine code without a frame of Python's.

    made: the text. definitions: a user's functions among those of the text. overloads: by kinds, what is in memory.
    text_file: the name under which ``linecache`` has the text. table: the kernels that the built-in function calls.
    """

    made: KernelText
    definitions: Sequence[Definition]
    overloads: dict[tuple[Kind, ...], Overload]
    name: str
    text_file: str
    table: CallTable

    def __new__(cls, made: KernelText, definitions: Sequence[Definition] = ()) -> CompiledFunction:
        """Of a text, of which nothing is compiled yet."""
        table = CallTable(made.name, lambda *args: self._other(args))
        self = super().__new__(cls, table.function)
        self.made, self.definitions, self.table = made, definitions, table
        self.name, self.text_file, self.overloads = made.name, file_name(made.name, made.key), {}
        # Tracebacks, and Numba's errors, show the lines of generated text.
        linecache.cache[self.text_file] = (len(made.text), None, made.text.splitlines(True), self.text_file)
        return self

    def __repr__(self) -> str:
        return f"<compiled function {self.name}>"

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the same function."""
        from jitgrad.kernels.numba_dispatcher import numba_dispatcher  # which imports Numba

        return numba_dispatcher(self.made, self.definitions)

    def overload(self, kinds: tuple[Kind, ...]) -> Overload:
        """What is compiled for these kinds, compiled now if need be."""
        if kinds not in self.overloads:
            found = self._loaded(kinds) or self._compiled(kinds)
            if _in_table(found, kinds):
                self.table.add(found.address, kinds, found.function)
            self.overloads[kinds] = found
        return self.overloads[kinds]

    def _loaded(self, kinds: tuple[Kind, ...]) -> Overload | None:
        start = time.perf_counter()
        with suppress(Exception):  # it isn't there, or whatever lies in the file: compiling afresh is right
            if (found := load_kernel(self.path(kinds))) is not None:
                statistics.loaded += 1
                statistics.load_seconds += (seconds := time.perf_counter() - start)
                compilation.seconds += seconds
                return found
        return None

    def path(self, kinds: Sequence[Any]) -> Path:
        """The file on disk for these kinds."""
        return kernel_file(f"{self.name}-{self.made.key}", kinds)

    def in_work(self, kinds: Sequence[Any]) -> bool:
        """Whether another process compiles it for these kinds."""
        with compiler_lock():
            lock = CacheLock(self.path(kinds), 0)
            lock.release()
        return not lock.held

    def _compiled(self, kinds: tuple[Kind, ...]) -> Overload:
        from jitgrad.kernels.numba_dispatcher import compiled  # which imports Numba

        return compiled(self.dispatcher, numba_types(kinds))

    def _other(self, args: tuple[Any, ...]) -> Any:
        """A call for which the table has no kernel."""
        try:
            kinds = kinds_of(args)
        except NotImplementedError:
            _refuse(self.name, args)
            return self.dispatcher(*args)
        known, found = kinds in self.overloads, self.overload(kinds)
        if not _in_table(found, kinds):
            # Numba finds it among all kinds by itself.
            self.table.set_other(self.dispatcher)
            return self.dispatcher(*args)
        given = tuple(map(plain, args))
        if not known or any(g is not a for g, a in zip(given, args, strict=True)):
            return self(*given)
        return self.dispatcher(*args)


def _in_table(found: Overload, kinds: Sequence[Kind]) -> bool:
    """Whether calls reach an overload without Numba's dispatcher."""
    return found.called or (found.function is not None and are_found(kinds))


def _refuse(name: str, args: Sequence[Any]) -> None:
    """Raise the error for arguments that no kernel takes, which Numba would find by compiling for them."""
    for a in args:
        if isinstance(a, int) and not -(1 << 63) <= a < 1 << 64:
            raise OverflowError("int too big to convert")
        if type(a).__module__.startswith(("jitgrad.", "numpy.ma")):  # of arrays of devices, and masked ones
            raise KernelError(f"{name}: takes arrays of NumPy and numbers, got {type(a).__name__}")
