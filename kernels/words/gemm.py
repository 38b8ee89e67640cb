"""A product of matrices by BLAS, called by its address from compiled loops."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["gemm"]

_ROW_MAJOR, _AS_IT_IS, _TURNED = 101, 111, 112  # of the interface of C to BLAS


@intrinsic
def gemm(
    typing_context: Any, function: Any, x: Any, x_turned: Any, y: Any, y_turned: Any, out: Any, keep: Any
) -> Any:
    """out = x @ y, or out + x @ y with ``keep``; each side may be given transposed. Rows are contiguous.

    function: the address of ``cblas_sgemm`` or ``cblas_dgemm`` with sizes of 64 bits. Matrices of other dtypes are left
    as they are.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if out.dtype not in (types.float32, types.float64):
            return context.get_dummy_value()
        number = ir.FloatType() if out.dtype == types.float32 else ir.DoubleType()
        word, small = ir.IntType(64), ir.IntType(32)
        pointer, size = ir.IntType(8).as_pointer(), ir.Constant(word, 4 if out.dtype == types.float32 else 8)
        address, x_flag, y_flag, kept = args[0], args[2], args[4], args[6]
        matrices = [context.make_array(t)(context, builder, v) for t, v in ((x, args[1]), (y, args[3]), (out, args[5]))]
        shapes = [cgutils.unpack_tuple(builder, m.shape, 2) for m in matrices]
        steps = [builder.sdiv(cgutils.unpack_tuple(builder, m.strides, 2)[0], size) for m in matrices]
        data = [builder.bitcast(m.data, pointer) for m in matrices]
        turned, plain = ir.Constant(small, _TURNED), ir.Constant(small, _AS_IT_IS)
        flags = [builder.select(f, turned, plain) for f in (x_flag, y_flag)]
        inner = builder.select(x_flag, shapes[0][0], shapes[0][1])
        one, zero = ir.Constant(number, 1.0), ir.Constant(number, 0.0)
        given = [
            ir.Constant(small, _ROW_MAJOR), *flags, *shapes[2], inner, one, data[0], steps[0], data[1], steps[1],
            builder.select(kept, one, zero), data[2], steps[2],
        ]  # fmt: skip
        kind = ir.FunctionType(ir.VoidType(), [g.type for g in given]).as_pointer()
        builder.call(builder.inttoptr(address, kind), given)
        return context.get_dummy_value()

    return types.void(types.int64, x, types.boolean, y, types.boolean, out, types.boolean), build
