"""What was derived from a function, kept on disk: the next process neither reads the function's text nor derives.

A file of notes belongs to one function and one combination of its parameters' kinds. It names all that the derivation
looked at: the text of the function's file, and of each function that is written out in it, and what the names in these
stood for. Where any of that is different now, or jitgrad is, the function is derived anew. Names may stand for numbers,
modules, and what modules define; where one stands for anything else nothing is kept.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import pickle
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.routine import MISSING, Meanings, found_by, lines_of, plain_function, recorded
from jitgrad.kernels.cache_files import cache_directory, read_checked, write_checked

__all__ = ["Notes"]

Make = Callable[[], Any]
# What is known of a function: its own digest, and by dotted name what that stood for: a digest, or the place of a
# function in the list of all.
Record = list[tuple[str, dict[str, str | int]]]


class Notes:
    """What is known of a function under a name."""

    def __init__(self, function: Callable[..., Any], name: str):
        self.function = plain_function(function)
        self.meanings: Meanings = {}  # of names in the function, and in those that it calls
        self.record: Record | None = None
        self.items: dict[Any, Any] = {}
        own = _own(self.function)
        self.path: Path | None = None
        if own:
            key = hashlib.sha256(repr((name, own, _stamp())).encode()).hexdigest()[:24]
            self.path = cache_directory() / f"{self.function.__name__}-{key}.derived"
            self._load(self.path)

    def get(self, key: Any, make: Make) -> Any:
        """What is kept under a key, else what ``make`` derives from the program."""
        if key not in self.items:
            self.items[key] = make()
            self._save()
        return self.items[key]

    def read(self, key: Any, make: Make) -> Any:
        """The same of what ``make`` reads from the function's text."""
        if key not in self.items:
            with recorded(self.meanings) as seen:
                self.items[key] = make()
            self.meanings, self.record = seen, _record(self.function, seen)
            self._save()
        return self.items[key]

    def program(self, make: Callable[[], Program]) -> Program:
        """The function's program, of which all but the body is kept."""
        made: list[Program] = []

        def header() -> dict[str, Any]:
            made.append(make())
            return {n: copy.copy(v) for n, v in vars(made[0]).items() if n not in ("body", "source")}

        found = self.read("program", header)
        if made:
            return made[0]

        def body() -> Any:
            with recorded(self.meanings):  # as it was when the rest was derived
                return make().body

        return _Outline.of({**found, "source": lines_of(self.function)}, body)

    def _load(self, path: Path) -> None:
        with suppress(Exception):  # it isn't there, or whatever lies in the file: deriving afresh is right
            record, items = pickle.loads(read_checked(path) or b"")
            meanings: Meanings = {}
            if _holds(record, 0, self.function, meanings, {}):
                self.record, self.items, self.meanings = record, items, meanings

    def _save(self) -> None:
        if self.path is not None and self.record is not None:
            with suppress(Exception):  # a folder that can't be written to: every process derives
                write_checked(self.path, pickle.dumps((self.record, self.items)))


class _Outline(Program):
    """A program whose body is derived when it is first asked for."""

    @classmethod
    def of(cls, header: dict[str, Any], body: Make) -> _Outline:
        found = object.__new__(cls)
        found.__dict__.update(header, _body=body)
        return found

    def __getattr__(self, name: str) -> Any:
        if name != "body":
            raise AttributeError(name)
        self.body = self.__dict__["_body"]()
        return self.body


@functools.cache
def _stamp() -> tuple[Any, ...]:
    """The version of whatever derives."""
    found = []
    for folder in ("adjoint", "codegen", "words"):
        with suppress(OSError), os.scandir(Path(__file__).parents[1] / folder) as files:
            found += [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.name.endswith(".py")]
    return np.__version__, *sorted(found)


def _own(function: Callable[..., Any]) -> str:
    """A digest of a function's text and defaults; "" if there is none."""
    code, lines = function.__code__, lines_of(function)
    defaults = [_identity(v) for v in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())]
    if not lines or None in defaults:
        return ""
    place = function.__module__, code.co_filename, code.co_firstlineno, function.__name__, _compiled(code)
    text = repr((place, sorted(function.__kwdefaults__ or {}), defaults)) + "".join(lines)
    return hashlib.sha256(text.encode()).hexdigest()


def _compiled(code: types.CodeType) -> str:
    """A digest of compiled code, which may be older than the text."""
    constants = [_compiled(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    parts = code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _identity(value: Any) -> str | None:
    """What tells a value from others that a name could stand for; None where this can't be known."""
    kind = type(value)
    if value is MISSING:
        return "missing"
    if value is None or kind in (bool, int, float, str) or isinstance(value, np.generic):
        return f"{kind.__name__} {value!r}"
    if kind is tuple:
        items = [_identity(v) for v in value]
        return None if None in items else f"tuple {items}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, np.ufunc):
        return f"ufunc {value.__name__}"
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    known = isinstance(module, str) and module.partition(".")[0] in ("builtins", "math", "numba", "numpy")
    return f"{kind.__name__} {module}.{name}" if known and isinstance(name, str) else None


def _record(function: Callable[..., Any], seen: Meanings) -> Record | None:
    """What was seen, as something that can be kept; None if not all can."""
    functions = [function, *(f for f in seen if f is not function)]
    found: Record = []
    for f in functions:
        names: dict[str, Any] = {}
        for path, value in seen.get(f, {}).items():
            plain = plain_function(value)
            is_read = isinstance(plain, types.FunctionType) and plain in seen
            names[path] = functions.index(plain) if is_read else _identity(value)
        own = _own(f)
        if not own or None in names.values():
            return None
        found.append((own, names))
    return found


def _holds(record: Record, place: int, function: Callable[..., Any], meanings: Meanings, known: dict[int, Any]) -> bool:
    """Whether all is as it was recorded of the function at a place; ``meanings`` becomes what its names stand for."""
    if place in known:
        return known[place] is function
    own, names = record[place]
    known[place], meanings[function] = function, {}
    if own != _own(function):
        return False
    for path, wanted in names.items():
        value = meanings[function][path] = found_by(function, path)
        if isinstance(wanted, str):
            if _identity(value) != wanted:
                return False
        else:
            plain = plain_function(value)
            if not isinstance(plain, types.FunctionType) or not _holds(record, wanted, plain, meanings, known):
                return False
    return True
