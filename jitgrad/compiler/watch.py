"""What a function reads and changes, noted while it runs: the Watch that rewritten functions ask.

Objects are known, that is, they were there before the function ran, or new. What is read of known ones becomes a guard.
A change of a known object that a program can't repeat makes the function one that isn't compiled: ``fail`` notes the
first such reason, after which the Watch passes everything through.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import operator
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitgrad.compiler.instrument import WATCH, NotRewritable, outer_names, rewritten
from jitgrad.compiler.notes import Notes
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.program import LiveNumber
from jitgrad.optim.lr_scheduler import LRScheduler

__all__ = ["Watch"]

# Python code of jitgrad that is watched like a user's, since it reads what programs may change between two calls.
_WATCHED = ("jitgrad.nn.modules.", "jitgrad.nn.utils", "jitgrad.optim.", "jitgrad.func.modules")
_TRUSTED = ("jitgrad.optim.fused_step",)
# What has no state of its own, so that operators on it read nothing else and change nothing.
_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, type, types.FunctionType,
    types.BuiltinFunctionType, types.ModuleType, np.generic, np.dtype,
)  # fmt: skip
_CONTAINERS = (list, tuple, dict, set, frozenset, OrderedDict, defaultdict, deque)
_PURE = {
    getattr(builtins, name)
    for name in ["abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip"]
} | {OrderedDict, defaultdict, deque, functools.partial, contextlib.nullcontext}  # fmt: skip
_PURE_MODULES = ("math", "_operator", "operator", "itertools", "_functools", "cmath")
_READ_ONLY = {
    "get", "items", "keys", "values", "index", "count", "copy", "__contains__", "__getitem__", "__len__", "__iter__",
    "union", "intersection", "difference", "issubset", "issuperset", "isdisjoint", "symmetric_difference",
}  # fmt: skip
_INPLACE = {"add": operator.iadd, "sub": operator.isub, "mul": operator.imul, "truediv": operator.itruediv,
            "floordiv": operator.ifloordiv, "mod": operator.imod, "pow": operator.ipow, "matmul": operator.imatmul,
            "lshift": operator.ilshift, "rshift": operator.irshift, "and_": operator.iand, "or_": operator.ior,
            "xor": operator.ixor}  # fmt: skip


class Watch:
    """Does what rewritten functions ask for, and notes in ``notes`` what it depends on."""

    def __init__(self, notes: Notes):
        self.notes = notes
        self.live = _LiveWatch(self) if type(self) is Watch else self

    # -- functions ----------------------------------------------------------------------------------

    def prepared(self, function: types.FunctionType) -> Callable[..., Any]:
        """The function rewritten; what it reads of its surroundings is guarded."""
        code = function.__code__
        if WATCH in code.co_freevars:
            return function
        reads, writes = outer_names(code)
        notes = self.notes
        if writes:
            return self._unwatched(function, f"{function.__qualname__} assigns to {writes[0]}, a variable outside of it")
        try:
            made = rewritten(function, self.live if _module_of(function).startswith("jitgrad.optim.") else self)
        except NotRewritable as error:
            return self._unwatched(function, f"{function.__qualname__} can't be followed: {error}")
        own = function.__globals__
        for name in reads:
            if name in own:
                notes.item(own, name, own[name])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not assigned yet
                if name != "__class__":
                    notes.cell(cell, cell.cell_contents)
        return made

    def _unwatched(self, function: Any, reason: str) -> Any:
        self.notes.fail(reason)
        return function

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """``function(*args, **kwargs)``."""
        if self.notes.reason is not None:
            return function(*args, **kwargs)
        if isinstance(function, types.MethodType):
            return self._method(function, args, kwargs)
        if isinstance(function, types.FunctionType):
            return self._function(function, args, kwargs)
        if isinstance(function, type):
            return self._class(function, args, kwargs)
        if isinstance(function, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType,
                                 types.WrapperDescriptorType, types.ClassMethodDescriptorType)):  # fmt: skip
            return self._builtin(function, args, kwargs)
        if isinstance(function, functools.partial):
            self.notes.know(function)
            return self.call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
        called = getattr(type(function), "__call__", None)
        if isinstance(called, types.FunctionType):
            if self._is_watched(called):
                return self.call(called, function, *args, **kwargs)
            if original := getattr(function, "_compiled_function", None):  # another compiled function: a part of this
                return self.call(original, *args, **kwargs)
            return self._primitive(function, args, kwargs)
        if isinstance(function, np.ufunc):
            return self._numpy(function, args, kwargs)
        self.notes.fail(f"it calls {_name(function)}, of which nothing is known")
        return function(*args, **kwargs)

    def _method(self, method: types.MethodType, args: Any, kwargs: Any) -> Any:
        owner, function = method.__self__, method.__func__
        if isinstance(owner, LRScheduler) and function.__name__ == "step" and self.notes.is_known(owner):
            return self.notes.host_call(method, args, kwargs)
        if isinstance(function, types.FunctionType):
            if isinstance(owner, type) and not self._is_watched(function) and not _is_ours(owner):
                if not issubclass(owner, Elementwise):
                    self.notes.fail(f"it calls {owner.__name__}.{function.__name__}, a user's autograd.Function or class")
                return method(*args, **kwargs)
            return self._function(function, (owner, *args), kwargs)
        return self._builtin(method, args, kwargs)

    def _is_watched(self, function: types.FunctionType) -> bool:
        module = _module_of(function)
        if module == "jitgrad" or module.startswith("jitgrad."):
            return module.startswith(_WATCHED) and not module.startswith(_TRUSTED)
        return not module.startswith(("numpy", "numba", "contextlib"))

    def _function(self, function: types.FunctionType, args: Any, kwargs: Any) -> Any:
        if WATCH in function.__code__.co_freevars:
            return function(*args, **kwargs)
        if function is sys.modules["jitgrad.optim.optimizer"].as_number and type(args[0]) is LiveNumber:
            return args[0]
        if self._is_watched(function):
            return self.prepared(function)(*args, **kwargs)
        if _module_of(function).startswith("numpy"):
            return self._numpy(function, args, kwargs)
        return self._primitive(function, args, kwargs)

    def _class(self, cls: type, args: Any, kwargs: Any) -> Any:
        if cls in _PURE:
            return self._builtin(cls, args, kwargs)
        if _is_ours(cls) or issubclass(cls, (BaseException, tuple, np.generic)):
            return self._primitive(cls, args, kwargs)
        made = cls.__init__
        if isinstance(made, types.FunctionType) and cls.__new__ is object.__new__ and type(cls).__call__ is type.__call__:
            obj = cls.__new__(cls)
            self.call(made, obj, *args, **kwargs)
            return obj
        self.notes.fail(f"it makes a {cls.__name__}, of which nothing is known")
        return cls(*args, **kwargs)

    def _builtin(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call a function of C: one that is known to change nothing, or a method of a container."""
        notes = self.notes
        name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
        if function is getattr and len(args) >= 2:
            try:
                return self.attr(args[0], args[1])
            except AttributeError:
                if len(args) > 2:
                    return args[2]
                raise
        if function is hasattr:
            try:
                self.attr(*args)
            except AttributeError:
                notes.lacks(*args)
                return False
            return True
        if function is setattr:
            setattr(self.at(args[0]), args[1], args[2])
            return None
        if function is float and args and type(args[0]) is LiveNumber:
            return args[0]
        args = tuple([self._given(a) for a in args])
        kwargs = {k: self._given(v) for k, v in kwargs.items()}
        if function in _PURE if _hashable(function) else False:
            if function in (len, bool, iter, next, str, repr, format, hash, abs, round, reversed):
                if isinstance(args[0] if args else None, Tensor) or type(args[0]) in _ITERATORS:
                    return function(*args, **kwargs)
                if special := _special_method(args[0], _SPECIAL.get(name, f"__{name}__")):
                    return self.call(special, *args, **kwargs)
            return function(*args, **kwargs)
        if isinstance(owner, types.ModuleType) and owner.__name__ in _PURE_MODULES:
            return function(*args, **kwargs)
        if getattr(function, "__module__", None) in _PURE_MODULES:
            return function(*args, **kwargs)
        if owner is not None and not isinstance(owner, types.ModuleType):
            if isinstance(owner, (str, bytes, int, float, complex, range, *_ITERATORS)):
                return function(*args, **kwargs)
            if isinstance(owner, _CONTAINERS):
                if notes.is_known(owner):
                    if name not in _READ_ONLY:
                        if notes.repeatable(owner, name, args, kwargs):
                            return notes.host_call(function, args, kwargs)
                        notes.fail(f"it changes a {type(owner).__name__} from outside by {name}()")
                    elif name in ("get", "__getitem__", "__contains__") and isinstance(owner, dict):
                        if notes.has(owner, args[0]) and name != "__contains__":
                            return self.item(owner, args[0])
                    else:
                        notes.contents(owner)
                return function(*args, **kwargs)
            if isinstance(owner, type) and owner in _PURE:  # dict.fromkeys
                return function(*args, **kwargs)
            if not notes.is_known(owner) and isinstance(owner, types.GeneratorType):
                return function(*args, **kwargs)
        if function is print and notes.all_constant(args, kwargs):
            return notes.host_call(function, args, kwargs)
        if name in ("__init__", "__setattr__", "__getattribute__") and args and not notes.is_known(args[0]):
            return function(*args, **kwargs)
        notes.fail(f"it calls {_name(function)}, which may have effects outside of jitgrad")
        return function(*args, **kwargs)

    def _given(self, value: Any) -> Any:
        """An argument of a function that isn't watched: what it may read of it is guarded, functions are watched."""
        notes = self.notes
        if type(value) is LiveNumber:
            return notes.settled(value)
        if isinstance(value, _CONTAINERS):
            if notes.is_known(value):
                notes.contents(value)
            items: Iterable[Any] = value.values() if isinstance(value, dict) else value
            for item in items:
                if isinstance(item, _CONTAINERS) or type(item) is LiveNumber:
                    self._given(item)
        elif isinstance(value, Tensor):
            notes.tensor_argument(value)
        elif isinstance(value, types.FunctionType):
            return self.prepared(value) if self._is_watched(value) else value
        elif isinstance(value, types.MethodType) and isinstance(value.__func__, types.FunctionType):
            if self._is_watched(value.__func__):
                return types.MethodType(self.prepared(value.__func__), value.__self__)
        return value

    def _primitive(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call jitgrad's own function: what it reads are its arguments, modes, and gradients of leaves."""
        notes = self.notes
        for value in (*args, *kwargs.values()):
            if callable(value) and isinstance(getattr(type(value), "__call__", None), types.FunctionType):
                if not isinstance(value, (Tensor, type)) and notes.is_known(value):
                    notes.fail(f"it gives an object with __call__, {_name(value)}, to {_name(function)}")
        if function is not _UPDATE():
            args = tuple([self._given(a) for a in args])
            kwargs = {k: self._given(v) for k, v in kwargs.items()}
        if isinstance(function, types.FunctionType) and function.__closure__ and not notes.is_public(function):
            function = self._with_watched_cells(function)
        notes.before_primitive(function)
        return function(*args, **kwargs)

    def _with_watched_cells(self, function: types.FunctionType) -> Any:
        """A function that jitgrad made round a user's, as ``no_grad()(f)`` and ``vmap(f)``, round the watched one."""
        cells, changed = [], False
        for cell in function.__closure__ or ():
            value = cell.cell_contents
            new = value
            if isinstance(value, types.FunctionType) and WATCH not in value.__code__.co_freevars:
                module = _module_of(value)
                if self._is_watched(value):
                    self.notes.cell(cell, value)
                    new = self.prepared(value)
                elif module.startswith("jitgrad.") and value.__closure__ and not self.notes.is_public(value):
                    new = self._with_watched_cells(value)
            elif isinstance(value, types.MethodType) or (callable(value) and not _is_ours(type(value)) and not isinstance(
                value, (type, types.BuiltinFunctionType, types.FunctionType)
            )):  # fmt: skip
                self.notes.fail(f"{_name(function)} wraps {_name(value)}, which isn't followed there")
            changed |= new is not value
            cells.append(cell if new is value else types.CellType(new))
        if not changed:
            return function
        made = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    def _numpy(self, function: Any, args: Any, kwargs: Any) -> Any:
        if any(isinstance(a, (np.ndarray, Tensor, list)) for a in (*args, *kwargs.values())):
            self.notes.fail(f"it calls NumPy's {_name(function)} on an array")
        elif getattr(function, "__module__", "").startswith("numpy.random"):
            self.notes.fail("it draws from NumPy's random numbers")
        return function(*[self._given(a) for a in args], **{k: self._given(v) for k, v in kwargs.items()})

    # -- loads ----------------------------------------------------------------------------------------

    def attr(self, obj: Any, name: str) -> Any:
        """``obj.name``."""
        notes = self.notes
        if notes.reason is not None or type(obj) is LiveNumber:
            return getattr(obj, name)
        if isinstance(obj, Tensor):
            return notes.tensor_attribute(obj, name)
        if isinstance(obj, types.ModuleType):
            value = getattr(obj, name)
            if not obj.__name__.startswith("jitgrad"):
                notes.attribute(obj, name, value)
            else:
                notes.know(value)
            return value
        kind = type(obj)
        if isinstance(obj, (*_PLAIN, *_CONTAINERS, super)) and not isinstance(obj, type):
            return getattr(obj, name)
        static = _static(kind, name)
        if isinstance(static, property) and isinstance(static.fget, types.FunctionType) and self._is_watched(static.fget):
            return self.call(static.fget, obj)
        own = getattr(obj, "__dict__", {})
        if static is _ABSENT and name not in own and not isinstance(obj, type):
            if isinstance(fallback := _static(kind, "__getattr__"), types.FunctionType):
                notes.lacks(obj, name)
                return self.call(fallback, obj, name)
        value = getattr(obj, name)
        if notes.is_known(obj):
            if isinstance(value, types.MethodType) and name not in own:
                notes.lacks(obj, name)
                notes.know(value.__self__)
            else:
                notes.attribute(obj, name, value)
        return value

    def item(self, obj: Any, key: Any) -> Any:
        """``obj[key]``."""
        notes = self.notes
        if notes.reason is not None:
            return obj[key]
        if isinstance(obj, Tensor):
            notes.tensor_argument(obj)
            return obj[self._settled_key(key)]
        if isinstance(obj, _CONTAINERS):
            if not notes.is_known(obj):
                return obj[key]
            if isinstance(obj, defaultdict) and key not in obj:
                notes.fail("it adds an entry to a defaultdict from outside")
                return obj[key]
            value = obj[key]
            if isinstance(key, slice):
                notes.contents(obj)
            else:
                notes.item(obj, key, value)
            return value
        if isinstance(obj, (str, bytes, range, np.generic)) or ((isinstance(obj, type) or _is_ours(type(obj))) and not (
            isinstance(_static(type(obj), "__getitem__"), types.FunctionType)
            and self._is_watched(_static(type(obj), "__getitem__"))
        )):
            return obj[key]
        if isinstance(special := _static(type(obj), "__getitem__"), types.FunctionType):
            return self.call(special, obj, key)
        notes.fail(f"it reads an item of a {type(obj).__name__}")
        return obj[key]

    def _settled_key(self, key: Any) -> Any:
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, Tensor):
                self.notes.tensor_argument(part)
            elif isinstance(part, np.ndarray):
                self.notes.fail("it indexes by a NumPy array")
            elif isinstance(part, list):
                self._given(part)
        return key

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        """``start:stop:step`` between brackets."""
        return slice(start, stop, step)

    def iter(self, obj: Any) -> Any:
        """What ``for`` goes through."""
        notes = self.notes
        if notes.reason is not None:
            return obj
        if isinstance(obj, _CONTAINERS):
            if notes.is_known(obj):
                notes.contents(obj)
            return obj
        if isinstance(obj, (Tensor, str, bytes, range, *_ITERATORS)):
            if isinstance(obj, Tensor):
                notes.tensor_argument(obj)
            return obj
        if isinstance(special := _static(type(obj), "__iter__"), types.FunctionType):
            return self.call(special, obj)
        if not _is_ours(type(obj)):
            notes.fail(f"it goes through a {type(obj).__name__}")
        return obj

    unpacked = iter

    def mapping(self, obj: Any) -> Any:
        """What ``**`` unpacks."""
        return self.iter(obj)

    def contains(self, obj: Any, item: Any) -> Any:
        """``item in obj``."""
        notes = self.notes
        if notes.reason is None and not isinstance(obj, (*_PLAIN, *_ITERATORS)):
            if isinstance(obj, dict) and notes.is_known(obj):
                notes.has(obj, item)
            elif isinstance(obj, _CONTAINERS):
                self._given(obj)
            elif isinstance(special := _static(type(obj), "__contains__"), types.FunctionType):
                return self.call(special, obj, item)
            elif not isinstance(obj, Tensor):
                notes.fail(f"it searches a {type(obj).__name__}")
        return self.plain(item) in obj

    def context(self, manager: Any) -> Any:
        """What ``with`` enters."""
        if self.notes.reason is None and not (_is_ours(type(manager)) or isinstance(manager, contextlib.nullcontext)):
            self.notes.fail(f"it enters a {type(manager).__name__} by with")
        return manager

    def shown(self, value: Any) -> Any:
        """What an f-string shows."""
        if self.notes.reason is None and not isinstance(value, (*_PLAIN, Tensor)):
            self.notes.fail(f"it formats a {type(value).__name__}")
        return self.plain(value)

    def plain(self, value: Any) -> Any:
        """An operand of a comparison of three or more."""
        if type(value) is LiveNumber:
            return self.notes.settled(value)
        return self._given(value) if self.notes.reason is None else value

    def tested(self, value: Any) -> Any:
        """What ``if``, ``while``, ``and``, ``or`` and ``not`` test."""
        notes = self.notes
        if type(value) is LiveNumber:
            return notes.settled(value)
        if notes.reason is None:
            if isinstance(value, _CONTAINERS):
                if notes.is_known(value):
                    notes.emptiness(value)
            elif not isinstance(value, (*_PLAIN, Tensor)):
                if special := _special_method(value, "__bool__") or _special_method(value, "__len__"):
                    self.call(special, value)
        return value

    # -- operators --------------------------------------------------------------------------------------

    def binary(self, what: str, left: Any, right: Any) -> Any:
        """``left + right`` and other operators."""
        left, right = self._operand(left), self._operand(right)
        return getattr(operator, what)(left, right)

    def unary(self, what: str, value: Any) -> Any:
        """``-value`` and others."""
        return getattr(operator, what)(self._operand(value))

    def inplace(self, what: str, left: Any, right: Any) -> Any:
        """``left += right`` for a variable."""
        if isinstance(left, _CONTAINERS) and self.notes.is_known(left):
            self.notes.fail(f"it changes a {type(left).__name__} from outside in place")
        return _INPLACE[what](self._operand(left), self._operand(right))

    def augment_attr(self, what: str, obj: Any, name: str, value: Any) -> None:
        """``obj.name += value``."""
        notes = self.notes
        if notes.reason is None and notes.is_known(obj) and not isinstance(obj, Tensor):
            old = getattr(obj, name)
            if isinstance(old, (int, float)) and type(value) in (int, float):
                notes.count(obj, name, what, value)
                return
        place = self.at(obj)
        setattr(place, name, _INPLACE[what](self._operand(self.attr(obj, name)), self._operand(value)))

    def augment_item(self, what: str, obj: Any, key: Any, value: Any) -> None:
        """``obj[key] += value``."""
        self.at(obj)[key] = _INPLACE[what](self._operand(self.item(obj, key)), self._operand(value))

    def _operand(self, value: Any) -> Any:
        notes = self.notes
        if notes.reason is not None:
            return value
        if isinstance(value, Tensor):
            notes.tensor_argument(value)
        elif type(value) is LiveNumber:
            return notes.settled(value)
        elif isinstance(value, _CONTAINERS):
            return self._given(value)
        elif isinstance(value, np.ndarray):
            notes.fail("it computes with a NumPy array")
        elif not isinstance(value, _PLAIN) and not _is_ours(type(value)):
            notes.fail(f"it computes with a {type(value).__name__}")
        return value

    # -- stores -----------------------------------------------------------------------------------------

    def at(self, obj: Any) -> Any:
        """``obj`` where an attribute or item of it is assigned or deleted."""
        if self.notes.reason is not None or not (self.notes.is_known(obj) or isinstance(obj, Tensor)):
            return obj
        return _Target(self, obj)

    def store_attr(self, obj: Any, name: str, value: Any) -> None:
        """``obj.name = value`` for a known object or a tensor."""
        notes = self.notes
        if isinstance(obj, Tensor):
            notes.store_tensor_attribute(obj, name, value)
        elif not notes.same_attribute(obj, name, value):
            notes.fail(f"it assigns {name} of a {type(obj).__name__} from outside")
        setattr(obj, name, value)

    def store_item(self, obj: Any, key: Any, value: Any) -> None:
        """``obj[key] = value`` for a known object or a tensor."""
        notes = self.notes
        if isinstance(obj, Tensor):
            notes.tensor_argument(obj)
            self._settled_key(key)
            if isinstance(value, np.ndarray):
                notes.fail("it writes a NumPy array into a tensor")
            value = self._operand(value)
        elif isinstance(obj, (list, dict)):
            if not notes.same_item(obj, key, value):
                notes.fail(f"it assigns an item of a {type(obj).__name__} from outside")
        elif isinstance(special := _static(type(obj), "__setitem__"), types.FunctionType):
            self.call(special, obj, key, value)
            return
        else:
            notes.fail(f"it assigns an item of a {type(obj).__name__} from outside")
        obj[key] = value

    def delete(self, obj: Any, what: str) -> None:
        """Something of a known object is about to be deleted."""
        self.notes.fail(f"it deletes {what} of a {type(obj).__name__} from outside")


