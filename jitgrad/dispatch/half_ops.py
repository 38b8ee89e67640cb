"""Structured ops on tensors of float16 and bfloat16: they compute in float32 and round their results once.

The arguments are widened, the op runs as it does on float32, and floating results are narrowed; backward does the same
with the incoming gradient and what was saved, which are of 16 bits, so a graph is as large as PyTorch's. Views move no
numbers, and ops that are copies of each element (``half = True`` in a declaration) convert where they load and store:
both are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, as_float32
from jitgrad.core.tensor import Tensor

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


def widened(value: Any) -> Any:
    """A tensor, dtype or layout of 16-bit floats, or a list with such, as float32; recorded if it requires grad."""
    if isinstance(value, Tensor):
        return value.to(dtypes.float32) if value._layout.dtype.is_half else value
    if isinstance(value, dtypes.dtype):
        return value.compute
    if isinstance(value, Layout):
        return as_float32(value)
    if isinstance(value, (list, tuple)) and value and type(value) in (list, tuple) and type(value[0]) is not int:
        return type(value)(map(widened, value))
    return value


def narrowed(wanted: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients as the dtypes of their inputs, where those are of 16 bits."""
    return tuple([_as(g, d) if d is not None and d.is_half else g for g, d in zip(grads, wanted, strict=True)])


def _as(value: Any, dtype: dtypes.dtype) -> Any:
    """A floating tensor as ``dtype``, a complex one as it is: no complex dtype is of 16 bits."""
    if isinstance(value, Tensor) and value._layout.dtype.is_floating_point:
        return value.to(dtype)
    return type(value)([_as(v, dtype) for v in value]) if isinstance(value, (list, tuple)) else value


def widening(op: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, the computation of an op, as a function of arguments of which some are of 16 bits."""

    def compute(*args: Any) -> Any:
        found = _result_dtype(args)
        out = call(*map(widened, args))
        if found is None or not found.is_half:
            return out
        if not isinstance(out, tuple) or not hasattr(out, "_fields"):
            return _as(out, found)
        return type(out)(*[_as(o, found) for o in out])

    return compute


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
