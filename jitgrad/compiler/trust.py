"""What a Watch takes on trust: jitgrad's own functions, and what of Python changes nothing and remembers nothing."""

from __future__ import annotations

import array
import builtins
import contextlib
import functools
import operator
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from jitgrad.core.override_off import DISABLED
from jitgrad.core.tensor import Tensor

__all__ = [
    "ABSENT", "CHANGING", "COMPARING", "CONTAINERS", "HASHING", "ITERATORS", "OF_C", "OPEN", "OPERATING", "PLAIN",
    "PURE", "PURE_MODULES", "READ_ONLY", "SHOWING", "hands_on", "has_special", "has_state", "is_callable_object",
    "is_ours", "is_programs", "is_users", "is_users_function", "is_watched", "module_of", "restores", "special_method",
    "static_attribute", "takes_over", "title",
]  # fmt: skip

# Python code of jitgrad that is watched like a user's, since it reads what programs may change between two calls.
_WATCHED = (
    "jitgrad.nn.modules.", "jitgrad.nn.utils", "jitgrad.optim.", "jitgrad.func.modules",
    "jitgrad.compiler.optimized_module", "jitgrad.amp.grad_scaler",
    "jitgrad.utils.checkpoint.checkpoint_sequential", "jitgrad.utils.checkpoint._in_turn",
)  # fmt: skip
_TRUSTED = ("jitgrad.optim.fused_step",)
# Modules whose objects are constants, or noted in ways of their own, as tensors are; but blocks' modes have state.
_STATELESS = (
    "jitgrad.core.", "jitgrad.kernels", "jitgrad.ops", "jitgrad.dispatch", "jitgrad.engine", "jitgrad.nn",
    "jitgrad.random", "jitgrad.compiler", "jitgrad.testing", "jitgrad.debug", "jitgrad.extend", "jitgrad.library",
)  # fmt: skip
_MODES = ("jitgrad.core.grad_mode", "jitgrad.core.inference")
# (module, name) of what jitgrad's decorators return: it passes its arguments on to the decorated function, unread.
_HANDING_ON = {
    ("jitgrad.core.grad_mode", "wrapped"), ("jitgrad.amp.autocast_mode", "decorated"),
    ("jitgrad.core.device", "on_device"), ("jitgrad.autograd.function", "wrapper"),
}  # fmt: skip
# (module, name) of generators by whose context managers nothing is changed when the block has ended.
_RESTORING = {("jitgrad.random", "fork_rng"), ("jitgrad.nn.attention", "sdpa_kernel")}
# What has no state of its own, so that operators on it read nothing else and change nothing.
PLAIN = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, type, types.FunctionType,
    types.BuiltinFunctionType, types.ModuleType, np.generic, np.dtype,
)  # fmt: skip
OF_C = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
CONTAINERS = (list, tuple, dict, set, frozenset, OrderedDict, defaultdict, deque)
PURE = {
    getattr(builtins, name)
    for name in (
        "abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod",
        "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "id", "int", "isinstance", "issubclass",
        "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow", "range", "repr", "reversed",
        "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
    )
} | {OrderedDict, defaultdict, deque, functools.partial, contextlib.nullcontext}  # fmt: skip
PURE_MODULES = ("math", "_operator", "operator", "itertools", "_functools", "cmath")
CHANGING = {  # functions of C that change their first argument
    getattr(operator, name)
    for name in (
        "setitem", "delitem", "iconcat", "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow",
        "ilshift", "irshift", "iand", "ior", "ixor",
    )
}  # fmt: skip
# The special methods behind comparisons, behind all operators and numeric functions, and behind texts of objects.
COMPARING = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_NAMES = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
    "or",
)  # fmt: skip
OPERATING = (
    *COMPARING, *(f"__{side}{name}__" for name in _NAMES for side in ("", "r", "i")), "__neg__", "__pos__", "__abs__",
    "__invert__", "__bool__", "__len__", "__getitem__", "__contains__", "__round__", "__index__", "__float__",
    "__int__", "__complex__", "__setitem__", "__delitem__",
)  # fmt: skip
HASHING = ("__hash__", "__eq__")
SHOWING = ("__format__", "__str__", "__repr__")
OPEN: tuple[type, ...] = (  # what C reads of other objects, or of memory, that may change
    bytearray, memoryview, array.array, types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()),
    type(OrderedDict().keys()), type(OrderedDict().values()), type(OrderedDict().items()),
)  # fmt: skip
READ_ONLY = {  # methods of containers
    "get", "items", "keys", "values", "index", "count", "copy", "__contains__", "__getitem__", "__len__", "__iter__",
    "union", "intersection", "difference", "issubset", "issuperset", "isdisjoint", "symmetric_difference",
}  # fmt: skip
ITERATORS: tuple[type, ...] = (
    types.GeneratorType, zip, map, filter, enumerate, reversed, type(iter([])), type(iter(())), type(iter({})),
    type(iter({}.values())), type(iter({}.items())), type({}.keys()), type({}.values()), type({}.items()),
    type(iter(range(0))), type(OrderedDict().values()), type(OrderedDict().items()), type(OrderedDict().keys()),
    type(iter(OrderedDict())), type(iter("")), type(iter(set())),
)  # fmt: skip
_HEAP = 1 << 9  # of a class's flags: it was made by a class statement, or a call of ``type``
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>"})()


