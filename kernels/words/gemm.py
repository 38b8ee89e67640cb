"""A product of matrices, called by the address of its machine code from compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["gemm", "gemm_part"]

_AS_IT_IS, _TURNED = 111, 112  # of the interface of C to BLAS
_WORD = ir.IntType(64)
_FLOATS = types.float32, types.float64


@intrinsic
def gemm(
    typing_context: Any, function: Any, x: Any, x_turned: Any, y: Any, y_turned: Any, out: Any, keep: Any
) -> Any:
    """out = x @ y, or out + x @ y with ``keep``; each side may be given transposed. Rows are contiguous.

    function: the address of an entry of ``product_parts.py``, which has its words. Matrices of other dtypes than
    float32 and float64 are left as they are.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if out.dtype in _FLOATS:
            _call(context, builder, (x, y, out), args[:6], args[6])
        return context.get_dummy_value()

    return types.void(types.int64, x, types.boolean, y, types.boolean, out, types.boolean), build


@intrinsic
def gemm_part(
    typing_context: Any, function: Any, x: Any, x_turned: Any, y: Any, y_turned: Any, out: Any, row: Any, rows: Any,
    column: Any, columns: Any,
) -> Any:  # fmt: skip
    """Of out = x @ y, see ``gemm``, ``rows`` rows from ``row`` on and ``columns`` columns from ``column`` on."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if out.dtype in _FLOATS:
            _call(context, builder, (x, y, out), args[:6], ir.IntType(1)(0), args[6:])
        return context.get_dummy_value()

    number = types.int64
    return types.void(number, x, types.boolean, y, types.boolean, out, number, number, number, number), build


def _call(context: Any, builder: Any, arrays: Sequence[Any], args: Sequence[Any], keep: Any, part: Any = None) -> None:
    """Call the entry that is the first of ``args``, for a ``part`` (first row, rows, first column, columns) or all."""
    size = 4 if arrays[2].dtype == types.float32 else 8
    address, x, x_turned, y, y_turned, out = args
    matrices = [context.make_array(t)(context, builder, v) for t, v in zip(arrays, (x, y, out), strict=True)]
    shapes = [cgutils.unpack_tuple(builder, m.shape, 2) for m in matrices]
    steps = [cgutils.unpack_tuple(builder, m.strides, 2)[0] for m in matrices]
    places = [builder.ptrtoint(m.data, _WORD) for m in matrices]
    row, rows, column, columns = part or (_WORD(0), shapes[2][0], _WORD(0), shapes[2][1])
    across, item = builder.mul(column, _WORD(size)), _WORD(size)
    # By how many bytes rows of the left matrix are apart, columns of the right one, and rows of the result.
    left = builder.mul(row, builder.select(x_turned, item, steps[0]))
    right = builder.mul(column, builder.select(y_turned, steps[1], item))
    starts = [left, right, builder.add(builder.mul(row, steps[2]), across)]
    flags = [builder.select(f, _WORD(_TURNED), _WORD(_AS_IT_IS)) for f in (x_turned, y_turned)]
    inner = builder.select(x_turned, shapes[0][0], shapes[0][1])
    given = [_WORD(0), _WORD(0), *flags, rows, columns, inner, builder.zext(keep, _WORD)]
    for place, start, step in zip(places, starts, steps, strict=True):
        given += [builder.add(place, start), builder.sdiv(step, item)]
    words = cgutils.alloca_once(builder, _WORD, _WORD(len(given)))
    for k, value in enumerate(given):
        builder.store(value, builder.gep(words, [_WORD(k)]))
    entry = builder.inttoptr(address, ir.FunctionType(ir.VoidType(), [_WORD]).as_pointer())
    builder.call(entry, [builder.ptrtoint(words, _WORD)])
