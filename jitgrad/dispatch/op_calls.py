"""Observers of op calls: how a profiler sees calls of ops, and a checkpoint's policy replaces them.

Every function that applies an op is registered here when it is declared. While there are observers, each of these
functions, still the same object, runs other code that passes the call to them; so it does not matter who has imported
the function, or when. While there are none, functions run their own code, and nothing is tested.

    def observer(op, call, args, kwargs):
        return call(*args, **kwargs)          # the result; ``call`` goes on to the next observer, then to the op

What is exchanged is ``function.__code__``; CPython allows it between functions with equally many closure variables. The
code is read when a call begins, so calls that are running meanwhile, in other threads, end as they began.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.kernels.threads import fork_safe

__all__ = [
    "NOT_OVERRIDDEN", "PLAIN", "Observer", "OpFunction", "add_observer", "is_own", "observed", "op_function",
    "operation_behind", "original", "register", "remove_observer", "separate", "set_code", "set_interceptor",
]  # fmt: skip


class OpFunction:
    """A function by which users and other ops apply an op.

    operation: the ElementwiseOp or Structured class whose own function this is or goes on to; None for a function
    composed of several ops. in_place: whether it writes to its first argument. own: whether it is the op's own
    function, not one that goes on to it. silent: whether only overrides see its calls, since observers see those of
    the function that it goes on to. call: the function as it is while nobody observes. name: that of the function, or
    of the one that it is separate from.
    """

    __slots__ = ("__weakref__", "call", "function", "in_place", "name", "operation", "own", "plain", "silent")

    def __init__(self, function: FunctionType, operation: Any, in_place: bool, own: bool, silent: bool, name: str):
        self.function, self.silent, self.name = function, silent, name or function.__name__
        self.operation, self.in_place, self.own = operation, in_place, own
        self.take_code(function.__code__)

    def take_code(self, code: CodeType) -> None:
        """Let ``call`` run the function's own ``code``, with the defaults that the function has now."""
        # A copy of the function, for the original's code may be exchanged while it is called.
        self.plain, f = code, self.function
        self.call = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
        self.call.__kwdefaults__, self.call.__annotations__ = f.__kwdefaults__, f.__annotations__
        self.call.__qualname__ = f.__qualname__  # which errors of missing arguments name

    def observed(self, /, *args: Any, **kwargs: Any) -> Any:
        """Give a call to the arguments that override ops, if there are such, else to the observers, the last first."""
        if _interceptor is not None:
            # Most calls are of these types alone: a loop, written out, is half the time of asking.
            asked = bool(kwargs or state.function_modes)
            for x in args:
                if x.__class__ not in PLAIN:
                    asked = True
                    break
            if asked:
                result = _interceptor(self, args, kwargs)
                if result is not NOT_OVERRIDDEN:
                    return result
        if _observers:
            return self.proceed(*args, **kwargs)
        return self.call(*args, **kwargs)

    def proceed(self, /, *args: Any, **kwargs: Any) -> Any:
        """Pass a call to the observers, or make it."""
        if _observers and not self.silent:
            return _proceed(self, _observers, args, kwargs)
        return self.call(*args, **kwargs)


Observer = Callable[[OpFunction, Callable[..., Any], Any, Any], Any]


def _proceed(op: OpFunction, observers: tuple[Observer, ...], args: Any, kwargs: Any) -> Any:
    if not observers:
        return op.call(*args, **kwargs)
    rest = observers[:-1]
    return observers[-1](op, lambda *args, **kwargs: _proceed(op, rest, args, kwargs), args, kwargs)


# Types of arguments that no interceptor wants to see.
PLAIN: set[type] = {int, float, bool, complex, str, bytes, type(None), slice, type(...), dict, type}
Interceptor = Callable[[OpFunction, Any, Any], Any]
NOT_OVERRIDDEN: Any = object()  # what an interceptor returns for a call that is to go on


_lock = fork_safe(threading.RLock())
_added: list[Observer] = []
_observers: tuple[Observer, ...] = ()  # those of _added, each once; a tuple, so that a call sees one state of it
_interceptor: Interceptor | None = None  # it goes before the observers, and stays once it is set
_registered: list[weakref.ref[FunctionType]] = []  # weakly: a user's op may be dropped


def register(
    function: Any, operation: Any = None, in_place: bool = False, own: bool = False, silent: bool = False,
    name: str = "",
) -> None:  # fmt: skip
    """Let calls of ``function`` be observed; the first registration of a function counts.

    Over a thousand functions are registered at import, so this only leaves a note on them; see OpFunction for what the
    parameters mean.
    """
    if isinstance(function, FunctionType) and _note(function) is None:
        vars(function)["_op_note"] = (id(function), operation, in_place, own, silent, name)
        with _lock:
            _registered.append(weakref.ref(function))
            if _exchanged():  # an op declared inside of a profiler's block
                _put(function, True)


def separate(function: Any, name: str, home: str = "Tensor.") -> Any:
    """Another function that does what ``function`` does, known as ``jitgrad.HOMENAME``; its calls are observed, too.

    PyTorch's methods, functions and their aliases are objects of their own: a library's table of overrides has them as
    keys. It costs calls nothing, for it is no function that calls the other, but one with the same code and closure.
    """
    noted = op_function(function)
    code = noted.plain if noted is not None else function.__code__
    other = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    other.__kwdefaults__, other.__doc__ = function.__kwdefaults__, function.__doc__
    other.__module__, other.__qualname__ = "jitgrad", home + name
    known, note = vars(function), _note(function)
    vars(other).update(known, __wrapped__=function, _separated=())  # signatures are read from what is wrapped
    known["_separated"] = (*known.get("_separated", ()), other)
    if note is not None:
        register(other, *note[1:5], name=note[5] or function.__name__)
    return other


