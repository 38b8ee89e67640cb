"""Copies, casts and fills as launches, which ops and inplace writes are built from. Nothing here is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, cache, collapse, intern, layout_of
from jitgrad.core.node import edge_of
from jitgrad.core.storage import empty_for, transfer
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.launch_plan import LaunchPlan, plan_elementwise
from jitgrad.dispatch.strides import copied_strides, empty_with_strides, extent, restrided
from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.launch import SPLIT_SIZE, launch, observers, prepared
from jitgrad.kernels.lazy_array import LazyArray
from jitgrad.kernels.loops import fill as kernels

__all__ = [
    "copy_before_write", "copy_into", "copy_to_layout", "copying", "fill_array", "filled",
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
    plan = _plans.get((source._layout, layout))
    if plan is None:
        if source._layout.dtype.is_complex and layout.dtype.category in (1, 2):
            real = source._data.real  # by which a complex number becomes an integer or real one
            return copy_into(target, layout, wrap(real, layout_of(real, source._layout.device)))
        plan = _plan(source._layout, layout)
    plan.write(source, target)


def _plan(source: Layout, target: Layout) -> Any:
    """The plan, of which ``write(tensor, array)`` copies from one layout to the other."""
    if source.device != target.device:
        found = transfer(source, target)
    else:
        nonzero = source.dtype.is_complex and target.dtype.category == 0
        rule, dtype = (_NONZERO, source.numpy_dtype) if nonzero else (_SAME, target.numpy_dtype)
        found = plan_elementwise(
            "copy", [(rule, "out")], [Argument("x", "array")], [source], dtype, target.shape, [target.numpy_dtype],
            target=target,
        )  # fmt: skip
    _plans[source, target] = found
    return found


def copying(source: Layout, target: Layout) -> Callable[[Tensor], Tensor]:
    """The plan of ``copy_to_layout(x, target)`` for tensors of layout ``source``."""
    takes_real_part = source.dtype.is_complex and target.dtype.category in (1, 2)
    if takes_real_part or source.device != target.device:
        return lambda x: copy_to_layout(x, target)
    return _plan(source, target).compute


def copy_to_layout(source: Tensor, layout: Layout) -> Tensor:
    """A new unrecorded tensor of ``layout`` with the values of ``source``, cast and broadcast."""
    plan = _plans.get((source._layout, layout))
    if type(plan) is LaunchPlan:
        return plan.compute(source)
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
    if dtype is None:
        return _preserved.get(layout) or _preserve(layout, layout.numpy_dtype)
    return _preserve(layout, dtype.numpy)


_preserved: dict[Layout, Layout] = cache()


def _preserve(layout: Layout, numpy_dtype: np.dtype[Any]) -> Layout:
    found = intern(numpy_dtype, layout.shape, copied_strides(layout), layout.device)
    if numpy_dtype is layout.numpy_dtype:
        _preserved[layout] = found
    return found


def fill_array(array: Any, layout: Layout, value: Any) -> None:
    """Launch the fill of an array of any layout with a Python number that its dtype holds."""
    (_fillers.get(layout) or _plan_filler(layout))(array, value)


_fillers: dict[Layout, Callable[[Any, Any], None]] = cache()


def _plan_filler(layout: Layout) -> Callable[[Any, Any], None]:
    """The function of an array of ``layout`` and a number that ``fill_array`` calls."""
    number = _TYPES[layout.numpy_dtype.kind]  # one Python type for each dtype: one overload

    def fill_any(array: Any, value: Any) -> None:
        _fill_any(array, layout, number(value))

    fill = fill_any
    if layout.contiguous and layout.device == "cpu" and not layout.dtype.is_half:
        run = prepared(kernels.fill, layout.numpy_dtype, (layout.numel,), None, flat=1)

        def fill(array: Any, value: Any) -> None:
            if type(array) is np.ndarray:
                run(array, number(value))
            else:
                fill_any(array, value)

    _fillers[layout] = fill
    return fill


def _fill_any(array: Any, layout: Layout, value: Any) -> None:
    if layout.dtype.is_half and layout.device == "cpu":
        array, value = array.view(np.uint16), _bits(layout.numpy_dtype, value)
    if layout.contiguous:
        launch(kernels.fill, array.reshape(-1), value)
    elif array.T.flags.c_contiguous:
        launch(kernels.fill, array.T.reshape(-1), value)
    elif type(array) is LazyArray:  # its memory gets the number that reads as ``value``
        value = value.conjugate() if array.conjugate else value
        fill_array(array.memory, layout, -value if array.negative else value)
    else:
        sizes, (steps,) = collapse(layout.shape, [layout.strides])
        # A vector of all memory that the strides reach, from which the kernel indexes: one overload for every rank.
        memory = restrided(array, (extent(layout.shape, layout.strides),), (1,))
        launch(kernels.fill_strided, memory, value, np.array(sizes, np.uint64), np.array(steps, np.uint64))


def filled(layout: Layout, value: float) -> Tensor:
    """A new unrecorded tensor of ``layout``, every element ``value``, a number that its dtype holds."""
    return (_fills.get(layout) or _plan_fill(layout))(value)


_fills: dict[Layout, Callable[[Any], Tensor]] = cache()
_TYPES: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float, "c": complex, "V": float}  # by kind; V: bfloat16


def _bits(dtype: np.dtype[Any], value: Any) -> int:
    """The bits of a number in a dtype of 16 bits."""
    with np.errstate(over="ignore"):
        return int(np.array(float(value), dtype).view(np.uint16))


def _plan_fill(layout: Layout) -> Callable[[Any], Tensor]:
    """The function of a number that makes tensors of ``layout``."""
    shape, dtype = layout.shape, layout.numpy_dtype
    run = _fillers.get(layout) or _plan_filler(layout)

    def fill_any(value: Any) -> Tensor:
        data = empty_for(layout)
        run(data, value)
        return wrap(data, layout)

    fill = fill_any
    if layout.plain and layout.numel < SPLIT_SIZE:

        def fill(value: Any) -> Tensor:
            if value.__class__ is int and not observers:  # a float may be -0.0
                if not shape:
                    return wrap(np.array(value, dtype), layout)
                if not value:
                    return wrap(np.zeros(shape, dtype), layout)
            data = np.empty(shape, dtype)
            run(data, value)
            return wrap(data, layout)

    _fills[layout] = fill
    return fill