def module_of(function: Any) -> str:
    """The name of the module that a Python function was defined in."""
    return function.__globals__.get("__name__") or ""


def is_watched(function: types.FunctionType) -> bool:
    """Whether a Python function is followed, rather than taken as one that only reads its arguments."""
    module = module_of(function)
    if module == "jitgrad" or module.startswith("jitgrad."):
        name = f"{module}.{function.__qualname__}"
        return name.startswith(_WATCHED) and not name.startswith(_TRUSTED)
    return not module.startswith(("numpy", "numba", "contextlib"))


def hands_on(function: types.FunctionType) -> bool:
    """Whether a function is what a decorator in `_HANDING_ON` made of a watched function, as ``no_grad()(f)`` is."""
    if (module_of(function), function.__code__.co_name) not in _HANDING_ON:
        return False
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return any(isinstance(f, types.FunctionType) and (is_watched(f) or hands_on(f)) for f in held)


def restores(manager: Any) -> bool:
    """Whether a context manager is one of jitgrad's in `_RESTORING`, of which a replay needs no more than launches."""
    frame = getattr(getattr(manager, "gen", None), "gi_frame", None)
    return frame is not None and (frame.f_globals.get("__name__"), frame.f_code.co_name) in _RESTORING


def is_users_function(function: types.FunctionType) -> bool:
    """Whether a Python function is a program's, or of a library other than jitgrad."""
    return not module_of(function).startswith("jitgrad.")


def is_ours(kind: type) -> bool:
    """Whether a class is one of jitgrad's, other than those whose methods are watched."""
    module = getattr(kind, "__module__", "") or ""
    # Tensor's module is ``torch`` while jitgrad stands in for PyTorch (compat).
    return kind is Tensor or module == "jitgrad" or (module.startswith("jitgrad.") and not module.startswith(_WATCHED))


def has_state(value: Any) -> bool:
    """Whether an object has attributes that functions of jitgrad's read which aren't followed, as a distribution's."""
    if isinstance(value, type) or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    ours = [cls.__module__ for cls in type(value).__mro__ if is_ours(cls)]
    return bool(ours) and not all(m.startswith(_STATELESS) and not m.startswith(_MODES) for m in ours)


def is_users(kind: type) -> bool:
    """Whether a class is one of a program's: attributes of it may be assigned to."""
    return bool(kind.__flags__ & _HEAP) and not (kind.__module__ or "").startswith(("jitgrad.", "numpy"))


def static_attribute(kind: type, name: str) -> Any:
    """What a class or a base of it has under a name, as it stands there: properties and functions themselves."""
    for cls in kind.__mro__:
        if name in cls.__dict__:
            return cls.__dict__[name]
    return ABSENT


def special_method(value: Any, name: str) -> Any:
    """A special method of a value's class that is written in Python; None for others."""
    found = static_attribute(type(value), name)
    return found if isinstance(found, types.FunctionType) else None


def has_special(value: Any, names: Iterable[str]) -> bool:
    """Whether a program's class has one of these special methods, written in Python but not for all enumerations."""
    kind = type(value)
    if not is_users(kind) or is_ours(kind):
        return False
    found = [special_method(value, name) for name in names]
    return any(function is not None and module_of(function) not in ("enum", "abc") for function in found)


def is_programs(value: Any) -> bool:
    """Whether a value is a function of a program's, or an object of which a program decides what calling it does."""
    if isinstance(value, types.FunctionType):
        return is_watched(value)
    if isinstance(value, (types.MethodType, functools.partial)):
        return is_programs(value.__func__ if isinstance(value, types.MethodType) else value.func)
    kind = type(value)
    if is_users(kind):
        return not isinstance(value, type) and not any(map(is_ours, kind.__mro__))
    return not is_ours(kind) and is_callable_object(value)


def is_callable_object(value: Any) -> bool:
    """Whether a value's class defines ``__call__`` in Python."""
    return special_method(value, "__call__") is not None


def takes_over(value: Any) -> bool:
    """Whether a program's class has a ``__torch_function__`` of its own, which ops call unwatched."""
    kind = type(value)
    if not is_users(kind) or is_ours(kind) or kind is Tensor:
        return False
    found = static_attribute(kind, "__torch_function__")
    return found not in (ABSENT, DISABLED, static_attribute(Tensor, "__torch_function__"))


def title(function: Any) -> str:
    """What messages call a function."""
    return getattr(function, "__qualname__", None) or f"a {type(function).__name__}"