class _LiveWatch(Watch):
    """The Watch of optimisers: their options, floats in dictionaries, may have other values in the next run."""

    def __init__(self, watch: Watch):
        super().__init__(watch.notes)

    def item(self, obj: Any, key: Any) -> Any:
        """``obj[key]``, as a LiveNumber where it is a float."""
        if type(obj) is dict and self.notes.reason is None and self.notes.is_known(obj):
            value = obj.get(key)
            if type(value) is float and key != "params":
                return self.notes.live_number(obj, key, value)
        return super().item(obj, key)


class _Target:
    """Stands for a known object where it is assigned to."""

    __slots__ = ("_Target__of",)

    def __init__(self, watch: Watch, obj: Any):
        object.__setattr__(self, "_Target__of", (watch, obj))

    def __setattr__(self, name: str, value: Any) -> None:
        watch, obj = self._Target__of
        watch.store_attr(obj, name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        watch, obj = self._Target__of
        watch.store_item(obj, key, value)

    def __delattr__(self, name: str) -> None:
        watch, obj = self._Target__of
        if isinstance(obj, Tensor) and name == "grad":
            watch.store_attr(obj, name, None)
            return
        watch.delete(obj, name)
        delattr(obj, name)

    def __delitem__(self, key: Any) -> None:
        watch, obj = self._Target__of
        watch.delete(obj, "an item")
        del obj[key]


_ITERATORS = (
    types.GeneratorType, zip, map, filter, enumerate, reversed, type(iter([])), type(iter(())), type(iter({})),
    type(iter({}.values())), type(iter({}.items())), type({}.keys()), type({}.values()), type({}.items()),
    type(iter(range(0))), type(OrderedDict().values()), type(OrderedDict().items()), type(OrderedDict().keys()),
    type(iter(OrderedDict())), type(iter("")), type(iter(set())),
)  # fmt: skip
_SPECIAL = {"bool": "__bool__", "len": "__len__", "iter": "__iter__", "next": "__next__", "repr": "__repr__"}


_ABSENT = object()


def _special_method(value: Any, name: str) -> Any:
    found = _static(type(value), name)
    return found if isinstance(found, types.FunctionType) else None


def _static(kind: type, name: str) -> Any:
    """What a class has under a name, as it stands in the class's own dictionary or that of a base."""
    for cls in kind.__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name]
    return _ABSENT


def _module_of(function: Any) -> str:
    return function.__globals__.get("__name__") or ""


def _is_ours(kind: type) -> bool:
    module = getattr(kind, "__module__", "") or ""
    return module == "jitgrad" or (module.startswith("jitgrad.") and not module.startswith(_WATCHED))


def _hashable(value: Any) -> bool:
    return type(value).__hash__ is not None


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or f"a {type(function).__name__}"


@functools.cache
def _UPDATE() -> Any:
    from jitgrad.optim.fused_step import update

    return update
