"""What compiled text calls ``np``: NumPy, but for functions that make arrays.

Numba compiles ``np.zeros`` from Python, as a function that calls functions, for each rank and dtype that a process uses
it with: 0.25 s each time. The functions of this module emit the same instructions themselves. They take the forms that
emitted text has; for a user's text, which may pass what it likes, ``np`` is NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["empty", "numpy", "zeros", "zeros_like"]

numpy = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    return getattr(np, name)


@intrinsic
def empty(typing_context: Any, shape: Any, dtype: Any) -> Any:
    """``np.empty`` of an integer or a tuple of them; dtype as ``np.float64``."""
    return _made(shape, dtype, zero=False)


@intrinsic
def zeros(typing_context: Any, shape: Any, dtype: Any) -> Any:
    """``np.zeros`` of an integer or a tuple of them; dtype as ``np.float64``."""
    return _made(shape, dtype, zero=True)


@intrinsic
def zeros_like(typing_context: Any, array: Any) -> Any:
    """``np.zeros_like`` of an array; in C's order unless the array is laid out in Fortran's."""
    kind = array.copy(layout="C" if array.layout == "A" else array.layout, readonly=False)

    def shape_of(context: Any, builder: Any, value: Any) -> Sequence[Any]:
        return cgutils.unpack_tuple(builder, context.make_array(array)(context, builder, value).shape, array.ndim)

    return kind(array), _builder(kind, shape_of, zero=True)


def _made(shape: Any, dtype: Any, zero: bool) -> Any:
    """The signature and the emitter of a new array of a shape."""
    sizes = [shape] if isinstance(shape, types.Integer) else list(shape)
    kind = types.Array(dtype.dtype, len(sizes), "C")

    def shape_of(context: Any, builder: Any, value: Any) -> Sequence[Any]:
        values = [value] if isinstance(shape, types.Integer) else cgutils.unpack_tuple(builder, value, len(sizes))
        return [context.cast(builder, n, t, types.intp) for n, t in zip(values, sizes, strict=True)]

    return kind(shape, dtype), _builder(kind, shape_of, zero)


def _builder(kind: Any, shape_of: Callable[[Any, Any, Any], Sequence[Any]], zero: bool) -> Callable[..., Any]:
    """The emitter of a new array of a type; ``shape_of``: its sizes, from the first argument."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Here, since kernels that are on disk need this module but not Numba's, whose import takes 25 ms.
        from numba.np.arrayobj import populate_array

        element = context.get_data_type(kind.dtype)
        item = context.get_constant(types.intp, context.get_abi_sizeof(element))
        shape = shape_of(context, builder, args[0])
        strides, size = _steps(context, builder, shape, item, kind.layout)
        align = context.get_constant(types.uint32, context.get_preferred_array_alignment(kind.dtype))
        memory = context.nrt.meminfo_alloc_aligned(builder, size, align)
        data = context.nrt.meminfo_data(builder, memory)
        if zero:
            cgutils.memset(builder, data, size, 0)
        made = context.make_array(kind)(context, builder)
        populate_array(made, builder.bitcast(data, element.as_pointer()), shape, strides, item, meminfo=memory)
        return made._getvalue()

    return build


def _steps(context: Any, builder: Any, shape: Sequence[Any], item: Any, layout: str) -> tuple[list[Any], Any]:
    """The strides and the size of an array, in bytes. ValueError for negative sizes and for one beyond an integer."""
    for n in shape:
        _refuse(context, builder, builder.icmp_signed("<", n, n.type(0)), "negative dimensions not allowed")
    strides, size = [], item
    for n in shape if layout == "F" else shape[::-1]:
        strides.append(size)
        product = builder.smul_with_overflow(size, n)
        size = builder.extract_value(product, 0)
        _refuse(context, builder, builder.extract_value(product, 1), "array is too big")
    return strides if layout == "F" else strides[::-1], size


def _refuse(context: Any, builder: Any, test: Any, message: str) -> None:
    """ValueError where the test is true."""
    with builder.if_then(test, likely=False):
        context.call_conv.return_user_exc(builder, ValueError, (message,))
