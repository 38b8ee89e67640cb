"""``__torch_function__``: objects that take over the ops they are passed to, and subclasses of Tensor that stay so.

No op tests for such objects. Until the first one is met, functions run their own code: subclasses of Tensor are seen
when an instance is made, modes when they are entered, and other classes where an op fails on an operand that it does
not know. From then on all functions of ops ask ``_overridden`` first, by the code that observers of calls use
(op_calls.py), which costs a call of plain tensors half a microsecond for each function that it passes.

Who is asked: the innermost mode, then operands by their classes, a subclass before its base. ``func`` is the public
function that was called; attributes of tensors ask, too. Inside of ops, and of backward, nothing is asked: rules work
on plain tensors.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

from jitgrad.core.device import device
from jitgrad.core.dtypes import dtype
from jitgrad.core.grad_mode import state
from jitgrad.core.layout import Size
from jitgrad.core.override_off import DISABLED
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_calls import NOT_OVERRIDDEN, PLAIN, OpFunction, register, set_interceptor

__all__ = [
    "DISABLED", "activate", "ask_all", "is_active", "is_overriding", "overloaded_in", "register_methods", "retried",
    "set_functions", "without_modes",
]  # fmt: skip


PLAIN.update({Tensor, Size, dtype, device})  # known not to override; of other types the attribute is looked up
_active = False
_lock = threading.RLock()


def is_overriding(x: Any) -> bool:
    """Whether ``x`` is of a class that takes over ops."""
    kind = x.__class__
    if kind in PLAIN:
        return False
    own = getattr(kind, "__torch_function__", None)
    if own is None or own is DISABLED:
        return False
    return x._level is None if isinstance(x, Tensor) else not _is_of_pytorch(kind)


def _is_of_pytorch(kind: type) -> bool:
    """Whether a class is PyTorch's own Tensor or derived from it: what it takes over are that library's functions."""
    return any(c.__module__ == "torch" and c.__qualname__ == "Tensor" for c in kind.__mro__)


def overloaded_in(args: Iterable[Any]) -> list[Any]:
    """Those of the arguments that take over ops, one of each class; subclasses stand before their bases."""
    found: list[Any] = []
    for x in args:
        if x.__class__ in PLAIN or not is_overriding(x) or any(type(x) is type(y) for y in found):
            continue
        place = next((k for k, y in enumerate(found) if issubclass(type(x), type(y))), len(found))
        found.insert(place, x)
    return found


def _flat(args: Iterable[Any]) -> list[Any]:
    """Arguments, and the items of those that are lists or tuples."""
    flat: list[Any] = []
    for x in args:
        if isinstance(x, (list, tuple)) and x.__class__ is not Size and not is_overriding(x):
            flat += x
        else:
            flat.append(x)
    return flat


def _any_overriding(args: Sequence[Any], depth: int = 3) -> bool:
    """Whether one of them is, or holds, an object that takes over ops; a list may hold itself."""
    for x in args:
        if x.__class__ in PLAIN:
            continue
        if x.__class__ in (list, tuple):
            if depth and _any_overriding(x, depth - 1):
                return True
        elif is_overriding(x):
            return True
    return False


def _overridden(op: OpFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call gives where a mode or an operand takes it over; NOT_OVERRIDDEN elsewhere."""
    if state.overrides and (state.overrides == 2 or not state.function_modes):
        return NOT_OVERRIDDEN
    if not state.function_modes and not _any_overriding(args) and not (kwargs and _any_overriding([*kwargs.values()])):
        return NOT_OVERRIDDEN
    name = op.function.__name__
    if name in _UNASKED and not state.function_modes:
        return NOT_OVERRIDDEN
    try:
        return _ask(_told(op.function), args, kwargs)
    except _Unhandled:
        if name in _BINARY:
            return NotImplemented
        raise


def _told(function: Any) -> Any:
    """What is told to have been called: an operator's method, or the function that has gone on to an op's own."""
    name = function.__name__
    if name in _TOLD:
        return vars(Tensor)[_TOLD[name]]
    public = _functions.get(name)
    return public if getattr(public, "__wrapped__", None) is function else function


# To which a tensor is an object like others; and iteration, whose steps ask.
_UNASKED = {"as_tensor", "asarray", "is_tensor", "tensor", "__iter__"}

# What operators are told to be where PyTorch has them as another method; of others ``func`` is the operator itself.
_TOLD = {
    **{f"__{op}__": op for op in ["add", "sub", "mul", "ne", "lt", "le", "gt", "ge", "neg", "abs", "matmul"]},
    **{f"__i{op}__": f"{op}_" for op in ["add", "sub", "mul"]},
    "__radd__": "add", "__rmul__": "mul", "__truediv__": "div", "__itruediv__": "div_", "__mod__": "remainder",
    "__imod__": "remainder_", "__ifloordiv__": "floor_divide_", "__pos__": "positive", "__rand__": "bitwise_and",
    "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__rtruediv__": "__rdiv__", "__rmatmul__": "__rmatmul__",
}  # fmt: skip

# Operators of two operands, and those that Python asks the other one for.
_BINARY = {
    f"__{prefix}{op}__"
    for op in ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"]
    + ["and", "or", "xor", "lshift", "rshift"]
    for prefix in ("", "r", "i")
} | {f"__{op}__" for op in ["eq", "ne", "lt", "le", "gt", "ge"]}


