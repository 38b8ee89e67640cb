"""Publishing: how functions become ``jitgrad.NAME``, methods of Tensor and names of modules such as jitgrad.linalg.

A function of a module is kept under its name with the module's before it, ``linalg.inv``; the op has PyTorch's name
for both, ``linalg_inv``, which is what errors and profilers show.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any, TypeVar

from jitgrad.core.missing_names import missing_name
from jitgrad.core.sparse import SparseOperand
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_calls import is_own, operation_behind, register, separate
from jitgrad.dispatch.out_argument import into_out
from jitgrad.dispatch.overriding import is_active, register_methods, set_functions
from jitgrad.dispatch.parameter_types import NUMPY_NAMES, explain, explained, explains, keywords_again, mark_explaining
from jitgrad.dispatch.sparse_calls import form_after

__all__ = [
    "FUNCTIONS", "LATER", "LATER_METHODS", "OPS", "explaining_form", "fast_method", "method", "module_names",
    "named_in", "numpy_names", "place_in", "public", "publish_later", "publish_rest", "published",
    "set_method",
]  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # what becomes ``jitgrad.NAME``; ops import each other instead
# {name: the module that publishes it}, which is imported at the first use of one of its names.
LATER: dict[str, str] = {}  # functions
LATER_METHODS: dict[str, str] = {}
OPS: dict[str, Any] = {}  # every declared op by its name, for generated tests
F = TypeVar("F", bound=Callable[..., Any])


def published(name: str) -> Callable[..., Any] | None:
    """What is ``jitgrad.NAME``, None if nothing is; the module that publishes it later is imported now."""
    if name not in FUNCTIONS and name in LATER:
        _import_late(LATER[name])
    return FUNCTIONS.get(name)


class _MethodOnFirstUse:
    """In the place of a method of Tensor until it is first read: the module that publishes it is imported then."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __get__(self, instance: Tensor | None, owner: type[Tensor]) -> Any:
        _import_late(LATER_METHODS[self.name])
        method = vars(Tensor)[self.name]
        if method is self:  # asked for by the module itself, before it publishes the method
            raise AttributeError(f"Tensor.{self.name} is not published yet", name=self.name, obj=owner)
        return method.__get__(instance, owner)


def publish_later(module: str, names: str = "", *, functions: str = "", methods: str = "", **within: str) -> None:
    """Have ``module`` imported at the first use of a name that it publishes, unless it was imported already.

    ``names`` are those of functions that are methods, too; ``functions`` and ``methods`` those of either alone;
    ``linalg=...`` those of functions of ``jitgrad.linalg``, and so on.
    """
    if module in sys.modules:
        return
    LATER.update(dict.fromkeys(f"{names} {functions}".split(), module))
    for package, its_names in within.items():
        LATER.update({f"{package}.{name}": module for name in its_names.split()})
    for name in f"{names} {methods}".split():
        LATER_METHODS[name] = module
        setattr(Tensor, name, _MethodOnFirstUse(name))


def publish_rest() -> None:
    """Import all modules named to ``publish_later``, for code that lists every op: samples, stubs, tests."""
    for module in dict.fromkeys((*LATER.values(), *LATER_METHODS.values())):
        _import_late(module)


# The threads that are in `_import_late`, once for each import of theirs. A process that is forked meanwhile would wait
# for ever for a module that none of its threads imports. A lock held for imports would not do: one thread could wait
# for it in an import that another waits for.
_importing: list[int] = []
_PATIENCE = 10.0  # seconds


def _wait_for_other_threads() -> None:
    """Wait until no other thread imports anything late, before the process forks."""
    end = time.monotonic() + _PATIENCE
    while any(thread != threading.get_ident() for thread in _importing) and time.monotonic() < end:
        time.sleep(0.001)


def _forget_other_threads() -> None:
    _importing[:] = [thread for thread in _importing if thread == threading.get_ident()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_other_threads, after_in_child=_forget_other_threads)


def _import_late(module: str) -> None:
    """Import ``module``; if that is interrupted (Ctrl-C, no stack left), it can be imported again.

    What an import has published before it ended so is taken back, since a name is published once.
    """
    _importing.append(threading.get_ident())
    try:
        import_module(module)
    except BaseException:
        for name in [n for n, home in LATER.items() if home not in sys.modules]:
            FUNCTIONS.pop(name, None)
        for name in [n for n, home in LATER_METHODS.items() if home not in sys.modules]:
            setattr(Tensor, name, _MethodOnFirstUse(name))
        raise
    finally:
        _importing.remove(threading.get_ident())
    if is_active():
        register_methods()


set_functions(FUNCTIONS)

