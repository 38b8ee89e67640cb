"""Writing to memory past the caches, for loops over arrays that no cache holds.

Before a core writes to a line of a cache it reads the line from memory (read for ownership), which is a third of what a
loop of one input and one output moves. Non-temporal stores write whole lines past the caches, without that. What is
written so is not in a cache when the next loop reads it: of arrays that fit in one, the next loop takes longer than
this one has gained.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["drain", "stream"]

_WORD, _BYTE, _SIZE = ir.IntType(64), ir.IntType(8), 32  # bytes of a vector


@intrinsic
def stream(typing_context: Any, target: Any, source: Any) -> Any:
    """Copy to a vector as many elements of another as it has, past the caches where it begins at a whole vector."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, given = (context.make_array(t)(context, builder, a) for t, a in zip(signature.args, args, strict=True))
        out, data = (builder.bitcast(a.data, _BYTE.as_pointer()) for a in (to, given))
        size = builder.mul(to.nitems, to.itemsize)
        apart = builder.and_(builder.ptrtoint(out, _WORD), _WORD(_SIZE - 1))
        whole = builder.select(builder.icmp_unsigned("==", apart, _WORD(0)), size, _WORD(0))
        whole = builder.and_(whole, _WORD(-_SIZE))
        vector = ir.VectorType(_BYTE, _SIZE).as_pointer()
        past = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        with cgutils.for_range_slice(builder, _WORD(0), whole, _WORD(_SIZE), inc=True) as (at, _):
            value = builder.load(builder.bitcast(builder.gep(data, [at]), vector), align=1)
            builder.store(value, builder.bitcast(builder.gep(out, [at]), vector), align=_SIZE).set_metadata(
                "nontemporal", past
            )
        rest = builder.sub(size, whole)
        cgutils.raw_memcpy(builder, builder.gep(out, [whole]), builder.gep(data, [whole]), rest, _WORD(1))
        return context.get_dummy_value()

    return types.void(target, source), build


@intrinsic
def drain(typing_context: Any) -> Any:
    """A fence: other threads see what was written past the caches before anything that is written later."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), build