def _ask(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    overloaded = [] if state.overrides else overloaded_in(_flat((*args, *kwargs.values())))
    return ask_all(func, overloaded, args, kwargs)


def ask_all(func: Any, overloaded: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Ask the innermost mode, then ``overloaded``, for the result of a call; TypeError if all return NotImplemented."""
    types, mode = tuple(map(type, overloaded)), None
    if state.function_modes:
        with without_modes(1) as mode:
            if isinstance(getattr(mode.__torch_function__, "__self__", None), type):
                raise RuntimeError(
                    "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a "
                    "plain method"
                )
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for x in overloaded:
        own = x.__torch_function__
        if getattr(own, "__self__", None) is x:
            compiled = getattr(func, "__module__", "") == "jitgrad"  # PyTorch's warning is another from C++
            warnings.warn(_PLAIN_METHOD, UserWarning if compiled else DeprecationWarning, stacklevel=2)
        result = own(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(func, "__name__", str(func))
    home = "jitgrad.Tensor" if vars(Tensor).get(name) is func else getattr(func, "__module__", "jitgrad")
    name = f"{home}.{name}".replace("jitgrad", "torch", 1)
    raise _Unhandled(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented: no "
        f"implementation found for '{name}' on types that implement __torch_function__: {list(types)}"
        + (f" nor was it found on the currently active mode {mode}" if mode is not None else "")
    )


class _Unhandled(TypeError):
    """All have returned NotImplemented; an operator returns that, too, and Python asks the other operand's."""


_PLAIN_METHOD = (
    "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, please define "
    "it as a classmethod."
)


class without_modes:
    """A block with the innermost ``count`` modes taken away; it gives the innermost of them."""

    def __init__(self, count: int):
        self.count = count

    def __enter__(self) -> Any:
        self.before = state.function_modes
        state.function_modes = self.before[: len(self.before) - self.count]
        return self.before[-1]

    def __exit__(self, *error: Any) -> None:
        state.function_modes = self.before


# -- the first one ------------------------------------------------------------------------------------------


def activate() -> None:
    """Have every op ask its arguments from now on."""
    import jitgrad

    global _active
    if _active:
        return
    with _lock:
        if _active:
            return
        _active = True
        set_interceptor(_overridden)
        for name, plain in list(vars(Tensor).items()):
            if isinstance(plain, property):
                _let_ask(name, plain)
                setattr(Tensor, name, plain)  # whoever has cached what it calls asks again
        PLAIN.update({jitgrad.nn.Parameter, jitgrad.nn.Buffer})
        register_methods()


def is_active() -> bool:
    """Whether ops ask their arguments."""
    return _active


_ASKING = {"__invert__", "__matmul__", "__repr__", "_is_view"}  # methods that are no ops by themselves
# Code of functions that call an op and, where it fails, look at its arguments once more.
_LOOKING = {"explaining", "renaming", "writing", "apply", "inplace"}


def retried(error: Any, args: Any, kwargs: Any, above: int = 1) -> bool:
    """Whether a call that has failed is to be made again, since an argument turns out to take over ops.

    That is so once, for the first such argument of the process: ops don't look for them until then. A call inside of
    another op leaves it to that one, and marks the error. above: the frames between here and the op's caller.
    """
    if state.overrides or not (_any_overriding(args) or _any_overriding([*kwargs.values()])):
        return False
    if _active and not getattr(error, "_met_override", False):
        return False
    activate()
    frame: Any = sys._getframe(above).f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith("jitgrad."):
        if frame.f_code.co_name in _LOOKING:
            error._met_override = True
            return False
        frame = frame.f_back
    return True


# -- who is called ------------------------------------------------------------------------------------------

def _asking(name: str, descriptor: str, plain: Callable[..., Any] | None) -> Any:
    """``fget``, ``fset`` or ``fdel`` of a property that asks who overrides it. descriptor: ``__get__`` and so on."""
    if plain is None:
        return None

    def asking(self: Any, *value: Any) -> Any:
        if self.__class__ in PLAIN and not state.function_modes:
            return plain(self, *value)
        if state.overrides == 2 or not (state.function_modes or (not state.overrides and is_overriding(self))):
            return plain(self, *value)
        return _ask(getattr(vars(Tensor)[name], descriptor), (self, *value), {})

    asking.__name__ = name
    return asking


def _let_ask(name: str, plain: property) -> None:
    """Make a property ask that stays the same object: its ``__get__`` may be a key in a library's table."""
    accessors = {"__get__": plain.fget, "__set__": plain.fset, "__delete__": plain.fdel}
    get, put, delete = [_asking(name, descriptor, own) for descriptor, own in accessors.items()]
    plain.__init__(get, put, delete, plain.__doc__)  # type: ignore[misc]


_functions: dict[str, Any] = {}
# Modules of functions that are no ops, but may be overridden as a whole, and which of them; "" for all.
_MODULES = {"jitgrad.nn.functional": "", "jitgrad.nn.init": "", "jitgrad.autograd": "grad backward"}


def set_functions(functions: dict[str, Any]) -> None:
    """Name the table of public functions; called by registry.py, which imports this file."""
    global _functions
    _functions = functions


def _register_functions() -> None:
    """Let public functions ask that are no op's own, but go on to one, or to several."""
    for function in _functions.values():
        register(function, silent=True)
    for module, names in _MODULES.items():
        for name, function in vars(import_module(module)).items():
            if name[0] != "_" and (name in names.split() if names else getattr(function, "__module__", "") == module):
                register(function, silent=True)


def register_methods() -> None:
    """Let methods ask that are no ops, such as ``detach``; called again when a module has published more of them."""
    _register_functions()
    for name, function in vars(Tensor).items():
        if isinstance(function, FunctionType) and (name[0] != "_" or name in _ASKING) and name not in _SILENT:
            register(function, silent=True)


_SILENT = {"__new__", "__init__", "__hash__", "__iter__"}

