"""Functions that kernels inline, compiled once for all the kernels of a process.

Every kernel's text defines the words and helpers that it calls, so that the text alone decides the machine code. Numba
types, lowers and optimises each such function by itself before it is linked into the kernel, and this was almost half
of the time of compiling: ``exp`` was compiled again for every kernel that names it. Equal definitions get one
dispatcher here, which keeps what it has compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher

__all__ = ["share_inlined"]

_compiled_once: dict[str, Any] = {}


def share_inlined(module: ModuleType, kernel: str, pipeline: type[Any]) -> None:
    """Replace the functions that ``module`` defines beside its kernel by equal ones of other kernels.

    pipeline: the Numba pipeline that compiles them.

    A module defines what a function calls before the function: names that a function looks up are shared already when
    its turn comes.
    """
    for name, function in list(vars(module).items()):
        # A user's function has the lines of the user's file: it is not shared.
        if isinstance(function, Dispatcher) and name != kernel and _is_emitted(function.py_func):
            digest = hashlib.sha256(_definition(function, vars(module)).encode()).hexdigest()[:24]
            if digest not in _compiled_once:
                _rename(function.py_func, digest)
                vars(function)["_compiler"].pipeline_class = pipeline  # Numba has no other way to set it afterwards
            setattr(module, name, _compiled_once.setdefault(digest, function))


def _is_emitted(function: FunctionType) -> bool:
    return function.__code__.co_filename.startswith("<jitgrad ")


def _rename(function: FunctionType, digest: str) -> None:
    """Give a function a name in machine code that no other definition has, in this process or another.

    A kernel's file holds the functions that it inlines too. Where two files hold one name the process may take either,
    so the name has to tell the definition; and it looks their module up, so that has to be there without the kernel
    beside which they were compiled.
    """
    function.__module__ = __name__
    function.__qualname__ = f"{function.__name__}_{digest}"


def _definition(function: Any, names: dict[str, Any]) -> str:
    """All that decides a function's machine code: bytecode, constants, options, and the values of global names."""
    code = function.py_func.__code__
    looked_up = _names(code)
    values = [(n, _identity(names[n], looked_up)) for n in looked_up if n in names]
    return repr((_instructions(code), sorted(function.targetoptions.items()), values))


def _identity(value: Any, names: Sequence[str]) -> str:
    """A text that is equal for equal values of a global; names: of all globals and attributes that the code reads."""
    if isinstance(value, ModuleType):  # ``np`` may be NumPy or words/new_arrays.py: what the code reads of it decides
        return repr([_qualified(getattr(value, n, None)) for n in names])
    return value.py_func.__qualname__ if isinstance(value, Dispatcher) else repr(value)


def _qualified(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def _names(code: CodeType) -> list[str]:
    nested = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [*code.co_names, *(n for c in nested for n in _names(c))]


def _instructions(code: CodeType) -> tuple[Any, ...]:
    """What the code does, without its lines: equal functions of two texts stand at different ones."""
    constants = [_instructions(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    counts = code.co_argcount, code.co_kwonlyargcount, code.co_flags
    return code.co_name, code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, counts
