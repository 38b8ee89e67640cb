"""What a function reads and changes, noted while it runs: the Watch that rewritten functions ask.

Objects are known, that is, they were there before the function ran, or new. What is read of known ones becomes a guard.
A change of a known object that a program can't repeat makes the function one that isn't compiled: ``fail`` notes the
first such reason, after which the Watch passes everything through.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.autograd.function import Function, FunctionMeta
from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.builtin_calls import BuiltinCalls
from jitgrad.compiler.definitions import NotRewritable
from jitgrad.compiler.instrument import WATCH, outer_names, rewritten
from jitgrad.compiler.modes import modes_read_by
from jitgrad.compiler.notes import Notes
from jitgrad.compiler.tensor_notes import HOOKS
from jitgrad.compiler.trust import (
    OF_C,
    PURE,
    hands_on,
    has_special,
    has_state,
    is_callable_object,
    is_ours,
    is_programs,
    is_users,
    is_watched,
    module_of,
    static_attribute,
    title,
)
from jitgrad.core.device import device
from jitgrad.core.dtypes import dtype
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.launch import observers
from jitgrad.kernels.program import LiveNumber
from jitgrad.optim.fused_step import update
from jitgrad.optim.lr_scheduler import LRScheduler
from jitgrad.optim.options import as_number

__all__ = ["Watch"]

_HOOKING = {"register_hook", "register_post_accumulate_grad_hook", "retain_grad"}
# jitgrad's functions that return what an attribute of their argument tells.
_READING = {"get_gradient_edge": "grad_fn", "is_inference": "is_inference", "as_strided": "storage_offset",
            "as_strided_": "storage_offset", "as_strided_scatter": "storage_offset"}  # fmt: skip
_APPLY = vars(Function)["apply"].__func__
_METHODS_OF_FUNCTIONS = ("forward", "setup_context", "backward", "vjp", "jvp", "vmap")
_FROM_DATA = "jitgrad.ops.creation.from_data"  # whose functions put Python's numbers into new tensors
# Modules whose functions do nothing with a callable that they are given but call it.
_CALLING = "jitgrad.utils.checkpoint", "jitgrad.func.", "jitgrad.autograd.functional"
_CALLING_AGAIN = "jitgrad.utils.checkpoint"  # and once more in backward
# Modules whose functions hold no function of a user's in their closures, or one that is followed already.
_CLOSED = ("jitgrad.dispatch", "jitgrad.ops", "jitgrad.nn", "jitgrad.kernels", "jitgrad.engine", __name__)


def _is_plain(value: Any) -> bool:
    """Whether it is a constant."""
    return isinstance(value, (type, dtype, device, Size)) or type(value) in (int, float, bool, str, bytes, type(None))


def _is_named_tuple(cls: type) -> bool:
    """Whether a class is made by NamedTuple, or derived from such a one without a way of its own to be made."""
    made = getattr(cls.__new__, "__module__", None) or ""
    return issubclass(cls, tuple) and made.startswith("namedtuple_") and cls.__init__ is object.__init__


class Watch(BuiltinCalls):
    """Does what rewritten functions ask for, and notes in ``notes`` what it depends on."""

    def __init__(self, notes: Notes):
        self.notes = notes
        self._of_optimizers = _LiveWatch(notes) if type(self) is Watch else None

    def prepared(self, function: types.FunctionType) -> Callable[..., Any]:
        """The function rewritten; what it reads of its surroundings is guarded."""
        code = function.__code__
        if WATCH in code.co_freevars:
            return function
        reads, writes = outer_names(code)
        notes, name = self.notes, function.__qualname__
        for outer, line in writes.items():
            notes.fail(f"{name} assigns to {outer}, a variable outside of it", (code, line))
            return function
        module = module_of(function)
        try:
            watch = self._of_optimizers if module.startswith("jitgrad.optim.") else None
            made = rewritten(function, watch or self)
        except NotRewritable as error:
            notes.fail(f"{name} can't be followed: {error}", (code, error.line))
            return function
        self._note_surroundings(function, reads, module.startswith("jitgrad."))
        return made

    def _note_surroundings(self, function: types.FunctionType, reads: tuple[str, ...], ours: bool) -> None:
        """Globals, defaults, variables of enclosing functions; those of jitgrad's own functions stay as they are."""
        notes, own = self.notes, function.__globals__
        if not ours:
            for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                notes.know(value)
        for name in reads:
            if name in own:
                notes.know(own[name]) if ours else notes.item(own, name, own[name])
            elif not ours:  # a built-in, or nothing so far
                notes.has(own, name)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with contextlib.suppress(ValueError):  # of a variable that has no value yet
                if ours or name == "__class__":
                    notes.know(cell.cell_contents)
                else:
                    notes.cell(cell, cell.cell_contents)

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
        if isinstance(function, OF_C):
            return self.builtin(function, args, kwargs)
        if isinstance(function, np.ufunc):
            return self._numpy(function, args, kwargs)
        return self._object(function, args, kwargs)

    def _object(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call an object that is no function: a partial, a module, another compiled function."""
        if isinstance(function, functools.partial) and not is_callable_object(function):
            if self.notes.is_known(function):
                self.notes.contents(function.keywords)
            return self.call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
        if isinstance(function, functools._lru_cache_wrapper):
            return self._remembered(function, args, kwargs)
        self.notes.of_class(type(function), "__call__")
        called = static_attribute(type(function), "__call__")
        if not isinstance(called, types.FunctionType):
            self.notes.fail(f"it calls {title(function)}, of which nothing is known")
            return function(*args, **kwargs)
        if is_watched(called):
            return self.call(called, function, *args, **kwargs)
        if original := getattr(function, "_compiled_function", None):  # which becomes a part of this one
            return self.call(original, *args, **kwargs)
        return self._primitive(function, args, kwargs)

    def _remembered(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call what ``functools.cache`` or ``lru_cache`` made; a guard asks for the kept result again in each call."""
        others = [v for v in (*args, *kwargs.values()) if not self._is_the_same(v)]
        if others and all(isinstance(v, Tensor) and self.notes.is_another(v) for v in others):
            return self.call(function.__wrapped__, *args, **kwargs)  # of other tensors each time nothing is kept yet
        if others:
            self.notes.fail(f"it calls {title(function)}, whose results are kept, by objects from outside")
        launches: list[Any] = []

        def launched(*launch: Any) -> None:
            launches.append(launch[0])

        observers.append(launched)
        try:
            result = function(*args, **kwargs)
        finally:
            observers.remove(launched)
        if launches:  # which later calls don't repeat
            self.notes.fail(f"the first call of {title(function)}, whose results are kept, computes tensors")
        self.notes.know(result)
        if not (function.__module__ or "").startswith("jitgrad."):
            self.notes.kept(function, args, kwargs, result)
        return result

    def _is_the_same(self, value: Any) -> bool:
        """Whether every replay has this very value: a constant, an object whose identity is guarded, a tuple of these.

        An argument of the call is none of these: another call may give another object.
        """
        if type(value) is tuple:
            return all(map(self._is_the_same, value))
        of_call = isinstance(value, Tensor) or id(value) in self.notes.arguments
        return _is_plain(value) or (self.notes.is_known(value) and not of_call)

    def _method(self, method: types.MethodType, args: Any, kwargs: Any) -> Any:
        owner, function = method.__self__, method.__func__
        if isinstance(owner, LRScheduler) and function.__name__ == "step" and self.notes.is_known(owner):
            return self.notes.host_call(method, args, kwargs)
        if not isinstance(function, types.FunctionType):
            return self.builtin(method, args, kwargs)
        if function is Tensor.item and isinstance(owner, Tensor) and id(owner) in self.notes.created:
            return self.notes.read(owner)
        if function.__name__ in _HOOKING and isinstance(owner, Tensor) and id(owner) in self.notes.tensors:
            self.notes.fail(HOOKS)
        if function is _APPLY and isinstance(owner, FunctionMeta) and not is_ours(owner):
            return self._applied(owner, args, kwargs)
        if isinstance(owner, type) and not (is_watched(function) or is_ours(owner) or issubclass(owner, Elementwise)):
            self.notes.fail(f"it calls {function.__name__} of {owner.__name__}, whose methods aren't followed")
            return method(*args, **kwargs)
        return self._function(function, (owner, *args), kwargs)

    def _applied(self, cls: Any, args: Any, kwargs: Any) -> Any:
        """``cls.apply(*args)`` of a program's autograd.Function, with its methods rewritten so that they are followed.

        They are in a class derived from ``cls`` for this recording; nodes keep the name that ``cls`` gives them.
        """
        self.notes.repeated = self.notes.repeated or self.notes.here()
        followed: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        for name in _METHODS_OF_FUNCTIONS:
            self.notes.of_class(cls, name)
            if (method := static_attribute(cls, name)) is not static_attribute(Function, name):
                followed[name] = self._static(cls, name, method)
        return type(cls)(cls.__name__, (cls,), followed).apply(*args, **kwargs)

    def _static(self, cls: type, name: str, method: Any) -> Any:
        """The static method that a class has under a name, rewritten; a failure is noted for anything else."""
        function = getattr(method, "__func__", None)
        if isinstance(method, staticmethod) and isinstance(function, types.FunctionType):
            if is_watched(function):
                return staticmethod(self.prepared(function))
            if hands_on(function):
                return staticmethod(self._with_watched_cells(function))
        self.notes.fail(f"it applies {cls.__name__}, whose {name} isn't followed")
        return method

    def _function(self, function: types.FunctionType, args: Any, kwargs: Any) -> Any:
        if WATCH in function.__code__.co_freevars or (function is as_number and type(args[0]) is LiveNumber):
            return args[0] if function is as_number else function(*args, **kwargs)
        if hasattr(function, "_jitgrad_disabled"):
            self.notes.fail(f"it calls {title(function)}, which compiler.disable() keeps from being compiled")
        if is_watched(function):
            return self.prepared(function)(*args, **kwargs)
        if module_of(function).startswith("numpy"):
            return self._numpy(function, args, kwargs)
        if hands_on(function):
            return self._with_watched_cells(function)(*args, **kwargs)
        return self._primitive(function, args, kwargs)

    def _class(self, cls: type, args: Any, kwargs: Any) -> Any:
        """Make an object."""
        if cls in PURE:
            return self.builtin(cls, args, kwargs)
        if _is_named_tuple(cls):  # which keeps what it gets and calls none of it
            return self._unfollowed(cls, args, kwargs)
        if is_users(cls):
            self._refuse_making(cls)
        if is_ours(cls) or issubclass(cls, (BaseException, tuple, np.generic)):
            return self._primitive(cls, args, kwargs)
        for name in ("__init__", "__new__"):
            self.notes.of_class(cls, name)
        init, plain = cls.__init__, cls.__new__ is object.__new__ and type(cls).__call__ is type.__call__
        if isinstance(init, types.FunctionType) and plain:
            obj = cls.__new__(cls)
            self.call(init, obj, *args, **kwargs)
            return obj
        self.notes.fail(f"it makes a {cls.__name__}, of which nothing is known")
        return cls(*args, **kwargs)

    def _refuse_making(self, cls: type) -> None:
        """Note that an object's class has methods that Python calls by itself."""
        names = ["__del__", *(("__init__", "__new__") if issubclass(cls, (BaseException, tuple)) else ())]
        for name in names:
            self.notes.of_class(cls, name)
            if isinstance(getattr(cls, name, None), types.FunctionType):
                self.notes.fail(f"it makes a {cls.__name__}, whose {name} isn't followed")

    def _primitive(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call jitgrad's own function: what it reads are its arguments, modes, and gradients of leaves."""
        notes, read = self.notes, _READING.get(getattr(function, "__name__", ""))
        if isinstance(function, types.FunctionType) and module_of(function).startswith(_CALLING):
            if module_of(function) == _CALLING_AGAIN:
                notes.repeated = notes.repeated or notes.here()
            args = tuple([self._only_called(a) for a in args])
            kwargs = {k: self._only_called(v) for k, v in kwargs.items()}
        for ask, asked in modes_read_by(function):
            notes.kept(ask, asked, {}, ask(*asked))
        for value in (*args, *kwargs.values()):
            if read and isinstance(value, Tensor):
                notes.tensor_attribute(value, read)
            if has_special(value, ("__getitem__", "__iter__")):
                notes.fail(f"it gives a {type(value).__name__} to {title(function)}, where it isn't followed")
            if is_callable_object(value) and (notes.is_known(value) or not is_ours(type(value))):
                notes.fail(f"it gives {title(value)} to {title(function)}, where it isn't followed")
        if not isinstance(function, (type, types.FunctionType)):
            self.given(function)
        return self._unfollowed(function, args, kwargs)

    def _only_called(self, value: Any) -> Any:
        """In place of an object that can be called, a function that calls it as if the program did."""
        return (lambda *args, **kwargs: self.call(value, *args, **kwargs)) if is_callable_object(value) else value

    def _unfollowed(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call what calls none of its arguments."""
        notes = self.notes
        if function is not update:  # which hands numbers on to the kernel, so that they may be live
            args = tuple([self.given(a) for a in args])
            kwargs = {k: self.given(v) for k, v in kwargs.items()}
        if isinstance(function, types.FunctionType):
            function = self._with_watched_cells(function)
        result = function(*args, **kwargs)
        if isinstance(function, types.FunctionType) and module_of(function) == _FROM_DATA:
            notes.host_made.add(id(root_of(result._data)))
        return result

    def _with_watched_cells(self, function: types.FunctionType) -> Any:
        """A function that jitgrad made round a user's, as ``no_grad()(f)`` and ``vmap(f)``, round the watched one."""
        if not function.__closure__ or module_of(function).startswith(_CLOSED):
            return function
        cells = [self._watched_cell(function, cell) for cell in function.__closure__]
        made = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    def _watched_cell(self, function: types.FunctionType, cell: Any) -> Any:
        value = cell.cell_contents
        if isinstance(value, types.FunctionType):
            if is_watched(value):
                self.notes.cell(cell, value)
                return types.CellType(self.prepared(value))
            return types.CellType(self._with_watched_cells(value)) if value is not function else cell
        if isinstance(value, functools.partial):
            self.notes.cell(cell, value)
            return types.CellType(self.given(value))
        if has_state(value) and any(map(is_programs, vars(value).values())):
            self.notes.cell(cell, value)
            return types.CellType(self._with_watched_attributes(value))
        if isinstance(value, types.MethodType) or is_callable_object(value):
            if not is_ours(type(value)):
                self.notes.fail(f"{title(function)} calls {title(value)}, which isn't followed there")
        return cell

    def _with_watched_attributes(self, obj: Any) -> Any:
        """An object of jitgrad's that calls a user's functions, as what ``vmap(f)`` makes, calling the watched ones."""
        made = copy.copy(obj)
        for name, value in [pair for pair in vars(obj).items() if is_programs(pair[1])]:
            self.notes.attribute(obj, name, value)
            if callable(value) and not isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
                value = value.__call__
            setattr(made, name, self.given(value))
        return made

    def _numpy(self, function: Any, args: Any, kwargs: Any) -> Any:
        if any(isinstance(a, (np.ndarray, Tensor, list)) for a in (*args, *kwargs.values())):
            self.notes.fail(f"it calls NumPy's {title(function)} on an array")
        elif getattr(function, "__module__", "").startswith("numpy.random"):
            self.notes.fail("it draws from NumPy's random numbers")
        return function(*[self.given(a) for a in args], **{k: self.given(v) for k, v in kwargs.items()})


class _LiveWatch(Watch):
    """The Watch of optimisers: their options, floats in dictionaries, may have other values in the next run."""

    def item(self, obj: Any, key: Any) -> Any:
        """``obj[key]``, as a LiveNumber where it is a float."""
        if type(obj) is dict and self.notes.reason is None and self.notes.is_known(obj):
            value = obj.get(key)
            if type(value) is float:
                return self.notes.live_number(obj, key, value)
        return super().item(obj, key)
