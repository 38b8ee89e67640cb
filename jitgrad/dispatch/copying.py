"""Copies, casts and fills as launches, which ops and inplace writes are built from. Nothing here is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, cache, collapse, intern, is_dense, layout_of
from jitgrad.core.node import edge_of
from jitgrad.core.storage import empty_for, transfer
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.launch_plan import LaunchPlan, plan_elementwise
from jitgrad.dispatch.strides import dense_strides, empty_with_strides
from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.launch import launch
from jitgrad.kernels.lazy_array import LazyArray
from jitgrad.kernels.loops import fill as kernels

__all__ = [
    "copy_before_write", "copy_into", "copy_to_layout", "fill_array", "filled",
    "preserved_layout", "strided_copy",
]  # fmt: skip

_plans: dict[tuple[Layout, Layout], LaunchPlan] = cache()


def _same(x: Any) -> Any:
    return x


def _nonzero(x: Any) -> Any:
    return x != 0


# A copy is an elementwise op whose rule is x; the kernel casts to the dtype of its result. Only complex to bool needs a
# comparison: C casts a complex number by its real part, and PyTorch calls 1j true.
_SAME, _NONZERO = Rule("copy", _same), Rule("copy", _nonzero)


def copy_into(target: Any, layout: Layout, source: Tensor) -> None:
    """Launch the copy of ``source``, cast and broadcast, into ``target``, an array of ``layout``."""
    # A complex number becomes an integer or real one by its real part.
    if source._layout.dtype.is_complex and layout.dtype.category in (1, 2):
        real = source._data.real
        source = wrap(real, layout_of(real, source._layout.device))
    key = (source._layout, layout)
    plan = _plans.get(key)
    if plan is None and source._layout.device != layout.device:
        plan = _plans[key] = transfer(source._layout, layout)
    if plan is None:
        nonzero = source._layout.dtype.is_complex and layout.dtype.category == 0
        rule, dtype = (_NONZERO, source._layout.numpy_dtype) if nonzero else (_SAME, layout.numpy_dtype)
        plan = _plans[key] = plan_elementwise(
            "copy", [(rule, "out")], [Argument("x", "array")], [source._layout], dtype, layout.shape,
            [layout.numpy_dtype], target=layout,
        )  # fmt: skip
    plan.write(source, target)


def copy_to_layout(source: Tensor, layout: Layout) -> Tensor:
    """A new unrecorded tensor of ``layout`` with the values of ``source``, cast and broadcast."""
    data = empty_for(layout)
    copy_into(data, layout, source)
    return wrap(data, layout)


def strided_copy(x: Tensor) -> Tensor:
    """A copy of ``x`` outside the graph in memory of its own, with the same strides, gaps included.

    So it has the layout of ``x``, and a plan made for ``x`` is one for the copy.
    """
    data = empty_with_strides(x._layout)
    copy_into(data, x._layout, x)
    return wrap(data, x._layout)


def copy_before_write(target: Tensor) -> Tensor:
    """A copy of the values that an inplace op is about to replace, with their history, for the op's node to save."""
    copy = strided_copy(target)
    copy._edge, copy._requires_grad = edge_of(target), target._requires_grad
    return copy


def preserved_layout(layout: Layout, dtype: dtypes.dtype | None = None) -> Layout:
    """The layout of a copy (``torch.preserve_format``): without gaps, the dims in the order of their strides."""
    numpy_dtype = (dtype or layout.dtype).numpy
    if layout.contiguous:
        return intern(numpy_dtype, layout.shape, None, layout.device)
    strides = layout.strides if is_dense(layout) else dense_strides([layout], layout.shape)
    return intern(numpy_dtype, layout.shape, strides, layout.device)


def fill_array(array: Any, layout: Layout, value: Any) -> None:
    """Launch the fill of an array of any layout with a Python number of its dtype's category."""
    if layout.contiguous:
        launch(kernels.fill, array.reshape(-1), value)
    elif array.T.flags.c_contiguous:
        launch(kernels.fill, array.T.reshape(-1), value)
    elif type(array) is LazyArray:  # its memory gets the number that reads as ``value``
        value = value.conjugate() if array.conjugate else value
        fill_array(array.memory, layout, -value if array.negative else value)
    else:
        sizes, (steps,) = collapse(layout.shape, [layout.strides])
        # Strided kernels get a one-element array at the start, and index from it: one overload for every rank.
        first = array[(slice(0, 1),) * array.ndim].ravel()
        launch(kernels.fill_strided, first, value, np.array(sizes, np.uint64), np.array(steps, np.uint64))


def filled(layout: Layout, value: float) -> Tensor:
    """A new unrecorded tensor of ``layout``, every element ``value``."""
    data = empty_for(layout)
    fill_array(data, layout, layout.numpy_dtype.type(value).item())  # one Python type for each dtype: one overload
    return wrap(data, layout)
