"""float16 and bfloat16 in kernels: arrays of them come as uint16, loads widen to float32, stores round to even.

Numba has no arrays of these dtypes on the CPU. What is below is LLVM's, which makes vector instructions of it: of
float16 the processor's own conversions, of bfloat16, the upper half of a float32, shifts.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["HALVES", "from_bfloat16", "from_float16", "to_bfloat16", "to_float16"]

HALVES = ("float16", "bfloat16")
_BITS, _WORD, _HALF, _FLOAT = ir.IntType(16), ir.IntType(32), ir.HalfType(), ir.FloatType()


def _single(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The float32 of a number.

    LLVM would make one rounding of the two from float64 to float16, and has no instruction for it: it calls a function
    that is in no library here. A fence between the two keeps them apart.
    """
    single = context.cast(builder, value, kind, types.float32)
    if kind != types.float64:
        return single
    fence = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_FLOAT, [_FLOAT]), "llvm.arithmetic.fence.f32"
    )
    return builder.call(fence, [single])


@intrinsic
def from_float16(typing_context: Any, bits: Any) -> Any:
    """The float32 of a float16's bits."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], _HALF), _FLOAT)

    return types.float32(types.uint16), build


@intrinsic
def to_float16(typing_context: Any, value: Any) -> Any:
    """The bits of the float16 that is nearest to a number's float32, of two equally near the even one."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(_single(context, builder, value, args[0]), _HALF), _BITS)

    return types.uint16(value), build


@intrinsic
def from_bfloat16(typing_context: Any, bits: Any) -> Any:
    """The float32 of a bfloat16's bits, which are its upper half."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.shl(builder.zext(args[0], _WORD), _WORD(16)), _FLOAT)

    return types.float32(types.uint16), build


@intrinsic
def to_bfloat16(typing_context: Any, value: Any) -> Any:
    """The bits of the bfloat16 nearest to a number's float32, of two as near the even one; of NaN always 0x7fc0."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        single = _single(context, builder, value, args[0])
        word = builder.bitcast(single, _WORD)
        even = builder.and_(builder.lshr(word, _WORD(16)), _WORD(1))
        rounded = builder.lshr(builder.add(word, builder.add(even, _WORD(0x7FFF))), _WORD(16))
        nan = builder.fcmp_unordered("uno", single, single)
        return builder.trunc(builder.select(nan, _WORD(0x7FC0), rounded), _BITS)

    return types.uint16(value), build
