"""Structured ops on tensors of float16 and bfloat16: they compute in float32 and round their results once.

The arguments are widened, the op runs as it does on float32, and floating results are narrowed; backward does the same
with the incoming gradient and what was saved, which are of 16 bits, so a graph is as large as PyTorch's. Views move no
numbers, and ops that are copies of each element (``half = True`` in a declaration) convert where they load and store:
both are left alone. Ops that move elements move their bits.

Tensors without values (the device "meta") come this way, too: what an op has put on the CPU is put beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import overflow
from jitgrad.core.layout import Layout, as_float32, cache, intern, is_dense
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_into, copy_to_layout, copying
from jitgrad.dispatch.strides import empty_with_strides
from jitgrad.kernels.launch import unchecked

__all__ = [
    "MOVING_BACK", "among", "computed_widely", "mixed", "narrowed", "narrowed_now", "planned_widely", "shown",
    "widened", "widened_now", "widening",
]  # fmt: skip


def among(values: Iterable[Any]) -> bool:
    """Whether a tensor of float16 or bfloat16, or one of these dtypes, is among values or the items of lists."""
    for value in values:
        if isinstance(value, Tensor):
            if value._layout.special:
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
    """Whether layouts among the values are of several floating or complex dtypes."""
    layouts = [x for v in values for x in (v if isinstance(v, list) else (v,)) if isinstance(x, Layout)]
    return len({x.dtype for x in layouts if x.dtype.category >= 2}) > 1


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


_wideners: dict[Layout, Callable[[Any], Any] | None] = cache()  # what makes float32 of a layout, without gaps
_narrowers: dict[dtypes.dtype, Callable[[Any], Any]] = {}  # {dtype of 16 bits: what rounds results to it}


def _widener(layout: Layout) -> Callable[[Any], Any] | None:
    """What makes float32 of tensors of a layout; None for those that are left alone."""
    if layout not in _wideners:
        half = layout.dtype.is_half
        convert = copying(layout, as_float32(layout)) if is_dense(layout) else lambda x: _copied(x, as_float32(layout))
        _wideners[layout] = convert if half else None
    return _wideners[layout]


def _narrower(dtype: dtypes.dtype) -> Callable[[Any], Any]:
    """What rounds results to a dtype of 16 bits."""
    return _narrowers.get(dtype) or _narrowers.setdefault(dtype, _narrowing(dtype))


def widened_now(value: Any) -> Any:
    """``widened``, outside the graph; as there a tensor with gaps becomes one without."""
    if type(value) is not Tensor or not (value._layout.contiguous or is_dense(value._layout)):
        return widened(value)
    convert = _widener(value._layout)
    return value if convert is None else convert(value)


def narrowed_now(wanted: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """``narrowed``, outside the graph."""
    return tuple([g if d is None or not d.is_half else _narrower(d)(g)
                  if type(g) is Tensor and (g._layout.contiguous or is_dense(g._layout)) else _as(g, d)
                  for g, d in zip(grads, wanted, strict=True)])  # fmt: skip


def widening(op: Any, call: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """``call``, the computation of an op, for arguments of which as much is ``shown`` as of these."""
    takes_value = "value" in op.parameters
    args = _with_value(op, args)
    dtype, meta = result_dtype(args), _meta_device(args)
    half = None if dtype is None or not dtype.is_half else dtype
    finish: Callable[[Any], Any] | None
    if _moves(op, half, meta, args):
        convert, finish = [_converter(a, True) for a in args], _from_bits(half)
    else:
        convert, finish = [*map(_widens, args)], None if half is None else _narrower(half)

    def compute(*given: Any) -> Any:
        if takes_value:
            given = (*_with_value(op, given),)
        out = call(*[a if c is None else c(a) for a, c in zip(given, convert, strict=True)])
        out = out if finish is None else finish(out)
        return out if meta is None else _without_values(out, meta)

    return compute


def shown(args: Iterable[Any]) -> tuple[Any, ...]:
    """The key under which the conversions of a call's arguments are kept: layouts of tensors, types of all else.

    A key with ``list`` or ``tuple`` in it doesn't tell the layouts of the tensors inside: such calls are not kept.
    """
    return tuple([
        a._layout if a.__class__ is Tensor else a.__class__ if a.__class__ in _PLAIN else _shown(a) for a in args
    ])  # fmt: skip


_PLAIN = frozenset([int, float, bool, str, type(None)])


def _shown(value: Any) -> Any:
    kind = value.__class__
    if issubclass(kind, Tensor):
        return kind, value._layout
    return value if kind is dtypes.dtype or (kind is tuple and _is_sizes(value)) else kind


def _is_sizes(value: Any) -> bool:
    """Whether a list or tuple is of ints, of which the first stands for all."""
    return bool(value) and type(value[0]) is int


_WIDENED = Tensor, dtypes.dtype, Layout, list, tuple


def _widens(value: Any) -> Callable[[Any], Any] | None:
    """What makes float32 of an argument; None where it is left alone."""
    if isinstance(value, Tensor) and type(value._layout) is Layout and value._level is None:
        return _widener(value._layout)
    if not isinstance(value, _WIDENED) or (isinstance(value, (list, tuple)) and _is_sizes(value)):
        return None
    return partial(widened, recorded=False)


def _with_value(op: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments, with the ``value`` that an op writes to 16-bit floats as a tensor of their dtype, if it is one.

    RuntimeError for a number that they don't hold.
    """
    x = args[0] if args else None
    if "value" not in op.parameters or not isinstance(x, Tensor) or not x._layout.dtype.is_half:
        return args
    place = op.parameters.index("value")
    return *args[:place], _held(x._layout.dtype, args[place]), *args[place + 1 :]


