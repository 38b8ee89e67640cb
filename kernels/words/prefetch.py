"""What a loop will read soon, said to the processor: rows at places that an index names, which no stream foretells."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch"]

_READ, _ALL_CACHES, _DATA = 0, 3, 1  # LLVM's arguments


@intrinsic
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Bring the line of element ``place``, as the array lies in memory, to the caches; any number is harmless."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, address = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        target = builder.bitcast(builder.gep(data, [args[1]]), address)
        builder.call(fetch, [target, number(_READ), number(_ALL_CACHES), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build
