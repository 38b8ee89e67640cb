"""Memory formats: the orders of dims in memory that ``torch.channels_last`` and its kin stand for.

A format is known by its name here: the objects are declared in ops/creation/type_info.py, on a floor above.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import CAPACITY, Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import copy_to_layout, preserved_layout
from jitgrad.dispatch.strides import channels_last_strides, is_channels_last

__all__ = ["channels_come_last", "following", "has_format", "layout_in_format", "needs_copy", "strides_of_result"]


def layout_in_format(layout: Layout, memory_format: Any, dtype: dtypes.dtype | None = None) -> Layout:
    """The layout of a copy in a memory format; None stands for ``torch.preserve_format``.

    RuntimeError if the tensor has not as many dims as the format is for.
    """
    name = getattr(memory_format, "name", "preserve_format")
    if name == "preserve_format":
        return preserved_layout(layout, dtype)
    strides = None if name == "contiguous_format" else _channels_last_strides(layout.shape, name)
    return intern((dtype or layout.dtype).numpy, layout.shape, strides, layout.device)


def _channels_last_strides(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Strides of (n, channels, *places) in the format of that name; RuntimeError for another number of dims."""
    rank = 5 if name == "channels_last_3d" else 4
    if len(shape) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")
    return channels_last_strides(shape)


def has_format(layout: Layout, memory_format: Any) -> bool:
    """Whether the elements lie without gaps in the order of a memory format; None is row-major order."""
    name = getattr(memory_format, "name", "contiguous_format")
    if name in ("contiguous_format", "preserve_format"):
        return layout.contiguous
    return _is_channels_last(layout, name)


def _is_channels_last(layout: Layout, name: str) -> bool:
    """Whether a layout is that of the memory format "channels_last" or "channels_last_3d"."""
    return layout.ndim == (5 if name == "channels_last_3d" else 4) and is_channels_last(layout)


def _suggested_format(layout: Layout) -> str:
    """The name of the format that results are given which follow an operand of this layout, gaps or not."""
    if not channels_come_last(layout):
        return "contiguous_format"
    return "channels_last" if layout.ndim == 4 else "channels_last_3d"


def channels_come_last(layout: Layout) -> bool:
    """Whether the 4 or 5 dims lie in memory in the order samples, places, channels, each outside of the next.

    Gaps don't count. Where sizes are 1, a layout may be row-major as well.
    """
    shape, strides, reach = layout.shape, layout.strides, 0
    if layout.ndim not in (4, 5) or not layout.numel or not strides[1]:
        return False
    for d in (1, *range(layout.ndim - 1, 1, -1), 0):
        if strides[d] < reach or (d == 0 and reach == strides[1]):  # one channel at one place: no order is seen
            return False
        reach = strides[d] * shape[d]
    return True


def strides_of_result(operands: Iterable[Layout], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides of a result of this shape, None if row-major: channels are last if they are in all operands."""
    formats = {_suggested_format(layout) for layout in operands}
    if len(formats) != 1 or "contiguous_format" in formats:
        return None
    return _channels_last_strides(shape, formats.pop())


def following(x: Layout, made: Tensor) -> Tensor:
    """``made``, a new row-major tensor outside the graph; with its channels last in memory if ``x`` has them so."""
    layout = _followed(x, made._layout)
    return made if layout is made._layout else copy_to_layout(made, layout)


@functools.lru_cache(CAPACITY)
def _followed(x: Layout, made: Layout) -> Layout:
    strides = strides_of_result([x], made.shape)
    return made if strides is None else intern(made.numpy_dtype, made.shape, strides, made.device)


def needs_copy(layout: Layout, memory_format: Any) -> bool:
    """Whether ``to`` copies for a memory format alone; gaps and other orders of dims are no reason, as in PyTorch."""
    name = getattr(memory_format, "name", "preserve_format")
    if name == "contiguous_format":
        return _suggested_format(layout) != name
    return name != "preserve_format" and layout_in_format(layout, memory_format) is not layout
