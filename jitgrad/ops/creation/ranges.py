"""Tensors of numbers in a pattern: arange, linspace, logspace, eye."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device as Device
from jitgrad.core.device import resolve
from jitgrad.core.errors import (
    cpp_type,
    invalid_combination,
    not_implemented_for,
    overflow,
    scalar_type,
)
from jitgrad.core.layout import CAPACITY, Layout, cache, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.operand_checks import has_internal_overlap
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument, number_argument
from jitgrad.kernels.launch import SPLIT_SIZE, launch, prepared
from jitgrad.kernels.loops import fill as kernels
from jitgrad.ops.creation.constants import as_dtype, convert_number, finished

__all__ = ["arange", "eye"]


def _number(op: str, name: str, position: int, value: Any) -> Any:
    """A bound of a range as a Python number; it may be given as a tensor without dims or a NumPy scalar."""
    if isinstance(value, Tensor) and op != "arange":  # which alone refuses tensors that require grad
        value = value.detach()
    value = number_argument(op, name, position, value)
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, complex) and op == "arange":
        raise overflow(dtypes.float64)
    return value


def _arange_length(start: Any, end: Any, step: Any) -> int:
    """How many elements ``arange`` has; of ints counted exactly, as floats may not hold them."""
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return max(-((start - end) // step), 0)
    if not (end - start) / step < 1 << 63:
        raise RuntimeError("invalid size, possible overflow")
    return math.ceil((end - start) / step)


def arange(*bounds: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
           pin_memory: bool = False, requires_grad: bool = False, **named: Any) -> Tensor:  # fmt: skip
    """``arange(end)``, ``arange(start, end, step=1)``: start, start + step, ... below end (exclusive).

    int64 if all are ints, else the default dtype. RuntimeError for step 0 or of the wrong sign.
    """
    known = device is None or type(device) is Device
    if named or out is not None or not known or not _NUMBERS.issuperset(map(type, bounds)):
        made, start, step = _planned_range(bounds, named, dtype, out, device)
    else:
        key = (bounds, *map(type, bounds), dtype, dtypes.get_default_dtype(), device)
        found = _RANGES.get(key)
        if found is None:
            found = _RANGES[key] = _planned_range(bounds, named, dtype, out, device)
        made, start, step = found
    return _finished("arange", _made_by(kernels.arange, made, start, step), requires_grad, out, _RESIZED)


_NUMBERS = frozenset({int, float})
_RESIZED = (
    "The number of elements in the out tensor of shape {} is {} which does not match the computed number of elements "
    "{}. Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of shape "
    "({},)."
)
_RANGES: dict[Any, tuple[Layout, Any, Any]] = cache()


def _made_by(kernel: Any, layout: Layout, *numbers: Any) -> Tensor:
    """A new tensor that a kernel writes, given these numbers."""
    data = empty_for(layout)
    (_runs.get((kernel, layout)) or _plan_run(kernel, layout, len(numbers)))(data, *numbers)
    return wrap(data, layout)


_runs: dict[Any, Callable[..., None]] = cache()


def _plan_run(kernel: Any, layout: Layout, numbers: int) -> Callable[..., None]:
    run: Callable[..., None] = functools.partial(launch, kernel)
    if layout.plain and layout.numel < SPLIT_SIZE:
        run = prepared(kernel, layout.numpy_dtype, layout.shape, *(None,) * numbers)
    _runs[kernel, layout] = run
    return run


def _planned_range(
    bounds: tuple[Any, ...], named: dict[str, Any], dtype: Any, out: Tensor | None, device: Any
) -> tuple[Layout, Any, Any]:
    """(the layout of ``arange``, start, step) of its arguments."""
    if not 0 < len(bounds) + len(named) <= 3:
        raise invalid_combination("arange", bounds)
    order = ("end",) if len(bounds) == 1 and "end" not in named else ("start", "end", "step")
    given = {"start": 0, "step": 1, **dict(zip(order, bounds, strict=False)), **named}
    if unknown := set(given) - {"start", "end", "step"}:
        raise TypeError(f"arange() got an unexpected keyword argument '{unknown.pop()}'")
    first = 1 if "start" in order else 0  # the position of what comes first, were ``start`` given
    start, end, step = [_number("arange", k, n, given[k]) for n, k in enumerate(("start", "end", "step"), first)]
    category = max([dtypes.category_of(v) for v in (start, end, step)])
    chosen = as_dtype("arange", dtype) or (out.dtype if out is not None else dtypes.default_for(max(category, 1)))
    if chosen.category == 0:
        raise not_implemented_for("arange_cpu", chosen)
    whole = [convert_number(v, chosen) for v in (start, end, step)] if chosen.name == "int64" else None
    length = _arange_length(start, end, step)
    if whole:  # counted in int64, as PyTorch does: bounds and step lose their fractions first
        length = _arange_length(*whole)
    cast = int if chosen.category == 1 else float
    return intern(chosen.numpy, (length,), None, resolve(device)), cast(start), cast(step)


def _finished(op: str, result: Tensor, requires_grad: bool, out: Tensor | None, resized: str = "") -> Tensor:
    """``finished``, but that ``out`` keeps a shape of as many elements, which it gets in row-major order."""
    if isinstance(out, Tensor):
        before, now = out._layout.numel, result._layout.numel
        result = result.view(out._layout.shape) if before == now else result
        resized = resized and resized.format(list(out._layout.shape), before, now, now)
    return finished(op, result, requires_grad, out, resized=resized)


def range(start: Any = 0, end: Any = None, step: Any = 1, *, out: Tensor | None = None, dtype: Any = None,
          layout: Any = None, device: Any = None, pin_memory: bool = False,
          requires_grad: bool = False) -> Tensor:  # fmt: skip
    """start, start + step, ... up to ``end``, which is included; of the default dtype. Use ``arange``."""
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning, stacklevel=user_level(),
    )  # fmt: skip
    first, last, by = (_number("range", n, k, v) for k, (n, v) in enumerate((("start", start), ("end", end),
                                                                            ("step", step)), 1))  # fmt: skip
    chosen = as_dtype("range", dtype) or (out.dtype if out is not None else dtypes.get_default_dtype())
    _arange_length(first, last, by)  # raises where there is no such range
    made = intern(chosen.numpy, (int((last - first) / by + 1),), None, resolve(device))
    cast = int if chosen.category == 1 else float
    return _finished("range", _made_by(kernels.arange, made, cast(first), cast(by)), requires_grad, out)


def _steps(
    op: str, start: Any, end: Any, steps: Any, dtype: Any, out: Any
) -> tuple[Any, Any, Any, Any, dtypes.dtype]:  # fmt: skip
    """What the kernels of ``linspace`` and ``logspace`` take: start, end, the step between, of which type this was
    computed, and the result's dtype."""
    int_argument(op, "steps", 3, steps)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = _number(op, "start", 1, start), _number(op, "end", 2, end)
    category = max(dtypes.category_of(start), dtypes.category_of(end), 2)
    inferred, given = dtypes.default_for(category), as_dtype(op, dtype)
    if category == 3 and given is not None and not given.is_complex:
        raise RuntimeError(
            f"torch.{op}(): inferred dtype {cpp_type(inferred)} can't be safely cast to passed dtype "
            f"{scalar_type(given)}"
        )
    chosen = given or (out.dtype if out is not None else inferred)
    if category == 3 and not chosen.is_complex:
        raise overflow(chosen)
    if chosen.category == 0:
        raise not_implemented_for(f"{op}_cpu", chosen)
    if chosen.category < 2:  # integers take whole bounds, as PyTorch does
        start, end = convert_number(start, chosen), convert_number(end, chosen)
    cast = complex if chosen.category == 3 else float
    start, end = cast(start), cast(end)
    in_dtype = chosen.name in ("float32", "complex64") or (chosen.is_half and op == "linspace")
    scalar: Any = chosen.numpy.type if in_dtype else cast
    return start, end, _step_between(start, end, max(int(steps) - 1, 1), scalar), scalar, chosen