def public(
    function: F, name: str = "", *, function_too: bool = True, method_too: bool = True, fast: bool = False,
    module: str = "",
) -> F:  # fmt: skip
    """Publish ``function`` as ``jitgrad.NAME`` and ``Tensor.NAME``; calls of it can be observed (see op_calls.py).

    Errors of the published function name the argument that is wrong (see parameter_types.py). ``fast``: those of the
    method don't, which saves it 0.1 us a call; its first argument, at least, is a tensor. ``module``: publish it as a
    function of that module alone, ``linalg_inv`` as ``jitgrad.linalg.inv``.
    """
    name = name or function.__name__
    method_too = method_too and not module
    in_place = name.startswith("__i") or name[-1] == "_" != name[0]  # ``add_`` and ``__iadd__``, but not ``__add__``
    # An op's own function looks at its operands, the in-place one not at the tensor that a method is called of.
    silent = not explains(function) and (in_place or not is_own(function))
    # Who takes over ops is told by the object whether the function or the method was called.
    shown = function if method_too or vars(Tensor).get(name) is not function else separate(function, name, "")
    form = explained(shown, name) if silent else shown
    if function.__name__[0] == "_" != name[0]:  # observers of calls see the function itself, by its name
        function.__name__ = function.__qualname__ = name
    register(function, operation_behind(function), in_place=in_place)
    if function_too:
        place = place_in(module, name)
        _check_free(place, published(place), function)
        title = place.rpartition(".")[2]
        alias = separate(form, title) if FUNCTIONS.get(form.__qualname__) is form else form
        FUNCTIONS[place] = named_in(f"jitgrad.{module}".rstrip("."), alias, title)
    if method_too:
        _check_free(name, getattr(Tensor, name, None) if name in vars(Tensor) else None, function)
        set_method(name, function if fast else form, shared=function_too or FUNCTIONS.get(name) is form)
    return function


def set_method(name: str, function: Any, shared: bool = True) -> None:
    """Make ``function`` the method ``Tensor.NAME``, an object of its own if the function has another use or name."""
    if isinstance(function, FunctionType) and (shared or function.__name__ != name):
        function = separate(function, name)
    setattr(Tensor, name, function)


def place_in(module: str, name: str) -> str:
    """The key of FUNCTIONS for an op's function: ``linalg.inv`` for ``linalg_inv`` of ``linalg``."""
    return f"{module}.{name.removeprefix(f'{module}_')}" if module else name


def module_names(
    module: str, aliases: dict[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the module ``jitgrad.MODULE`` for the functions that are published for it.

    aliases: {name there: key of FUNCTIONS}, for functions that have another home.
    """
    package, known = f"jitgrad.{module}", aliases or {}

    def names() -> list[str]:
        own = [n.removeprefix(f"{module}.") for n in (*FUNCTIONS, *LATER) if n.startswith(f"{module}.")]
        return sorted({*known, *own})

    def getattr_(name: str) -> Any:
        if name == "__all__":
            return names()
        function = published(known.get(name, f"{module}.{name}"))
        if function is None:
            raise missing_name(package, name)
        setattr(sys.modules[package], name, function)
        return function

    def dir_() -> list[str]:
        own = vars(sys.modules[package])
        return sorted({*names(), *own.get("__all__", ()), *(n for n in own if n.endswith("__"))})

    return getattr_, dir_


def explaining_form(function: F) -> F:
    """A form of ``function`` whose errors name the argument that is wrong: itself, if it is an op's own."""
    return function if is_own(function) or explains(function) else explained(function)


def named_in(module: str, function: F, name: str) -> F:
    """Give a function the name by which users find it in ``module``: a pickle of it holds no more than that.

    A function that ``jitgrad`` has under another name keeps that one.
    """
    if FUNCTIONS.get(function.__qualname__) is not function:
        function.__module__, function.__name__, function.__qualname__ = module, name, name
    return function


def fast_method(function: F) -> F:
    """Publish ``function``; its method is called so often that it saves the time for errors that explain themselves."""
    return public(function, fast=True)


def _check_free(name: str, taken: Any, function: Any) -> None:
    """TypeError if a name is published already by another function, unless that is an op's own function.

    A function that handles more arguments and then calls the op takes over the op's name.
    """
    if taken is not None and taken is not function and not is_own(taken):
        code = function.__code__
        raise TypeError(
            f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno}): {name!r} is published already, by "
            f"{taken.__module__}.{taken.__qualname__}; give one of them another name"
        )


def method(function: F, name: str = "", *, fast: bool = False) -> F:
    """Publish ``function`` as ``Tensor.NAME`` only; calls of it can be observed. Operators are always ``fast``."""
    return public(function, name, function_too=False, fast=fast or (name or function.__name__).startswith("__"))


# Which compute in the dtype of ``out``, unless they are told another.
_IN_DTYPE_OF_OUT = {"sum", "nansum", "mean", "prod", "cumsum", "cumprod"}


def numpy_names(function: F) -> F:
    """``function`` with NumPy's keywords ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``, and with ``out``."""

    @functools.wraps(function)
    def renaming(*args: Any, **kwargs: Any) -> Any:
        out = None
        if kwargs:
            out = kwargs.pop("out", None)
            kwargs = {NUMPY_NAMES.get(k, k): v for k, v in kwargs.items()}
            if isinstance(out, Tensor) and function.__name__ in _IN_DTYPE_OF_OUT:
                kwargs.setdefault("dtype", out.dtype)
        try:
            result = function(*args, **kwargs) if kwargs else function(*args)  # without keywords 0.1 us less
        except SparseOperand as error:
            result = form_after(error, function.__name__, args)(*args, **kwargs)
        except Exception as error:
            if (named := keywords_again(error, function, args, kwargs)) is not None:
                return renaming(*args, **named) if out is None else renaming(*args, out=out, **named)
            explain(error, function, function.__name__, args, kwargs)
            raise
        return result if out is None else into_out(function.__name__, result, out)

    mark_explaining(renaming)
    vars(renaming)["also_takes"] = ("axis", "keepdims", "out")  # for stubs: its signature is that of ``function``
    return renaming  # type: ignore[return-value]
