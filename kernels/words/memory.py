"""Numbers and arrays at addresses, for kernels that are handed addresses in place of arrays, and parts of vectors.

``numba.carray`` would do, but Numba compiles it from Python for each dtype that a process uses it with: 40 ms each.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["array_at", "matrix_in", "number_at"]


@intrinsic
def number_at(typing_context: Any, address: Any, dtype: Any) -> Any:
    """The number of a dtype, as ``np.int32``, at an address, an integer."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.unpack_value(builder, dtype.dtype, _pointer(context, builder, dtype, args[0]))

    return dtype.dtype(types.uintp, dtype), build


@intrinsic
def array_at(typing_context: Any, address: Any, size: Any, dtype: Any) -> Any:
    """The array of ``size`` numbers side by side at an address, whose memory it does not own."""
    array = types.Array(dtype.dtype, 1, "C")

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Here, since kernels that are on disk need this module but not Numba's, whose import takes 25 ms.
        from numba.np.arrayobj import populate_array

        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(dtype.dtype)))
        data = _pointer(context, builder, dtype, args[0])
        made = context.make_array(array)(context, builder)
        populate_array(made, data, [args[1]], [item], item, meminfo=None)
        return made._getvalue()

    return array(types.uintp, types.intp, dtype), build


@intrinsic
def matrix_in(typing_context: Any, vector: Any, first: Any, rows: Any, columns: Any, step: Any) -> Any:
    """A view of a contiguous vector from element ``first`` on: rows of adjacent elements, ``step`` elements apart."""
    matrix = types.Array(vector.dtype, 2, "A")

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np.arrayobj import populate_array  # here, as in ``array_at``

        start, first, rows, columns, step = args
        given = context.make_array(vector)(context, builder, start)
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(vector.dtype)))
        made = context.make_array(matrix)(context, builder)
        data = builder.gep(given.data, [first])
        populate_array(made, data, [rows, columns], [builder.mul(step, item), item], item, meminfo=None)
        return made._getvalue()

    number = types.intp
    return matrix(vector, number, number, number, number), build


def _pointer(context: Any, builder: Any, dtype: Any, address: Any) -> Any:
    return builder.inttoptr(address, context.get_data_type(dtype.dtype).as_pointer())
