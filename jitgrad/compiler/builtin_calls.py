"""Calls of what is written in C: functions that are known to change nothing, and methods of containers."""

from __future__ import annotations

import abc
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jitgrad.compiler.accesses import items_of
from jitgrad.compiler.numbers import is_live
from jitgrad.compiler.stores import Stores
from jitgrad.compiler.trust import (
    CHANGING,
    COMPARING,
    CONTAINERS,
    ITERATORS,
    OPEN,
    OPERATING,
    PURE,
    PURE_MODULES,
    READ_ONLY,
    SHOWING,
    has_special,
    has_state,
    is_callable_object,
    is_programs,
    is_watched,
    special_method,
    takes_over,
)
from jitgrad.compiler.trust import title as name_of
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.program import LiveNumber

__all__ = ["BuiltinCalls"]

# Functions that call a special method of their first argument.
_SPECIAL = (len, bool, iter, next, str, repr, format, hash, abs, round, reversed, float, int, complex)
# Functions that iterate over their arguments, and the special methods that they call of the items.
_THROUGH: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys((list, tuple, set, frozenset, dict, OrderedDict, deque, enumerate, zip, map, functools.reduce), ()),
    **dict.fromkeys((min, max, sorted), COMPARING), sum: OPERATING,
    **dict.fromkeys((any, all, filter), ("__bool__", "__len__")),
}  # fmt: skip
# Methods of containers and texts that iterate over their arguments, and those that compare them with items.
_METHODS_THROUGH = {
    "extend", "extendleft", "update", "join", "union", "intersection", "difference", "symmetric_difference",
    "intersection_update", "difference_update", "issubset", "issuperset", "isdisjoint",
}  # fmt: skip
_METHODS_COMPARING = {"index", "count", "remove", "__contains__", "__eq__", "__lt__"}
_BY_NUMBER = ("__getitem__",)  # by which Python iterates over an object without ``__iter__``
# Functions, and the special methods that they call of their arguments themselves.
_CALLED: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys((divmod, pow, min, max, sum, range, round), OPERATING), **dict.fromkeys((str, format), SHOWING),
    bool: ("__len__",), **dict.fromkeys((iter, list, tuple, zip, enumerate, map), _BY_NUMBER),
}  # fmt: skip
_NUMBERS = ("__index__", "__float__", "__int__", "__complex__", "__array__")  # what makes a number of an object
# Functions that call their first argument; others call what they are given as ``key``.
_CALLING = {map, filter, functools.reduce}
_WITHOUT_STATE = (str, bytes, int, float, complex, range, *ITERATORS)


