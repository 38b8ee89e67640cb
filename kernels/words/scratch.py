"""Working memory of kernels: an array of fixed size on the thread's stack.

``np.empty`` would do, but Numba compiles it from Python for each dtype that a process uses it with: 0.15 s each time.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["scratch"]


@intrinsic
def scratch(typing_context: Any, size: Any, dtype: Any) -> Any:
    """An uninitialised array of ``size`` elements, a constant, which lives until the kernel returns.

    It may be handed to functions that the kernel calls, but not returned. Outside of loops: each call takes memory.
    """
    if not isinstance(size, types.IntegerLiteral):
        return None
    array = types.Array(dtype.dtype, 1, "C")

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Here, since kernels that are on disk need this module but not Numba's, whose import takes 25 ms.
        from numba.np.arrayobj import populate_array

        element = context.get_data_type(array.dtype)
        memory = cgutils.alloca_once(builder, element, size=context.get_constant(types.intp, size.literal_value))
        made = context.make_array(array)(context, builder)
        item = context.get_constant(types.intp, context.get_abi_sizeof(element))
        count = context.get_constant(types.intp, size.literal_value)
        populate_array(made, memory, [count], [item], item, meminfo=None)
        return made._getvalue()

    return array(size, dtype), build
