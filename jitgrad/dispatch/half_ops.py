"""Structured ops on tensors of float16 and bfloat16: they compute in float32 and round their results once.

The arguments are widened, the op runs as it does on float32, and floating results are narrowed; backward does the same
with the incoming gradient and what was saved, which are of 16 bits, so a graph is as large as PyTorch's. Views move no
numbers, and ops that are copies of each element (``half = True`` in a declaration) convert where they load and store:
both are left alone. Ops that move elements move their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, as_float32, intern, is_dense
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_into, copy_to_layout
from jitgrad.dispatch.strides import empty_with_strides

__all__ = ["among", "computed_widely", "narrowed", "widened", "widening"]


def among(values: Iterable[Any]) -> bool:
    """Whether a tensor of float16 or bfloat16, or one of these dtypes, is among values or the items of lists."""
    for value in values:
        if isinstance(value, Tensor):
            if value._layout.dtype.is_half:
                return True
        elif isinstance(value, dtypes.dtype):
            if value.is_half:
                return True
        elif isinstance(value, Layout):
            if value.dtype.is_half:
                return True
        elif isinstance(value, (list, tuple)) and value and type(value[0]) is not int and among(value):
            return True
    return False


def mixed(values: Iterable[Any]) -> bool:
    """Whether layouts among the values are of several floating dtypes."""
    layouts = [x for v in values for x in (v if isinstance(v, list) else (v,)) if isinstance(x, Layout)]
    return len({x.dtype for x in layouts if x.dtype.is_floating_point}) > 1


def computed_widely(op: Any) -> bool:
    """Whether an op needs its arguments in float32."""
    return not (op.is_view or op.half)


def widened(value: Any, recorded: bool = True) -> Any:
    """A tensor, dtype or layout of 16-bit floats, or a list with such, as float32.

    recorded: whether that is an op that gradients flow through; else strides are kept, with their gaps.
    """
    if isinstance(value, Tensor):
        if not value._layout.dtype.is_half:
            return value
        return value.to(dtypes.float32) if recorded else _copied(value, as_float32(value._layout))
    if isinstance(value, dtypes.dtype):
        return value.compute
    if isinstance(value, Layout):
        return as_float32(value)
    if isinstance(value, (list, tuple)) and value and type(value) in (list, tuple) and type(value[0]) is not int:
        return type(value)([widened(v, recorded) for v in value])
    return value


def _copied(x: Tensor, layout: Layout) -> Tensor:
    """The numbers of a tensor in memory of a layout of the same strides."""
    if layout.contiguous or is_dense(layout):
        return copy_to_layout(x, layout)
    data = empty_with_strides(layout)
    copy_into(data, layout, x)
    return wrap(data, layout)


def narrowed(wanted: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients as the dtypes of their inputs, where those are of 16 bits."""
    return tuple([_as(g, d) if d is not None and d.is_half else g for g, d in zip(grads, wanted, strict=True)])


def _as(value: Any, dtype: dtypes.dtype, recorded: bool = True) -> Any:
    """A floating tensor as ``dtype``, a complex one as it is: no complex dtype is of 16 bits."""
    if isinstance(value, Tensor) and value._layout.dtype.is_floating_point:
        layout = value._layout
        if recorded or layout.dtype is dtype:
            return value.to(dtype)
        return _copied(value, _layout_as(layout, dtype))
    if not isinstance(value, (list, tuple)):
        return value
    parts = [_as(v, dtype, recorded) for v in value]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def widening(op: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, the computation of an op, as a function of arguments of which some are of 16 bits."""

    moves = op.name in _MOVING

    def compute(*args: Any) -> Any:
        found = _result_dtype(args)
        if moves and found is not None and found.is_half:  # all are of this dtype: a common one would be float32
            bits = call(*[_as_bits(a) for a in args])
            return wrap(bits._data.view(found.numpy), _layout_as(bits._layout, found))
        out = call(*[widened(a, False) for a in args])
        return out if found is None or not found.is_half else _as(out, found, False)

    return compute


# Ops of one result that only move elements: they move the bits, as integers.
_MOVING = frozenset(
    "cat diag_embed diagonal_copy diagonal_scatter flip_dims gather index index_copy index_select masked_select_places "
    "repeat_dims roll_dims rot90 select_scatter slice_scatter stack strided_copy take tril triu".split()
)


def _layout_as(layout: Layout, dtype: dtypes.dtype) -> Layout:
    return intern(dtype.numpy, layout.shape, layout.strides, layout.device)


def _as_bits(value: Any) -> Any:
    """A tensor of 16-bit floats, or a list with such, as the int16 of the same memory."""
    if isinstance(value, Tensor):
        half = value._layout.dtype.is_half
        return wrap(value._data.view(np.int16), _layout_as(value._layout, dtypes.int16)) if half else value
    return [_as_bits(v) for v in value] if type(value) in (list, tuple) and among(value) else value


def _result_dtype(args: Sequence[Any]) -> dtypes.dtype | None:
    """The dtype of an op's floating results: the one that was asked for, else the arguments' common one."""
    found: dtypes.dtype | None = None
    for arg in args:
        if isinstance(arg, dtypes.dtype):
            return arg
        for t in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(t, Tensor) and t._layout.dtype.category >= 2:
                found = dtypes.promote_types(found or t._layout.dtype, t._layout.dtype)
    return found
