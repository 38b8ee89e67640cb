"""What a Watch notes: the guards of a recording, the tensors that were there before, and what Python did besides."""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import jitgrad
from jitgrad.compiler.counts import count, place_of, places
from jitgrad.compiler.numbers import plain, was_read
from jitgrad.compiler.tensor_notes import TensorNotes
from jitgrad.compiler.trial import Refused
from jitgrad.compiler.trust import is_users, static_attribute
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import LiveNumber
from jitgrad.nn.modules.global_hooks import registration_hooks
from jitgrad.nn.modules.module import Module

__all__ = ["Action", "Guard", "Notes", "is_constant", "is_scalar", "same"]

_BOUND = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)  # what has a ``__self__``
_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_RECORDER = "jitgrad.compiler.recording"
_FOLDER = os.path.dirname(os.path.abspath(jitgrad.__file__))
_MOST_ITEMS = 2000  # a recording that depends on more items of one list than these is not made


class Guard(NamedTuple):
    """A condition under which a recording holds: ``kind`` says what of ``obj`` has to be ``value``."""

    kind: str
    obj: Any
    key: Any
    value: Any

    def is_of(self, name: str) -> bool:
        """Whether this is a guard on an attribute, item or entry of a class that is called ``name``."""
        return self.kind in ("attr", "item", "static") and self.key == name

    def holds(self) -> bool:
        """Whether the attribute, item or entry of a class has still the value that was recorded."""
        if self.kind == "item":
            return same(self.obj[self.key], self.value)
        return same((getattr if self.kind == "attr" else static_attribute)(self.obj, self.key), self.value)


class Action(NamedTuple):
    """Something that Python does between launches: ``call(*args, **kwargs)`` after ``launch`` of them."""

    launch: int
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def is_scalar(value: Any) -> bool:
    """Whether a value is a number, a text, bytes or None: one that any equal value of its type can stand for."""
    return isinstance(value, _SCALARS) and type(value) in _SCALARS


def is_constant(value: Any) -> bool:
    """Whether a value is a scalar (see ``is_scalar``), a class, or a tuple of scalars and classes."""
    return all(map(is_constant, value)) if type(value) is tuple else is_scalar(value) or isinstance(value, type)


def same(value: Any, expected: Any) -> bool:
    """Whether a value is the expected one: the object itself, or an equal number or text of the same type."""
    if value is expected:
        return True
    if type(value) is not type(expected):
        return False
    if type(value) is float:
        return value.hex() == expected.hex()  # tells 0.0 from -0.0, and not nan from nan
    if type(value) is complex:
        return same(value.real, expected.real) and same(value.imag, expected.imag)
    return type(value) in _SCALARS and value == expected