@functools.lru_cache(CAPACITY)
def _step_between(start: Any, end: Any, count: int, scalar: Any) -> Any:
    """The distance of ``count`` + 1 numbers, computed in a NumPy scalar's type: PyTorch takes that of the result."""
    return type(start)((scalar(end) - scalar(start)) / scalar(count))


def linspace(start: Any, end: Any, steps: int, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
             device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """``steps`` values evenly spaced from ``start`` to ``end``, both included."""
    key = start.__class__, end.__class__, steps, steps.__class__, dtype, dtypes.get_default_dtype()
    planned = out is None is device
    known = _SPACES.get(key) if planned else None
    if known is not None:
        layout, scalar = known
        start, end = float(start), float(end)
        step = _step_between(start, end, max(steps - 1, 1), scalar)
        return finished("linspace", _made_by(kernels.linspace, layout, start, start if steps == 1 else end, step),
                        requires_grad)  # fmt: skip
    plain = _NUMBERS.issuperset(map(type, (start, end)))
    start, end, step, scalar, chosen = _steps("linspace", start, end, steps, dtype, out)
    layout = intern(chosen.numpy, (int(steps),), None, resolve(device))
    if planned and plain and type(steps) is int and chosen.category == 2:
        _SPACES[key] = layout, scalar
    kernel = kernels.linspace if chosen.category >= 2 else kernels.linspace_whole
    result = _made_by(kernel, layout, start, start if steps == 1 else end, step)
    return _finished("linspace", result, requires_grad, out)


# {types of the bounds and all else that linspace gets: (layout, type of its step)} of floats made of Python numbers
_SPACES: dict[Any, tuple[Layout, Any]] = cache()


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: Tensor | None = None, dtype: Any = None,
             layout: Any = None, device: Any = None, pin_memory: bool = False,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """``base`` to the powers ``linspace(start, end, steps)``."""
    start, end, step, _, chosen = _steps("logspace", start, end, steps, dtype, out)
    layout = intern(chosen.numpy, (int(steps),), None, resolve(device))
    factor = complex(base) if chosen.category == 3 else float(base)
    result = _made_by(kernels.logspace, layout, start, start if steps == 1 else end, step, factor)
    return _finished("logspace", result, requires_grad, out)


def eye(n: int, m: int | None = None, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The identity matrix of shape (n, m); m = n by default."""
    n = int_argument("eye", "n", 1, n)
    m = n if m is None else int_argument("eye", "m", 2, m)
    for name, value in (("n", n), ("m", m)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    chosen = as_dtype("eye", dtype) or (out.dtype if out is not None else dtypes.get_default_dtype())
    result = _made_by(kernels.eye, intern(chosen.numpy, (n, m), None, resolve(device)))
    made = finished("eye", result, requires_grad, out, allows_internal_overlap=True)
    if out is not None and has_internal_overlap(out._layout):
        out.fill_diagonal_(1)  # where a zero and a one have one place in memory, PyTorch writes the one last
    return made


for _function in (arange, range, linspace, logspace, eye):
    public(_function, method_too=False)
