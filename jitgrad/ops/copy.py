"""Copies and casts: clone, contiguous, to, copy_."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..kernels.emit import Argument
from ..kernels.rules import Rule
from ..layout import Layout, cache, intern, is_dense, layout_of
from ..storage import empty_for, transfer
from ..tensor import Tensor, wrap
from .batching import aligned
from .plan import Plan, plan_elementwise
from .registry import FUNCTIONS, public
from .sampling import cases, draw
from .strided import empty_laid
from .structured import Structured

__all__ = ["cast", "contiguous", "copy_into", "dense_strides", "in_layout", "preserved", "twin"]

_plans: dict[tuple[Layout, Layout], Plan] = cache()


def _same(x: Any) -> Any:
    return x


_SAME = Rule("copy", _same)


def copy_into(target: Any, layout: Layout, source: Tensor) -> None:
    """Launch the copy of ``source``, cast and broadcast, into an array of ``layout``."""
    if source._layout.dtype.is_complex and not layout.dtype.is_complex:
        source = _without_imaginary(source, layout.dtype)
    key = (source._layout, layout)
    plan = _plans.get(key)
    if plan is None and source._layout.device != layout.device:
        plan = _plans[key] = transfer(source._layout, layout)
    if plan is None:
        plan = _plans[key] = plan_elementwise(
            "copy", [(_SAME, "out")], [Argument("x", "array")], [source._layout], layout.numpy_dtype, layout.shape,
            [layout.numpy_dtype], into=layout,
        )  # fmt: skip
    plan.write(source, target)


def _without_imaginary(x: Tensor, dtype: dtypes.dtype) -> Tensor:
    """What of complex numbers goes into a tensor that is not complex."""
    if dtype.category == 0:
        return FUNCTIONS["ne"](wrap(x._data, x._layout), 0)
    real = x._data.real
    return wrap(real, layout_of(real, x._layout.device))


def in_layout(source: Tensor, layout: Layout) -> Tensor:
    """A new unrecorded tensor of ``layout`` with the values of ``source``."""
    data = empty_for(layout)
    copy_into(data, layout, source)
    return wrap(data, layout)


def twin(x: Tensor) -> Tensor:
    """A copy of ``x`` outside the graph in memory of its own, with the same strides, gaps included."""
    data = empty_laid(x._layout)
    copy_into(data, x._layout, x)
    return wrap(data, x._layout)


def preserved(layout: Layout, dtype: dtypes.dtype | None = None) -> Layout:
    """The layout of a copy: without gaps, the dims in the order of their strides."""
    numpy_dtype = (dtype or layout.dtype).numpy
    if layout.contiguous:
        return intern(numpy_dtype, layout.shape, None, layout.device)
    strides = layout.strides if is_dense(layout) else dense_strides(layout)
    return intern(numpy_dtype, layout.shape, strides, layout.device)


def dense_strides(layout: Layout) -> tuple[int, ...]:
    """Strides without gaps that keep the order of the given ones; a stride of 0 says nothing of it."""
    order = list(range(layout.ndim))[::-1]
    for last in range(1, layout.ndim):
        at = last
        for place in range(last - 1, -1, -1):
            verdict = _compare(layout, order[place], order[at])
            if verdict > 0:
                order[place], order[at] = order[at], order[place]
                at = place
            elif verdict < 0:
                break
    strides, step = [0] * layout.ndim, 1
    for d in order:
        strides[d] = step
        step *= max(layout.shape[d], 1)
    return tuple(strides)


def _compare(layout: Layout, d: int, e: int) -> int:
    """Whether dim ``d`` belongs inside (-1) or outside (1) of ``e``; 0 if their strides do not tell."""
    a, b = layout.strides[d], layout.strides[e]
    if a == 0 or b == 0:
        return 0
    if a == b:
        return int(layout.shape[d] > layout.shape[e])
    return -1 if a < b else 1


class Clone(Structured):
    """Return a copy of ``x`` that gradients flow through."""

    linear = ("x",)
    batch = aligned
    samples = cases(lambda: (draw(2, 3),), lambda: (draw(2, 3).t(),))

    def forward(x, memory_format=None):
        if memory_format is not None and getattr(memory_format, "name", "") == "contiguous_format":
            return Contiguous.forward(x)
        return in_layout(x, preserved(x._layout))

    def grad_x(g):
        return g


class Contiguous(Structured):
    """Copy into row-major memory."""

    linear = ("x",)
    batch = aligned
    name, grad_name, function, method = "contiguous_copy", "CloneBackward0", False, False
    samples = cases(lambda: (draw(2, 3).t(),))

    def forward(x):
        return in_layout(x, intern(x._layout.numpy_dtype, x._layout.shape, None, x._layout.device))

    def grad_x(g):
        return g


class ToCopy(Structured):
    """Cast to ``dtype``."""

    linear = ("x",)
    batch = aligned
    name, function, method = "to_copy", False, False
    samples = cases(lambda: (draw(2, 3), dtypes.by_name("float64")))

    def forward(x, dtype):
        return in_layout(x, preserved(x._layout, dtype))

    def grad_x(g, x_layout):
        if g._layout.dtype.is_complex and not x_layout.dtype.is_complex:
            g = g.real
        return cast(g, x_layout.dtype)


def cast(x: Tensor, dtype: dtypes.dtype) -> Tensor:
    """Return ``x`` as ``dtype``; ``x`` itself if it has it already."""
    return x if x._layout.dtype is dtype else ToCopy.apply(x, dtype)


@public
def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    """Return ``x`` in row-major memory: itself if it is, else a copy."""
    if memory_format is not None:
        x.is_contiguous(memory_format)  # which a sample of vmap's may refuse to say
    return x if x._layout.contiguous else Contiguous.apply(x)