class Notes(TensorNotes):
    """The notes of one recording."""

    def __init__(self, length: Callable[[], int]):
        super().__init__()
        self.length = length  # how many launches there were so far
        self.reason: str | None = None
        self.place = ""
        self.line: tuple[CodeType, int] | None = None  # the same in the function itself, which may call what is there
        self.lasting = False  # whether the reason is one that the next run will have too
        self.guards: dict[Any, Guard] = {}
        self.known: dict[int, Any] = {}
        self.live: dict[Any, tuple[Any, Any]] = {}  # {key of a live number: (dictionary, its key)}
        self.trying = 0  # how many blocks are open that catch errors, or do something after one
        # Where the first autograd.Function was applied, or checkpoint: their backward runs a program's own code.
        self.repeated: list[tuple[CodeType, int]] = []
        self.trying_backward = False  # whether that code is run once more than the program runs it
        self.actions: list[Action] = []
        self.states: dict[int, tuple[Any, dict[str, Any]]] = {}  # by id: objects, all of which was read; as they were
        self.counted: set[tuple[int, str]] = set()  # (id of what an attribute that was added to stands in, its name)
        self.changed: set[int] = set()  # ids of what actions have changed
        self.containers: list[tuple[Any, tuple[Any, ...]]] = []  # those that were given, with the keys to each

    def fail(
        self, reason: str, where: tuple[CodeType, int | None] | None = None, lasting: bool = False,
        lines: list[tuple[CodeType, int]] | None = None,
    ) -> None:  # fmt: skip
        """Note that the function can't be compiled, unless a reason is there already.

        where: code of a function about to be called that is the reason, and its line, if known. lines: what ``here()``
        returned at the place that is the reason; by default that is where the recording is now.
        """
        self.effect(reason)
        if self.reason is not None:
            return
        self.reason, self.lasting = reason, lasting or where is not None
        lines = _user_lines() if lines is None else lines
        if where is not None:
            lines.insert(0, (where[0], where[1] or where[0].co_firstlineno))
        if lines:
            self.place, self.line = f"{lines[0][0].co_filename}:{lines[0][1]}", lines[-1]

    def effect(self, what: str) -> None:
        """Something is about to happen that a program could notice, or to fail: a trial of backward ends before it."""
        if self.trying_backward:
            raise Refused(what)

    def here(self) -> list[tuple[CodeType, int]]:
        """(code, line) of each frame of the program that the recording is in now, the innermost first."""
        return _user_lines()

    # -- objects --------------------------------------------------------------------------------------

    def is_known(self, obj: Any) -> bool:
        """Whether the object was there before; a program's classes are taken for that."""
        return id(obj) in self.known or id(obj) in self.tensors or (isinstance(obj, type) and is_users(obj))

    def know(self, value: Any) -> None:
        """Note an object that was there before, in which reads are guarded and changes noticed."""
        if isinstance(value, Tensor):
            self.tensor(value)
        elif not (is_scalar(value) or isinstance(value, (type, LiveNumber))):
            self.known[id(value)] = value
            if isinstance(value, tuple):
                inside: Iterable[Any] = value
            elif isinstance(value, functools.partial):
                inside = value.func, *value.args, value.keywords
            else:
                inside = [value.__self__] if isinstance(value, _BOUND) else ()
            for item in inside:
                self.know(item)

    def _guard(self, kind: str, obj: Any, key: Any, value: Any) -> None:
        if id(obj) in self.changed:
            self.fail(f"it reads a {type(obj).__name__} after it has changed it")
        if self.counted and self._is_counted(obj, key):
            self.fail(f"it reads {key} of a {type(obj).__name__} after it has changed it")
        if id(obj) in self.arguments:  # whose structure is compared for every call
            if kind == "attr":
                self.fail(f"it reads {key} of a {type(obj).__name__} that it is given")
        else:
            self.guards.setdefault((kind, id(obj), key), Guard(kind, obj, key, value))

    def _found(self, obj: Any, value: Any) -> None:
        """Something was found in a known object."""
        if id(value) in self.arguments and id(obj) not in self.arguments:
            self.found_elsewhere.add(id(value))
            if not isinstance(value, Tensor):  # which has to be this very one from now on
                self.arguments.discard(id(value))
        self.know(value)

    def attribute(self, obj: Any, name: str, value: Any) -> None:
        """``obj.name`` was read."""
        if type(value) is LiveNumber:
            value = float(value)
        self._guard("attr", obj, name, value)
        self._found(obj, value)

    def item(self, obj: Any, key: Any, value: Any) -> None:
        """``obj[key]`` was read."""
        self._guard("item", obj, key, value)
        self._looked_up(obj, key)
        self._found(obj, value)

    def has(self, obj: dict[Any, Any], key: Any) -> bool:
        """It was looked up whether a dictionary has a key."""
        self._guard("has", obj, key, key in obj)
        self._looked_up(obj, key)
        return key in obj

    def _looked_up(self, obj: Any, key: Any) -> None:
        """A key was looked up: tensors are told by identity, so that others in their place are other keys."""
        if isinstance(key, (tuple, frozenset)):
            for part in key:
                self._looked_up(obj, part)
        elif id(key) in self.tensors:
            self._found(obj, key)

    def address(self, obj: Any) -> None:
        """What depends on an object's identity was asked for: ``id(obj)`` or ``hash(obj)``."""
        if id(obj) in self.tensors or id(obj) in self.arguments:
            self._found(None, obj)
        elif not (self.is_known(obj) or is_scalar(obj)):
            self.fail(f"it asks for the address or hash of a new {type(obj).__name__}")

    def cell(self, cell: Any, value: Any) -> None:
        """A variable of an enclosing function was read."""
        self._guard("cell", cell, None, value)
        self._found(cell, value)

    def of_class(self, cls: type, name: str) -> None:
        """The recording depends on what a class or its bases define under a name, also where that is nothing."""
        if is_users(cls):
            static = static_attribute(cls, name)
            self._guard("static", cls, name, static)
            self._found(cls, static)

    def kept(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A function was called whose results functools keeps, which later calls get too."""
        self._guard("kept", function, (args, tuple(kwargs.items())), result)
        self._found(function, result)

    def absent(self, obj: Any, name: str) -> None:
        """An attribute was not found, neither in the object nor in what its class does instead."""
        if self.is_known(obj):
            self._guard("absent", obj, name, None)

    def lacks(self, obj: Any, name: str) -> None:
        """An attribute was not found in the object itself."""
        if isinstance(getattr(obj, "__dict__", None), dict):
            self._guard("lacks", obj, name, None)

    def contents(self, obj: Any) -> None:
        """All of a container was read."""
        if len(obj) > _MOST_ITEMS:
            self.fail(f"it goes through a {type(obj).__name__} of {len(obj)} items from outside")
            return
        if isinstance(obj, dict):
            inside, found = [*obj, *obj.values()], tuple(obj.items())
        else:
            inside = list(obj)
            found = tuple(inside)
        if not isinstance(obj, (tuple, frozenset)):
            self._guard("contents", obj, None, found)
        for value in inside:
            self._found(obj, value)

    def state(self, obj: Any) -> bool:
        """All attributes of an object were read; whether that was not noted before."""
        if id(obj) in self.states:
            return False
        own = vars(obj)
        self.states[id(obj)] = obj, dict(own)
        self.attribute(obj, "__dict__", own)
        self.contents(own)
        return True

    def check_states(self) -> None:
        """Note that the run can't be repeated if it has changed attributes where nothing was followed."""
        for obj, before in self.states.values():
            now = vars(obj)
            if list(now) != list(before) or not all(same(now[name], value) for name, value in before.items()):
                self.fail(f"it changes a {type(obj).__name__} from outside")

    def advance(self, iterator: Any) -> None:
        """An iterator may be advanced."""
        if self.is_known(iterator):
            self.fail(f"it advances a {type(iterator).__name__} from outside")

    def emptiness(self, obj: Any) -> None:
        """It was tested whether a container is empty."""
        self._guard("empty", obj, None, not obj)

    def same_attribute(self, obj: Any, name: str, value: Any) -> bool:
        """Whether ``obj.name`` has this value already; then that is guarded, and assigning it changes nothing."""
        own = getattr(obj, "__dict__", {})
        if name not in own and isinstance(obj, Module) and name in own.get("_buffers", ()):
            return self._same_buffer(obj, name, value)
        if name not in own or not same(own[name], value):
            return False
        self.attribute(obj, name, value)
        return True

    def _same_buffer(self, module: Module, name: str, value: Any) -> bool:
        """``same_attribute`` for a buffer: ``self.mean = self.mean.lerp_(x, 0.1)`` registers the same tensor again."""
        for method in ("__setattr__", "register_buffer"):  # a class of the program's may have its own
            self.of_class(type(module), method)
            if static_attribute(type(module), method) is not static_attribute(Module, method):
                return False
        self.know(registration_hooks)
        self.emptiness(registration_hooks)
        self.attribute(module, "_buffers", module._buffers)
        return not registration_hooks and type(value) is Tensor and self.same_item(module._buffers, name, value)

    def same_item(self, obj: Any, key: Any, value: Any) -> bool:
        """``same_attribute`` for an item."""
        try:
            old = obj[key]
        except (KeyError, IndexError, TypeError):
            return False
        if isinstance(key, slice) or not same(old, value):
            return False
        self.item(obj, key, value)
        return True

    # -- what Python does besides -----------------------------------------------------------------------

    def all_constant(self, args: Any, kwargs: Any) -> bool:
        """Whether arguments are the same in every run."""
        return all(is_scalar(a) for a in (*args, *kwargs.values()))

    def repeatable(self, owner: Any, name: str, args: Any, kwargs: Any) -> bool:
        """Whether a method that changes a container can be called anew in every run."""
        if id(owner) in self.arguments:  # another one in each run
            return False
        if name == "append" and was_read(args[0]):
            return True
        return name in ("append", "add", "discard") and self.all_constant(args, kwargs)

    def host_call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function now and in every run; it must not launch anything."""
        self.effect(f"it calls {getattr(function, '__qualname__', function)}")
        before = self.length()
        result = function(*[plain(a) for a in args], **kwargs)
        if self.length() != before:
            self.fail(f"{getattr(function, '__qualname__', function)} computes with tensors")
        self.actions.append(Action(before, function, args, kwargs))
        self.changed.update(map(id, _changed_by(function)))
        return result

    def count(self, obj: Any, name: str, what: str, value: Any) -> None:
        """``obj.name += value`` now and in every run."""
        place = place_of(obj, name)
        self.counted.add((id(place), name))
        read = [g for g in self.guards.values() if g.is_of(name) and g.holds()]
        self.host_call(count, (obj, name, what, value), {})
        if ("contents", id(place), None) in self.guards or not all(g.holds() for g in read):
            self.fail(f"it changes {name} of a {type(obj).__name__}, which it also reads")

    def _is_counted(self, obj: Any, key: Any) -> bool:
        """Whether what was read may be a counter, under whatever name."""
        if key is None:
            return any(id(obj) == place for place, _ in self.counted)
        return any((id(place), key) in self.counted for place in places(obj))

    # -- numbers ----------------------------------------------------------------------------------------

    def live_number(self, obj: Any, key: Any, value: float) -> LiveNumber:
        """An item that may have another value in the next run."""
        number = LiveNumber(value)
        number.key = (id(obj), key)
        self.live[number.key] = (obj, key)
        self._guard("float", obj, key, None)
        return number

    def settled(self, number: Any) -> Any:
        """The value of a live number on which the recording depends."""
        if not isinstance(number, LiveNumber):
            self.fail("it computes with a number that item() has read of a tensor, or decides by it", lasting=True)
            return float(number) if isinstance(number, float) else int(number)
        obj, key = self.live[number.key]
        self._guard("item", obj, key, float(number))
        return float(number)


def _changed_by(method: Any) -> Iterator[Any]:
    """What a method of a container, or ``step`` of a schedule, changes."""
    owner = getattr(method, "__self__", None)
    if isinstance(owner, types.ModuleType):  # print's
        return
    yield owner
    yield from getattr(getattr(owner, "optimizer", None), "param_groups", ())
    for schedule in getattr(owner, "_schedulers", ()):
        yield from _changed_by(schedule.step)


def _user_lines() -> list[tuple[CodeType, int]]:
    """Code and line of the frames of this recording that are not jitgrad's, the innermost first."""
    found: list[tuple[CodeType, int]] = []
    frame: Any = sys._getframe(2)
    while frame is not None and not (frame.f_code.co_name == "record" and frame.f_globals.get("__name__") == _RECORDER):
        file = frame.f_code.co_filename
        if not os.path.abspath(file).startswith(_FOLDER) and not file.startswith(("<frozen", "<jitgrad")):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found
