"""Copies and casts that gradients flow through: clone, contiguous, to."""

from __future__ import annotations

from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.batch_rules import aligned
from jitgrad.dispatch.copying import copying
from jitgrad.dispatch.memory_formats import layout_in_format
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import fast_method
from jitgrad.dispatch.structured import Structured

__all__ = [
    "Clone", "Contiguous", "Copying", "ToCopy", "cast", "cast_gradient", "contiguous", "warn_of_lost_imaginary",
]  # fmt: skip


class Copying(Structured, abstract=True):
    """Base of ops that return the values of ``x`` in new memory; the gradient passes unchanged."""

    linear = ("x",)
    half = True
    batch = aligned
    reference = lambda x, *_: x.copy()

    def grad_x(g):
        return g


class Clone(Copying, public=True):
    """Return a copy of ``x`` that gradients flow through."""

    samples = cases(lambda: (draw(2, 3),), lambda: (draw(2, 3).t(),))

    def plan(x_layout, memory_format=None):
        return copying(x_layout, layout_in_format(x_layout, memory_format))


class Contiguous(Copying):
    """Copy into row-major memory."""

    name, grad_name = "contiguous_copy", "CloneBackward0"
    samples = cases(lambda: (draw(2, 3).t(),))

    def plan(x_layout):
        return copying(x_layout, intern(x_layout.numpy_dtype, x_layout.shape, None, x_layout.device))


def _cast_reference(x: Any, dtype: dtypes.dtype, memory_format: Any = None) -> Any:
    return x.astype(dtype.numpy)


class ToCopy(Copying):
    """Cast to ``dtype``."""

    samples = cases(lambda: (draw(2, 3), dtypes.by_name("float64")), lambda: (draw(2, 3), dtypes.by_name("complex128")))
    reference = _cast_reference

    def plan(x_layout, dtype, memory_format=None):
        return copying(x_layout, layout_in_format(x_layout, memory_format, dtype))

    def grad_x(g, x_layout):
        return cast_gradient(g, x_layout.dtype)


def cast(x: Tensor, dtype: dtypes.dtype) -> Tensor:
    """Return ``x`` as ``dtype``; ``x`` itself if it has it already."""
    return x if x._layout.dtype is dtype else ToCopy.apply(x, dtype)


def cast_gradient(g: Tensor, dtype: dtypes.dtype) -> Tensor:
    """A gradient as the dtype of the input that was cast; of a real input made complex, the real part."""
    return cast(g.real if g._layout.dtype.is_complex and not dtype.is_complex else g, dtype)


def warn_of_lost_imaginary(old: dtypes.dtype, new: dtypes.dtype) -> None:
    """Say so where a user's conversion goes from complex to real numbers; bool asks whether they are zero."""
    if old.is_complex and not new.is_complex and new is not dtypes.bool_:
        message = "Casting complex values to real discards the imaginary part"
        warn_once(message)


@fast_method
def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    """Return ``x`` in row-major memory, or that of a memory format: itself if it is, else a copy."""
    if memory_format is not None and getattr(memory_format, "name", "") != "contiguous_format":
        # ``is_contiguous`` raises inside a vmap, which cannot tell the sample's order.
        return x if x.is_contiguous(memory_format) else Clone.apply(x, memory_format)
    return x if x._layout.contiguous else Contiguous.apply(x)
