"""Source text to functions, which compile when they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.kernels.codegen.source import Definition
from jitgrad.kernels.compiled_function import CompiledFunction
from jitgrad.kernels.kernel_text import CONTRACT, KernelText, kernel_text
from jitgrad.kernels.numba_flags import numba_flag

__all__ = ["compile_kernel", "compile_text"]


def compile_text(
    name: str, text: str, fastmath: frozenset[str] = CONTRACT, definitions: Sequence[Definition] = (),
    checked: bool = False, allocates: bool = True,
) -> Callable[..., Any]:  # fmt: skip
    """Return the function ``name`` that ``text`` defines, to be compiled for the arguments that it is called with.

    ``text`` may use ``np``, ``math`` and ``njit`` and must define everything else that it names. ``checked``: indices
    are compared with the arrays' sizes. ``allocates``: False for a text that makes no arrays; without the counting of
    references to arrays it is compiled in less time. ``definitions``: a user's functions among those of the text, with
    the same statements at the lines of the user's file, which errors and debuggers then show.
    """
    return compile_kernel(kernel_text(name, text, fastmath, definitions, checked, allocates), definitions)


def compile_kernel(made: KernelText, definitions: Sequence[Definition] = ()) -> Callable[..., Any]:
    """The function of a text, see `compile_text`."""
    if definitions and numba_flag("DISABLE_JIT"):
        # A user's loop is a plain function, for a debugger to step through.
        from jitgrad.kernels.numba_dispatcher import numba_dispatcher  # which imports Numba

        return numba_dispatcher(made, definitions)
    return CompiledFunction(made, definitions)
