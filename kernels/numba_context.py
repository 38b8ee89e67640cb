"""Numba's contexts for kernels: those that need no wrapper have none, and libraries are read as `stored_library` wrote
them."""
# mypy: ignore-errors

from __future__ import annotations

import copy
import functools
from typing import Any

from numba.core import types
from numba.core.registry import cpu_target

from jitgrad.kernels.argument_kinds import kinds_of_types
from jitgrad.kernels.builtin_function import METH_VARARGS_KEYWORDS
from jitgrad.kernels.numba_library import numba_library
from jitgrad.kernels.python_call import CallTable, is_callable

__all__ = ["loading_context", "needs_no_wrapper", "python_function"]

_kept: list[CallTable] = []  # of functions that Numba has, which don't keep them


def needs_no_wrapper(arguments: Any, result: Any) -> bool:
    """Whether kernels of these Numba types are called without one."""
    try:
        return result == types.none and is_callable(kinds_of_types(arguments))
    except NotImplementedError:
        return False


def python_function(library: Any, description: Any, environment: Any) -> Any:
    """The built-in function that calls a kernel; in place of ``get_executable`` of Numba's contexts."""
    context = cpu_target.target_context
    if library.get_pointer_to_function(description.llvm_cpython_wrapper_name):
        return context.get_executable(library, description, environment)
    if not is_callable(kinds := kinds_of_types(description.argtypes)):
        raise NotImplementedError(description)  # so that it is compiled again, with a wrapper
    library.codegen.set_env(context.get_env_name(description), environment)  # a global variable of the kernel's code
    table = CallTable(description.qualname.rpartition(".")[2], _misfit, METH_VARARGS_KEYWORDS)
    table.add(library.get_pointer_to_function(description.llvm_func_name), kinds)
    _kept.append(table)
    return table.function


def _misfit(*args: Any) -> None:
    if any(isinstance(a, int) and not -(1 << 63) <= a < 1 << 63 for a in args):
        raise OverflowError("int too big to convert")
    raise TypeError(f"arguments of other types than the kernel's: {[type(a).__name__ for a in args]}")


@functools.cache
def loading_context() -> Any:
    """Numba's context for loading kernels: libraries are read by `numba_library`, not as Numba stores them, and kernels
    without a wrapper get a `python_function`.
    """
    made = copy.copy(cpu_target.target_context)
    made.get_executable = python_function
    codegen = made.codegen()
    loading = copy.copy(codegen)
    loading.unserialize_library = functools.partial(numba_library, codegen)
    made.codegen = lambda: loading
    return made
