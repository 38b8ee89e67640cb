"""Prefetching, for loops that read rows named by an index: processors predict loads at regular distances only."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch"]

_READ, _ALL_CACHES, _DATA = 0, 3, 1  # of llvm.prefetch: read or write, locality, which cache


@intrinsic
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Load the cache line of the element ``place`` elements behind the array's first one into all caches.

    A hint, which never faults: the place may lie outside of the array.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, address = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        target = builder.bitcast(builder.gep(data, [args[1]]), address)
        builder.call(fetch, [target, number(_READ), number(_ALL_CACHES), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), build
