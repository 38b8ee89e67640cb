"""a * b + c with one rounding, for remainders that have to be exact: there the product alone does not fit a float."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["fma"]


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of numbers of float64; of vectors in a loop that LLVM vectorises."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.DoubleType()
        made = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number] * 3), "llvm.fma.f64")
        return builder.call(made, args)

    return types.float64(types.float64, types.float64, types.float64), build
