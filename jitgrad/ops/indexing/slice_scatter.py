"""Copies of a tensor in which one part, as a view shows it, is another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.strides import extent, storage_of
from jitgrad.dispatch.structured import View
from jitgrad.ops.indexing.places import written
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.as_strided import AsStrided
from jitgrad.ops.shape.copy import Clone, cast_gradient, contiguous
from jitgrad.ops.shape.slicing import Diagonal, Select, Slice, zeros_of

__all__ = ["DiagonalScatter", "SelectScatter", "SliceScatter"]


class PartScatter(InplaceOp, abstract=True):
    """Base of ops whose result is ``x`` with one part replaced by ``src``, as the dtype of ``x``.

    They are published without a form in place.
    """

    jointly_linear = ("x", "src")
    copy_strides = "strided"
    half = True

    def __init_subclass__(cls, published: bool = True, **kwargs: Any) -> None:
        # InplaceOp would publish a method NAME_ beside the method NAME; PyTorch has none.
        super().__init_subclass__(public=published and "function", **kwargs)
        if published:
            method(cls.apply, cls.name)


def _write(title: str, x: Tensor, src: Tensor, view: type[View], *args: Any) -> None:
    """Copy ``src`` into the part of ``x`` that ``view`` shows; ``title`` is PyTorch's word for it."""
    part = view.forward(wrap(x._data, x._layout), *args)
    if part._layout.shape != src._layout.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the {title} of self. src size = {list(src._layout.shape)}, "
            f"{title} size = {list(part._layout.shape)}"
        )
    copy_into(part._data, part._layout, src)


class SelectScatter(PartScatter):
    """A copy whose slice at ``index`` of dim ``dim`` is ``src``."""

    batch = over_dims("dim")
    samples = cases(lambda: (draw(2, 3), draw(2, seed=1), 1, -1))
    reference = lambda x, src, dim, index: written(x, src, np.take, index, dim)

    def write(x, src, dim, index):
        _write("slice", x, src, Select, dim, index)

    def grad_x(g, src_layout, dim, index):
        return SelectScatter.apply(g, zeros_of(src_layout), dim, index)

    def grad_src(g, src_layout, dim, index):
        return cast_gradient(Select.apply(g, dim, index), src_layout.dtype)


def _range(x: Layout, dim: int, start: Any, end: Any, step: int) -> tuple[int, int, int, int]:
    """The arguments of Slice: those of ``slice_scatter`` with dim and ends counted from the front."""
    d = dim % x.ndim
    first, last, _ = slice(start, end, step).indices(x.shape[d])
    return d, first, max(first, last), step


class SliceScatter(PartScatter):
    """A copy whose elements ``start``, ``start + step``, ... below ``end`` of dim ``dim`` are ``src``."""

    batch = over_dims("dim")
    samples = cases(lambda: (draw(2, 5), draw(2, 2, seed=1), 1, 1, 4, 2))
    reference = lambda x, src, dim=0, start=None, end=None, step=1: written(
        x, src, np.take, np.arange(x.shape[dim])[start:end:step], dim
    )

    def write(x, src, dim=0, start=None, end=None, step=1):
        _write("slice", x, src, Slice, *_range(x._layout, dim, start, end, step))

    def grad_x(g, src_layout, dim, start, end, step):
        return SliceScatter.apply(g, zeros_of(src_layout), dim, start, end, step)

    def grad_src(g, src_layout, dim, start, end, step):
        return cast_gradient(Slice.apply(g, *_range(g._layout, dim, start, end, step)), src_layout.dtype)


class DiagonalScatter(PartScatter):
    """A copy whose diagonal, as ``diagonal`` takes it, is ``src``."""

    batch = over_dims("dim1", "dim2")
    samples = cases(lambda: (draw(3, 4), draw(3, seed=1), 1))
    reference = lambda x, src, *diagonal: written(x, src, np.diagonal, *diagonal)

    def write(x, src, offset=0, dim1=0, dim2=1):
        _write("diagonal", x, src, Diagonal, offset, dim1, dim2)

    def grad_x(g, src_layout, offset, dim1, dim2):
        return DiagonalScatter.apply(g, zeros_of(src_layout), offset, dim1, dim2)

    def grad_src(g, src_layout, offset, dim1, dim2):
        return cast_gradient(Diagonal.apply(g, offset, dim1, dim2), src_layout.dtype)


def _strided_reference(x: Any, src: Any, size: Any, stride: Any, offset: int) -> Any:
    out = x.copy()
    np.lib.stride_tricks.as_strided(out.reshape(-1)[offset:], size, [s * x.itemsize for s in stride])[...] = src
    return out


class AsStridedScatter(PartScatter, published=False):
    """A copy in which the view by size, strides and an offset from the first element is ``src``."""

    name, grad_name = "as_strided_scattered", "AsStridedScatterBackward0"
    samples = cases(lambda: (draw(3, 4), draw(2, 2, seed=1), (2, 2), (4, 2), 1))
    reference = _strided_reference

    def write(x, src, size, stride, offset):
        _write("slice", x, src, AsStrided, size, stride, offset)

    def grad_x(g, src_layout, size, stride, offset):
        return AsStridedScatter.apply(contiguous(g), zeros_of(src_layout), size, stride, offset)

    def grad_src(g, src_layout, size, stride, offset):
        return cast_gradient(AsStrided.apply(contiguous(g), size, stride, offset), src_layout.dtype)


@public
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy in which the part that ``as_strided`` shows with these arguments is ``src``.

    RuntimeError where gradients are recorded unless ``input`` is row-major.
    """
    if input._requires_grad and grad_state.enabled and not input._layout.contiguous:
        raise RuntimeError("as_strided_scatter is currently only supported for contiguous inputs")
    size, stride = (tuple(v) if type(v) is list else v for v in (size, stride))
    own = 0 if storage_offset is None else input.storage_offset()
    result: Tensor = _strided_part(input, src, size, stride, storage_offset, own)
    return result


@settled(2)
def _strided_part(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None, own: int) -> Any:
    """What ``as_strided_scatter`` calls, and its arguments after both tensors. own: the offset of ``input``."""
    layout = input.detach().as_strided(size, stride, storage_offset)._layout
    offset = 0 if storage_offset is None else storage_offset - own
    shape, strides = input._layout.shape, input._layout.strides
    if offset >= 0 and offset + extent(layout.shape, layout.strides) <= extent(shape, strides):
        return AsStridedScatter.apply, (layout.shape, layout.strides, offset)
    return _scatter_beyond, (layout.shape, layout.strides, offset)


def _scatter_beyond(input: Tensor, src: Tensor, size: Any, stride: Any, offset: int) -> Tensor:
    """``as_strided_scatter`` to a part, ``offset`` behind the first element of ``input``, that may reach beyond it."""
    shape, strides, own = input._layout.shape, input._layout.strides, input.storage_offset()
    input.detach().as_strided(size, stride, offset + own)  # raises where memory ends before that
    # Some of the part is memory that ``input`` does not show: it is written in a copy of all of the memory.
    count = storage_of(input)[1] // input._layout.dtype.itemsize
    whole = input.as_strided((count,), (1,), 0)
    out = AsStridedScatter.apply(whole, src, size, stride, offset + own)
    part = AsStrided.apply(out, shape, strides, own)
    return Clone.apply(part) if out._requires_grad else unrecorded(part)
