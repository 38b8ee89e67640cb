"""Ops under observation: while somebody asks for it, wrappers stand wherever ops are called from.

Nothing is tested on any path while nobody does. Several may ask at once and stop in any order: each place
holds the op's function in the wrappers of all of them, the latest outermost. What a program took out of
jitgrad before (``from jitgrad import exp``) is not seen; what it takes out meanwhile keeps its wrappers,
which therefore go on to the function while they have nothing to do.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.dispatch.registry import FUNCTIONS, OPS
from jitgrad.dispatch.structured import Structured

__all__ = ["OpFunction", "add_wrapper", "remove_wrapper", "subclasses"]


class OpFunction(NamedTuple):
    """A function by which users and other ops apply an op."""

    call: Callable[..., Any]
    operation: Any  # the ElementwiseOp or the Structured class; None for a function composed of several
    in_place: bool
    own: bool  # the op's own function, not one that goes on to it


# Called with (what is to be wrapped, the function to go on to); None leaves the place as it is.
Wrapper = Callable[[OpFunction, Callable[..., Any]], Callable[..., Any] | None]


class _Place(NamedTuple):
    owner: Any  # a namespace, a class or an ElementwiseOp
    name: str
    function: OpFunction
    value: Any  # what stands there while nobody asks for wrappers: the function, or it as a static method

    def put(self, call: Callable[..., Any]) -> None:
        plain, static = call is self.function.call, isinstance(self.value, staticmethod)
        value = self.value if plain else staticmethod(call) if static else call
        if isinstance(self.owner, dict):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)


_lock = threading.RLock()
_wrappers: list[Wrapper] = []
_places: list[_Place] = []
_known: list[Any] = []  # how many modules and ops there were when places were looked for
_wrapped: dict[tuple[Any, ...], Callable[..., Any]] = {}  # by the function's id and the wrappers


def add_wrapper(wrapper: Wrapper) -> None:
    """Put a wrapper round every op, until ``remove_wrapper``; counts how often it was added."""
    with _lock:
        if not _wrappers:
            _find()
        _wrappers.append(wrapper)
        _write()


def remove_wrapper(wrapper: Wrapper) -> None:
    """Take a wrapper away again."""
    with _lock:
        _wrappers.remove(wrapper)
        _write()


def _write() -> None:
    wrappers = tuple(dict.fromkeys(_wrappers))
    for place in _places:
        place.put(_composed(place.function, wrappers))


def _composed(function: OpFunction, wrappers: tuple[Wrapper, ...]) -> Callable[..., Any]:
    if not wrappers:
        return function.call
    key = id(function.call), wrappers
    found = _wrapped.get(key)
    if found is None:
        inner = _composed(function, wrappers[:-1])
        found = _wrapped[key] = wrappers[-1](function, inner) or inner
    return found


# -- where ops are called from ------------------------------------------------------------------------


def _find() -> None:
    names = [n for n in tuple(sys.modules) if n == "jitgrad" or n.startswith("jitgrad.")]
    now = [len(names), len(OPS), len(FUNCTIONS)]
    if _known == now:
        return
    _wrapped.clear()
    functions, outside = _functions(), ("jitgrad.kernels", "jitgrad.profiler")
    spaces = [vars(sys.modules[n]) for n in names if not n.startswith(outside)]
    _places[:] = [
        _Place(owner, name, functions[id(call)], value)
        for owner in [FUNCTIONS, *spaces, Tensor, *OPERATIONS.values(), *subclasses(Structured)]
        for name, call, value in _contents(owner) if id(call) in functions
    ]  # fmt: skip
    _known[:] = now


def _contents(owner: Any) -> Iterator[tuple[str, Any, Any]]:
    """The name, the function and the value itself, of all functions and static methods of ``owner``."""
    for name, value in tuple((owner if isinstance(owner, dict) else vars(owner)).items()):
        if isinstance(value, staticmethod):
            yield name, value.__func__, value
        elif isinstance(value, FunctionType):
            yield name, value, value


def _functions() -> dict[int, OpFunction]:
    """Every function that is an op, or made of ops, by its id."""
    own: dict[int, OpFunction] = {}

    def add(call: Any, operation: Any, in_place: bool) -> None:
        own.setdefault(id(call), OpFunction(call, operation, in_place, True))

    for operation in OPERATIONS.values():
        add(operation.function, operation, False)
        add(operation.inplace, operation, True)
        for operator in operation.op.operators:
            add(vars(Tensor)[operator], operation, False)
    for op in subclasses(Structured):
        for key in ("apply", "inplace"):
            if key in vars(op):
                add(vars(op)[key].__func__, op, key == "inplace")
    others: dict[int, OpFunction] = {}
    for name, call in [*FUNCTIONS.items(), *vars(Tensor).items()]:
        if isinstance(call, FunctionType) and id(call) not in own:
            in_place = name.startswith("__i") or (name[-1] == "_" and name[0] != "_")
            others.setdefault(id(call), OpFunction(call, _inner(call, own), in_place, False))
    return own | others


def _inner(call: FunctionType, own: dict[int, OpFunction]) -> Any:
    """The op that a function goes on to: ``add`` knows ``alpha``, and closes over the op's own function."""
    for cell in call.__closure__ or ():
        try:
            found = own.get(id(cell.cell_contents))
        except ValueError:  # a cell that is still empty
            continue
        if found is not None:
            return found.operation
    return None


def subclasses(cls: Any) -> Iterator[Any]:
    """All classes derived from ``cls``."""
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)