def original(function: Any) -> Any:
    """The function that this one is separate from, or itself."""
    wrapped = getattr(function, "__wrapped__", None)
    return wrapped if any(other is function for other in getattr(wrapped, "_separated", ())) else function


def _note(function: Any) -> tuple[int, Any, bool, bool, bool, str] | None:
    """What ``register`` has noted on a function; None for a note that functools.wraps has copied from another one."""
    note = getattr(function, "_op_note", None)
    return note if note is not None and note[0] == id(function) else None


def is_own(function: Any) -> bool:
    """Whether a function is a declared op's own, and not one that calls it."""
    note = _note(function)
    return note is not None and note[3]


def operation_behind(function: Any) -> Any:
    """The op whose own function is a closure variable of ``function``, None if there is none.

    So a public function such as ``add``, which handles ``alpha`` and calls the op, counts as a form of that op.
    """
    for cell in getattr(function, "__closure__", None) or ():
        note = _note(cell.cell_contents)
        if note is not None and note[3]:
            return note[1]
    return None


def observed() -> bool:
    """Whether there are observers: functions that would fuse several ops into one launch then call them one by one."""
    return bool(_observers)


def _exchanged() -> bool:
    """Whether functions run the code that passes calls on."""
    return bool(_observers) or _interceptor is not None


def set_interceptor(interceptor: Interceptor) -> None:
    """Ask ``interceptor`` first at every call of an op, from now on: how tensors that override ops are found."""
    global _interceptor
    with _lock:
        before, _interceptor = _exchanged(), interceptor
        if not before:
            _put_all()


def op_function(function: Any) -> OpFunction | None:
    """The OpFunction of a registered function that is observed; None for others."""
    op: OpFunction | None = getattr(function, "_op_function", None)
    return op if op is not None and op.function is function else None


def add_observer(observer: Observer) -> None:
    """Pass the calls of ops of all threads to ``observer``, until it was removed as often as it was added."""
    with _lock:
        _added.append(observer)
        _exchange()


def remove_observer(observer: Observer) -> None:
    """Undo one ``add_observer``."""
    with _lock:
        _added.remove(observer)
        _exchange()


def _exchange() -> None:
    global _observers
    before = _exchanged()
    _observers = tuple(dict.fromkeys(_added))
    # Codes are exchanged when the first observer comes and the last one goes; between, only the tuple changes.
    if before != _exchanged():
        _put_all()


def _put_all() -> None:
    for function in _living():
        _put(function, _exchanged())


def _living() -> Iterator[FunctionType]:
    """The registered functions that still exist; the list is cleared of the others."""
    found = [(reference, function) for reference in _registered if (function := reference()) is not None]
    _registered[:] = [reference for reference, _ in found]
    return iter([function for _, function in found])


def set_code(function: Any, made: FunctionType) -> None:
    """Give a function, and those separate from it, the code and defaults of ``made``, as its own if it is observed."""
    with _lock:
        for other in vars(function).get("_separated", ()):
            set_code(other, made)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        op = vars(function).get("_op_function")
        noted = op is not None and op.function is function
        if noted:
            op.take_code(made.__code__)
        if not (noted and _exchanged()):
            function.__code__ = made.__code__


def _put(function: Any, observed: bool) -> None:
    """Give a function the code that passes calls to observers, or its own."""
    op = vars(function).get("_op_function")
    if op is None or op.function is not function:
        op = vars(function)["_op_function"] = OpFunction(function, *function._op_note[1:])
    function.__code__ = _observed_code(op) if observed else op.plain
    # Signatures are read from the code, which takes anything while it is observed, or else from what it wraps.
    if observed:
        vars(function).setdefault("__wrapped__", op.call)
    elif vars(function).get("__wrapped__") is op.call:
        del vars(function)["__wrapped__"]


@functools.cache
def _template(closure: int) -> CodeType:
    """Code that takes any arguments, has ``closure`` closure variables, and calls method ``observed`` of a constant.

    The constant is an empty tuple, in the place of which ``_observed_code`` puts an OpFunction.
    """
    names = "".join(f"v{k}, " for k in range(closure))
    bind, use = (f"{names} = range({closure})", f"if 0: {names}") if closure else ("", "")
    scope: dict[str, Any] = {}
    exec(
        f"def outer():\n {bind}\n def call(*args, **kwargs):\n  {use}\n  return ().observed(*args, **kwargs)\n"
        " return call\n",
        scope,
    )
    code: CodeType = scope["outer"]().__code__
    return code


def _observed_code(op: OpFunction) -> CodeType:
    """The template's code with the op in the place of its constant ``()``."""
    template = _template(len(op.plain.co_freevars))
    constants = tuple(op if constant == () else constant for constant in template.co_consts)
    # Warnings look for the first frame that is of no file of jitgrad's.
    return template.replace(co_consts=constants, co_name=op.plain.co_name, co_filename=op.plain.co_filename)
