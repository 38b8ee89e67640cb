"""A small block of a product of matrices, which is kept in registers: rows of a matrix times 64 bytes of columns.

The matrix on the right is packed: blocks of so many columns, in each of which a row's numbers lie side by side. BLAS
packs it anew for each product, which takes as long as a product of 16 rows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["register_tile"]

_BYTES = 64  # of a row of a packed block


@intrinsic
def register_tile(
    typing_context: Any, rows: Any, x: Any, first: Any, packed: Any, block: Any, out: Any, column: Any, keep: Any
) -> Any:
    """out[first : first + rows, column : ...] = x[first : first + rows] @ packed block, or plus it with ``keep``.

    rows: a constant. packed: (blocks * x.shape[1], columns of a block). Rows of all matrices are contiguous.
    """
    if not isinstance(rows, types.IntegerLiteral):
        return None
    signature = types.void(rows, x, types.int64, packed, types.int64, out, types.int64, types.boolean)
    if out.dtype not in (types.float32, types.float64):
        return signature, lambda context, *_: context.get_dummy_value()
    number = ir.FloatType() if out.dtype == types.float32 else ir.DoubleType()
    size = 4 if out.dtype == types.float32 else 8
    vector = ir.VectorType(number, _BYTES // size)
    count = rows.literal_value

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, byte = ir.IntType(64), ir.IntType(8).as_pointer()
        left, right, result = (
            context.make_array(t)(context, builder, v) for t, v in ((x, args[1]), (packed, args[3]), (out, args[5]))
        )
        inner = cgutils.unpack_tuple(builder, left.shape, 2)[1]

        def place(array: Any, row: Any, column: Any) -> Any:
            step = cgutils.unpack_tuple(builder, array.strides, 2)[0]
            offset = builder.add(builder.mul(row, step), builder.mul(column, word(size)))
            return builder.gep(builder.bitcast(array.data, byte), [offset])

        starts = [place(left, builder.add(args[2], word(r)), word(0)) for r in range(count)]
        targets = [place(result, builder.add(args[2], word(r)), args[6]) for r in range(count)]
        targets = [builder.bitcast(t, vector.as_pointer()) for t in targets]
        columns = place(right, builder.mul(args[4], inner), word(0))
        name = f"llvm.fma.v{vector.count}f{8 * size}"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
        zeros = ir.Constant(vector, None)
        sums = [cgutils.alloca_once(builder, vector) for _ in range(count)]
        for total, target in zip(sums, targets, strict=True):
            builder.store(builder.select(args[7], builder.load(target, align=size), zeros), total)
        with cgutils.for_range(builder, inner) as loop:
            at = builder.mul(loop.index, word(_BYTES))
            row = builder.load(builder.bitcast(builder.gep(columns, [at]), vector.as_pointer()), align=size)
            for start, total in zip(starts, sums, strict=True):
                where = builder.gep(start, [builder.mul(loop.index, word(size))])
                factor = builder.load(builder.bitcast(where, number.as_pointer()))
                spread = builder.insert_element(ir.Constant(vector, ir.Undefined), factor, ir.IntType(32)(0))
                mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
                spread = builder.shuffle_vector(spread, spread, mask)
                builder.store(builder.call(fma, [spread, row, builder.load(total)]), total)
        for total, target in zip(sums, targets, strict=True):
            builder.store(builder.load(total), target, align=size)
        return context.get_dummy_value()

    return signature, build
