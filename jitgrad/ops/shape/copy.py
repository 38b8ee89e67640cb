"""Copies and casts that gradients flow through: clone, contiguous, to."""

from __future__ import annotations

from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import aligned
from jitgrad.dispatch.copying import in_layout, preserved
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured

__all__ = ["Clone", "Contiguous", "ToCopy", "cast", "contiguous"]


class Clone(Structured, public=True):
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
    name, grad_name = "contiguous_copy", "CloneBackward0"
    samples = cases(lambda: (draw(2, 3).t(),))

    def forward(x):
        return in_layout(x, intern(x._layout.numpy_dtype, x._layout.shape, None, x._layout.device))

    def grad_x(g):
        return g


class ToCopy(Structured):
    """Cast to ``dtype``."""

    linear = ("x",)
    batch = aligned
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
