"""Elements from one dim to others: channels to pixels and back, channels among themselves."""

from __future__ import annotations

from typing import Any

from jitgrad.core.layout import Layout, contiguous_strides, intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import rewritten
from jitgrad.dispatch.copying import copying
from jitgrad.dispatch.memory_formats import following, strides_of_result
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.nn.taps import merged_batch
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


def _rearranging(x: Layout, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """The function that makes of a tensor of this layout, viewed as ``split``, its dims in this order, a new one."""
    if not (x.contiguous and x.numel) or strides_of_result([x], shape) is not None:
        return lambda source: following(x, _rearranged(source, split, order, shape))
    strides = contiguous_strides(split)
    parts = intern(x.numpy_dtype, tuple([split[d] for d in order]), tuple([strides[d] for d in order]), x.device)
    copy = copying(parts, intern(x.numpy_dtype, parts.shape, None, x.device))
    out = intern(x.numpy_dtype, shape, None, x.device)
    return lambda x: wrap(copy(wrap(x._data.reshape(split).transpose(order), parts))._data.reshape(shape), out)


def _rearranged(x: Tensor, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """``x`` viewed as ``split``, its dims in this order, as a new tensor of ``shape``."""
    parts = contiguous(unrecorded(x)).reshape(split).permute(order)
    copied = contiguous(parts) if not parts._layout.contiguous else parts.clone()
    return unrecorded(copied.reshape(shape))


def _check(name: str, x: Layout, factor: Any, up: str) -> None:
    if x.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {x.ndim} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {up}_factor, but got {factor}")


class PixelShuffle(Structured, public="function"):
    """(*, c r r, h, w) as (*, c, h r, w r): of r r channels the pixels of squares of side r, ``upscale_factor``."""

    linear, batch = ("x",), merged_batch
    samples = cases(lambda: (draw(4, 2, 3), 2), lambda: (draw(2, 9, 1, 2), 3))

    def reference(x, r):
        *outer, c, h, w = x.shape
        parts = x.reshape(*outer, c // (r * r), r, r, h, w)
        return np_moved(parts, len(outer), (0, 3, 1, 4, 2)).reshape(*outer, c // (r * r), h * r, w * r)

    def plan(x_layout, upscale_factor):
        _check("pixel_shuffle", x_layout, upscale_factor, "upscale")
        *outer, c, h, w = x_layout.shape
        r, n = upscale_factor, len(outer)
        if c % (r * r):
            raise RuntimeError(
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
            )
        order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
        c //= r * r
        return _rearranging(x_layout, (*outer, c, r, r, h, w), order, (*outer, c, h * r, w * r))

    def grad_x(g, upscale_factor):
        return PixelUnshuffle.apply(g, upscale_factor)


class PixelUnshuffle(Structured, public="function"):
    """The inverse of ``pixel_shuffle``: (*, c, h r, w r) as (*, c r r, h, w), r being ``downscale_factor``."""

    linear, batch = ("x",), merged_batch
    samples = cases(lambda: (draw(1, 4, 6), 2), lambda: (draw(2, 2, 3, 6), 3))

    def reference(x, r):
        *outer, c, h, w = x.shape
        parts = x.reshape(*outer, c, h // r, r, w // r, r)
        return np_moved(parts, len(outer), (0, 2, 4, 1, 3)).reshape(*outer, c * r * r, h // r, w // r)

    def plan(x_layout, downscale_factor):
        _check("pixel_unshuffle", x_layout, downscale_factor, "downscale")
        *outer, c, h, w = x_layout.shape
        r, n = downscale_factor, len(outer)
        for size, what, d in ((h, "height", -2), (w, "width", -1)):
            if size % r:
                raise RuntimeError(
                    f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({d})={size} "
                    f"is not divisible by {r}"
                )
        order, h, w = (*range(n), n, n + 2, n + 4, n + 1, n + 3), h // r, w // r
        return _rearranging(x_layout, (*outer, c, h, r, w, r), order, (*outer, c * r * r, h, w))

    def grad_x(g, downscale_factor):
        return PixelShuffle.apply(g, downscale_factor)


def np_moved(x: Any, first: int, order: tuple[int, ...]) -> Any:
    """A NumPy array's dims from ``first`` on in another order."""
    return x.transpose(*range(first), *[first + d for d in order])


class ChannelShuffle(Structured, public="function"):
    """The channels, dim 1, of several groups in turns: (n, groups k, *) read as (n, k, groups, *)."""

    linear = ("x",)
    batch = rewritten(lambda call, x, groups: _shuffled_batch(x, groups))
    samples = cases(lambda: (draw(2, 6, 2), 3), lambda: (draw(1, 4, 2, 2), 2))
    reference = lambda x, groups: x.reshape(len(x), groups, -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)

    def plan(x_layout, groups):
        x = x_layout
        if x.ndim <= 2:
            raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(x.shape)}")
        n, c, *places = x.shape
        if groups <= 0:
            raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
        if c % groups:
            raise RuntimeError(
                f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
            )
        order = (0, 2, 1, *range(3, x.ndim + 1))
        return _rearranging(x, (n, groups, c // groups, *places), order, tuple(x.shape))

    def grad_x(g, groups):
        return ChannelShuffle.apply(g, g.shape[1] // groups)


def _shuffled_batch(x: Tensor, groups: int) -> Tensor:
    return ChannelShuffle.apply(x.flatten(0, 1), groups).reshape(x.shape)


public(ChannelShuffle.apply, "native_channel_shuffle", method_too=False)
for _op in (PixelShuffle, PixelUnshuffle, ChannelShuffle):
    public(_op.apply, _op.name, module="nn.functional")
public(ChannelShuffle.apply, "native_channel_shuffle", module="nn.functional")
