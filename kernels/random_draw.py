"""Random words from machine code that all kernels share."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from jitgrad.kernels.machine_words import WORD
from jitgrad.kernels.mersenne_twister import SYMBOL, add_generator

__all__ = ["draw"]

add_generator()  # a kernel's text imports this module before the kernel is compiled


@intrinsic
def draw(typing_context: Any, state: Any, words: Any, count: Any) -> Any:
    """Put the generator's next ``count`` words into ``words``; return how many of the state are used now.

    The kernel stores that in ``state[624]`` itself.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(t)(context, builder, a).data for t, a in zip((state, words), args[:2], strict=True)
        ]
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(WORD, [WORD] * 3), SYMBOL)
        return builder.call(function, [*(builder.ptrtoint(a, WORD) for a in arrays), args[2]])

    return types.uint64(state, words, types.uint64), build