def _held(dtype: dtypes.dtype, value: Any) -> Any:
    """``value`` as a dtype of 16 bits holds it; RuntimeError for a number that it doesn't hold."""
    if isinstance(value, Tensor) and value._layout.dtype.is_floating_point:
        return value.detach().to(dtype)
    if type(value) in (int, float) and math.isfinite(value) and abs(value) > float(dtype.limits.max):
        raise overflow(dtype)
    return value


def planned_widely(op: Any, args: Sequence[Any], places: Sequence[int], plan: Callable[..., Any]) -> Callable[..., Any]:
    """The function that computes a planned op for arguments as these, of which it gets those at ``places``.

    plan: ``plan(op, args)`` makes the function of such arguments in float32, or of their bits as integers;
    ``plan(op, args, half)`` that of an op which moves bits of the dtype ``half`` in its own launch, None if it can't.
    All that depends on layouts is worked out once.
    """
    args = _with_value(op, args)
    found = result_dtype(args)
    half = found if found is not None and found.is_half else None
    meta = _meta_device(args)
    moves = _moves(op, half, meta, args)
    stand_ins = [_stand_in(a, moves) for a in args]
    if moves and "value" not in op.values and (moved := plan(op, stand_ins, half)) is not None:
        return moved
    inner = plan(op, stand_ins)
    convert = [_converter(args[k], moves) for k in places]
    if "value" in op.values and half is not None:  # another one in each call
        convert[places.index(op.parameters.index("value"))] = partial(_held, half)
    finish = None if half is None else _from_bits(half) if moves else _narrower(half)

    def compute(*given: Any) -> Any:
        out = inner(*[g if c is None else c(g) for c, g in zip(convert, given, strict=True)])
        return out if finish is None else finish(out)

    def compute_nothing(*given: Any) -> Any:
        unchecked.append(True)
        try:
            return _without_values(compute(*given), meta)
        finally:
            unchecked.pop()

    return compute if meta is None else compute_nothing


def _moves(op: Any, half: Any, meta: Any, args: Iterable[Any]) -> bool:
    """Whether an op, which computes nothing, is given the bits of its tensors as integers.

    half: the arguments' common dtype if that is of 16 bits, else None. meta: the device if it has no values, else None.
    """
    # If the common dtype is of 16 bits, so is each floating argument: of two different ones it would be float32.
    # Integers beside them are to be converted, not moved.
    return half is not None and op.name in _MOVING and meta is None and not any(map(_joins_integers, args))


def _joins_integers(value: Any) -> bool:
    """Whether an argument is a list of tensors of which some are of integers or bools."""
    several = value if isinstance(value, (list, tuple)) else ()
    return any(isinstance(t, Tensor) and not t._layout.dtype.is_half for t in several)