class BuiltinCalls(Stores):
    """The part of a Watch that calls functions of C, and looks at what functions that aren't watched are given."""

    def prepared(self, function: types.FunctionType) -> Any:
        """A Python function, watched."""
        raise NotImplementedError

    def builtin(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function of C."""
        if function in (getattr, hasattr, setattr):
            return self._by_name(function, *args)
        if function in (isinstance, issubclass):
            self._note_abstract(args[1])
        if function is float and args and type(args[0]) is LiveNumber:
            return args[0]
        owner = getattr(function, "__self__", None)
        if isinstance(owner, CONTAINERS) and self.notes.is_known(owner):
            if self.notes.repeatable(owner, function.__name__, args, kwargs):
                return self.notes.host_call(function, args, kwargs)
        if function in _SPECIAL and args and type(args[0]) not in ITERATORS and not isinstance(args[0], Tensor):
            if special := self.special(args[0], f"__{function.__name__}__"):
                return self._special(function, special, args, kwargs)
            if function is reversed and (special := self.special(args[0], "__getitem__")):
                return iter([self.call(special, args[0], k) for k in reversed(range(self.call(len, args[0])))])
        if function in (id, hash) and args:
            self.notes.address(args[0])
        if type(function).__hash__ is not None and function in CHANGING and args and not isinstance(args[0], Tensor):
            if self.notes.is_known(args[0]):
                self.notes.fail(f"it changes a {type(args[0]).__name__} from outside by {name_of(function)}()")
        args, kwargs = self._called_back(function, args, kwargs)
        args = tuple([self.given(a) for a in self._gone_through(function, owner, args)])
        kwargs = {k: self.given(v) for k, v in kwargs.items()}
        if isinstance(owner, CONTAINERS) and self.notes.is_known(owner):
            return self._method_of_known(owner, function, args, kwargs)
        if self._is_pure(function, owner, args):
            return function(*args, **kwargs)
        if function is print and self.notes.all_constant(args, kwargs):
            return self.notes.host_call(function, args, kwargs)
        self.notes.fail(f"it calls {name_of(function)}, which may have effects outside of jitgrad")
        return function(*args, **kwargs)

    def _note_abstract(self, kinds: Any) -> None:
        """It is asked whether something is of these classes, which may decide on it by themselves."""
        for kind in items_of(kinds) if isinstance(kinds, tuple) else (kinds,):
            if isinstance(kind, abc.ABCMeta):
                self.notes.kept(abc.get_cache_token, (), {}, abc.get_cache_token())
            self.refuse_special((kind,), ("__instancecheck__", "__subclasscheck__"), "isinstance")

    def _special(self, function: Any, special: Any, args: Any, kwargs: Any) -> Any:
        """Call the special method that a function of C stands for."""
        if function is format and len(args) == 1:
            args = (*args, "")
        if function is not next or len(args) == 1:
            return self.call(special, *args, **kwargs)
        try:
            return self.call(special, args[0])
        except StopIteration:
            return args[1]

    def _gone_through(self, function: Any, owner: Any, args: Any) -> Any:
        """The arguments of a function of C; one that it would iterate over by a program's ``__iter__`` is replaced.

        A watched iterator takes its place, so that what the method reads is guarded.
        """
        self._refuse_called(function, owner, args)
        through = type(function).__hash__ is not None and function in _THROUGH
        if not through and not (isinstance(owner, (*CONTAINERS, str)) and function.__name__ in _METHODS_THROUGH):
            return args
        if function in (dict, OrderedDict) or isinstance(owner, dict):
            self.refuse_special(args, ("keys",), name_of(function))
        if through and _THROUGH[function]:
            self.refuse_special([item for a in args for item in items_of(a)], _THROUGH[function], name_of(function))
            args = [self._checked(a, function) if isinstance(a, ITERATORS) else a for a in args]
        own = [self.special(a, "__iter__") and not isinstance(a, Tensor) for a in args]
        return tuple([self.iter(a) if watched else a for a, watched in zip(args, own, strict=True)])

    def _checked(self, iterator: Any, function: Any) -> Iterator[Any]:
        """What goes through an iterator to a function, of which that may call special methods."""
        self.given(iterator)
        for item in iterator:
            self.refuse_special((item, *items_of(item)), _THROUGH[function], name_of(function))
            yield self.given(item) if isinstance(item, CONTAINERS) else item

    def _refuse_called(self, function: Any, owner: Any, args: Any) -> None:
        """Note that the function can't be compiled if C would call a special method of a program's class unwatched."""
        called = _CALLED.get(function, ()) if type(function).__hash__ is not None else ()
        of_module = owner.__name__ if isinstance(owner, types.ModuleType) else getattr(function, "__module__", None)
        if isinstance(owner, str):
            called = SHOWING
        elif isinstance(owner, CONTAINERS) and function.__name__ in _METHODS_COMPARING:
            called, args = COMPARING, (*args, *items_of(owner))
        elif of_module in PURE_MODULES:
            called = OPERATING
        elif called == _BY_NUMBER:
            args = [a for a in args if not special_method(a, "__iter__")]
        self.refuse_special(args, called, name_of(function))

    def _called_back(self, function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments of a function of C that calls one of them, and may decide by what that returns."""
        if type(function).__hash__ is None or function not in _CALLING:
            return args, {k: self._settling(v) if k == "key" and v is not None else v for k, v in kwargs.items()}
        return (self._settling(args[0]), *args[1:]) if args and args[0] is not None else args, kwargs

    def _settling(self, function: Any) -> Any:
        """The function, watched; what it returns is a number as it is now, which the next run compares, or refuses."""
        jitgrad_watch = self  # a function with a variable of this name is one that is watched: WATCH

        def call(*args: Any, **kwargs: Any) -> Any:
            return jitgrad_watch.given(jitgrad_watch.call(function, *args, **kwargs))

        return call

    def _is_pure(self, function: Any, owner: Any, args: Any) -> bool:
        """Whether a function reads and changes nothing but new objects."""
        if type(function).__hash__ is not None and function in PURE:
            return True
        if isinstance(owner, types.ModuleType) or owner is None:
            module = owner.__name__ if owner is not None else getattr(function, "__module__", None)
            of_new = function.__name__ in ("__init__", "__setattr__", "__getattribute__") and bool(args)
            return module in PURE_MODULES or (of_new and not self.notes.is_known(args[0]))
        if isinstance(owner, type):  # dict.fromkeys
            return owner in PURE
        if isinstance(owner, (CONTAINERS, _WITHOUT_STATE)):
            return True
        return function.__name__ in ("__init__", "__setattr__") and not self.notes.is_known(owner)

    def _by_name(self, function: Any, obj: Any, name: str, *rest: Any) -> Any:
        """getattr, hasattr, setattr."""
        if function is setattr:
            setattr(self.at(obj), name, *rest)
            return None
        try:
            value = self.attr(obj, name)
        except AttributeError:
            self.notes.lacks(obj, name)
            if function is hasattr:
                return False
            if rest:
                return rest[0]
            raise
        return True if function is hasattr else value

    def _method_of_known(self, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """A method of a container that was there before."""
        notes, name = self.notes, function.__name__
        if name not in READ_ONLY:
            notes.fail(f"it changes a {type(owner).__name__} from outside by {name}()")
        elif isinstance(owner, dict) and name in ("get", "__getitem__", "__contains__"):
            if notes.has(owner, args[0]) and name != "__contains__":
                return self.item(owner, args[0])
        else:
            notes.contents(owner)
        return function(*args, **kwargs)

    def given(self, value: Any) -> Any:
        """An argument of a function that isn't watched: what it may read of it is guarded, functions are watched."""
        notes = self.notes
        if is_live(value):
            return notes.settled(value)
        if isinstance(value, CONTAINERS):
            if notes.is_known(value):
                notes.contents(value)
            items: Iterable[Any] = value.values() if isinstance(value, dict) else value
            for item in items:
                if isinstance(item, (*CONTAINERS, *OPEN, np.ndarray)) or is_live(item) or has_state(item):
                    self.given(item)
        elif isinstance(value, Tensor):
            notes.tensor_argument(value)
        elif isinstance(value, np.ndarray):
            notes.fail("it takes numbers from a NumPy array")
        elif isinstance(value, OPEN) and notes.is_known(value):
            notes.fail(f"it reads a {type(value).__name__} from outside")
        elif hasattr(type(value), "__next__"):
            notes.advance(value)
        elif has_state(value) and notes.is_known(value):
            self._state(value)
        elif has_special(value, _NUMBERS):
            notes.fail(f"it takes a number from a {type(value).__name__}")
        elif takes_over(value):
            notes.fail(f"it gives a {type(value).__name__} to a function that calls its __torch_function__")
        elif isinstance(value, functools.partial):
            return self._given_partial(value)
        elif isinstance(value, types.FunctionType):
            return self.prepared(value) if is_watched(value) else value
        elif isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType):
            if is_watched(value.__func__):
                return types.MethodType(self.prepared(value.__func__), value.__self__)
        return value

    def _state(self, obj: Any) -> None:
        """Guard all attributes of an object of jitgrad's whose methods aren't followed, and of such objects in it."""
        if not self.notes.state(obj):
            return
        for value in vars(obj).values():
            inside = items_of(value) if isinstance(value, CONTAINERS) else (value,)
            for item in [i for i in inside if is_programs(i)]:
                self.notes.fail(f"it gives a {type(obj).__name__}, which has {name_of(item)}, to what isn't followed")
            if isinstance(value, CONTAINERS) or has_state(value):
                self.given(value)

    def _given_partial(self, value: Any) -> Any:
        """The same partial of watched functions."""
        if self.notes.is_known(value):
            self.notes.contents(value.keywords)
        for called in [c for c in (value, value.func) if is_callable_object(c)]:
            self.notes.fail(f"it gives a partial, a {type(called).__name__}, to a function that isn't followed")
            return value
        keywords = {k: self.given(v) for k, v in value.keywords.items()}
        return functools.partial(self.given(value.func), *map(self.given, value.args), **keywords)