def _meta_device(args: Iterable[Any]) -> Any:
    """The device of tensors without values, if one is among arguments or the items of lists."""
    for value in args:
        if isinstance(value, Tensor):
            if value._layout.device != "cpu" and value._layout.device.type == "meta":
                return value._layout.device
        elif isinstance(value, (list, tuple)) and value and type(value[0]) is not int:
            if (found := _meta_device(value)) is not None:
                return found
    return None


def _without_values(out: Any, meta: Any) -> Any:
    """Results on the device without values: an op whose kernels did nothing may have put them on the CPU."""
    if isinstance(out, Tensor):
        layout = out._layout
        if layout.device != "cpu":
            return out
        layout = intern(layout.numpy_dtype, layout.shape, layout.strides, meta)
        return wrap(empty_for(layout), layout)
    if not isinstance(out, (list, tuple)):
        return out
    parts = [_without_values(o, meta) for o in out]
    return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)


class _StandIn:
    """In the place of a tensor where only its layout is looked at."""

    def __init__(self, layout: Layout):
        self._layout = layout


def _stand_in(value: Any, bits: bool) -> Any:
    if isinstance(value, Tensor):
        layout = value._layout
        return _StandIn(_layout_as(layout, dtypes.int16) if bits and layout.dtype.is_half else as_float32(layout))
    if type(value) in (list, tuple) and among(value):
        return [_stand_in(v, bits) for v in value]
    return widened(value)


def _converter(value: Any, bits: bool) -> Callable[[Any], Any] | None:
    """What makes the argument of the inner function; None if that is the argument itself."""
    if type(value) in (list, tuple) and among(value):
        parts = [_converter(v, bits) for v in value]
        return lambda given: [g if c is None else c(g) for c, g in zip(parts, given, strict=True)]
    if not isinstance(value, Tensor) or not value._layout.dtype.is_half:
        return None
    layout = _layout_as(value._layout, dtypes.int16 if bits else dtypes.float32)
    if bits:
        return lambda x: wrap(x._data.view(_INT16), layout)
    return copying(value._layout, layout) if is_dense(layout) else lambda x: _copied(x, layout)


def _narrowing(dtype: Any) -> Callable[[Any], Any]:
    """A function that rounds results to ``dtype``."""
    plans: dict[Layout, Callable[[Any], Any]] = cache()

    def narrow(out: Any) -> Any:
        if type(out) is not Tensor:
            return _as(out, dtype, False)
        found = plans.get(out._layout)
        if found is None:
            layout = out._layout
            fits = layout.dtype.is_floating_point and layout.dtype is not dtype and is_dense(layout)
            found = copying(layout, _layout_as(layout, dtype)) if fits else lambda x: _as(x, dtype, False)
            plans[layout] = found
        return found(out)

    return narrow


def _from_bits(dtype: Any) -> Callable[[Any], Any]:
    """A function that reads int16 as ``dtype``."""
    layouts: dict[Layout, Layout] = cache()
    numpy_dtype = dtype.numpy

    def read(bits: Any) -> Any:
        layout = layouts.get(bits._layout)
        if layout is None:
            layout = layouts[bits._layout] = _layout_as(bits._layout, dtype)
        return wrap(bits._data.view(numpy_dtype), layout)

    return read


_INT16 = np.dtype("int16")
# Ops of one result that only move elements: they move the bits, as integers.
_MOVES = (
    "diag_embed diagonal_copy embedding flip_dims gather index index_copy index_select masked_select_places roll_dims "
    "rot90 strided_copy take tril triu"
)
_MOVING = frozenset(_MOVES.split())
# Those whose gradients are moves, too: nothing is added up in them.
_BACK = "cat diag_embed diagonal_copy flip_dims roll_dims rot90 stack strided_copy sum_all sum_dim tril triu"
MOVING_BACK = frozenset(_BACK.split())


def _layout_as(layout: Layout, dtype: dtypes.dtype) -> Layout:
    return intern(dtype.numpy, layout.shape, layout.strides, layout.device)


def result_dtype(args: Sequence[Any]) -> dtypes.dtype | None:
    """The dtype of an op's floating results: the one that was asked for, else the arguments' common one."""
    found: dtypes.dtype | None = None
    for arg in args:
        if isinstance(arg, dtypes.dtype):
            return arg
        for t in arg if isinstance(arg, (list, tuple)) else (arg,):
            if isinstance(t, Tensor) and t._layout.dtype.category >= 2:
                found = dtypes.promote_types(found or t._layout.dtype, t._layout.dtype)
    return found
