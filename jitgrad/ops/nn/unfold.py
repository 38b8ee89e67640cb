"""Windows of images as columns (unfold), and images as sums of such columns (fold)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_ints, is_int
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import columns as kernels
from jitgrad.ops.nn.conv import conv_size
from jitgrad.ops.nn.taps import merged_batch
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["Col2Im", "Im2Col"]

_Ints = Sequence[int]


def _geometry(sizes: _Ints, width: _Ints, stride: _Ints, padding: _Ints, dilation: _Ints) -> tuple[Any, list[int]]:
    """(what kernels know of the windows, how many of them there are along height and width)."""
    every = zip(sizes, width, stride, padding, dilation, strict=True)
    counts = [conv_size(*w) for w in every]
    lists = ((1, *width), (1, *stride), (0, *padding), (1, *dilation), (1, *counts))
    return np.array([n for part in lists for n in part], np.int64), counts


def _columns(x: Any, width: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding])
    h, w = (conv_size(n, k, s, 0, d) for n, k, s, d in zip(x.shape[-2:], width, stride, dilation, strict=True))
    parts = [x[..., i * dilation[0] :: stride[0], j * dilation[1] :: stride[1]][..., :h, :w]
             for i in range(width[0]) for j in range(width[1])]  # fmt: skip
    return np.stack(parts, -3).reshape(*x.shape[:-3], -1, h * w)


class Im2Col(Structured):
    """The windows of ``x`` (*, c, h, w) as the columns of matrices (*, c k k, windows)."""

    linear, batch = ("x",), merged_batch
    samples = cases(
        lambda: (draw(2, 3, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
        lambda: (draw(1, 2, 4, 3), (2, 1), (2, 1), (1, 0), (1, 2)),
    )
    reference = _columns

    def plan(x_layout, kernel_size, dilation, padding, stride):
        *outer, channels, height, width = x_layout.shape
        geometry, counts = _geometry((height, width), kernel_size, stride, padding, dilation)
        rows = channels * math.prod(kernel_size)
        out = intern(x_layout.numpy_dtype, (*outer, rows, math.prod(counts)), None, x_layout.device)
        if not out.numel:
            return lambda x: wrap(empty_for(out), out)
        n = math.prod(outer)
        source = row_major("x", x_layout, (n, channels, 1, height, width))
        return Launches([(kernels.columns_of, source, geometry, Written(0, (n, *out.shape[-2:])))], [out])

    def grad_x(g, x_layout, kernel_size, dilation, padding, stride):
        return Col2Im.apply(g, tuple(x_layout.shape[-2:]), kernel_size, dilation, padding, stride)


def _folded(x: Any, output_size: Any, width: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    outer, channels = x.shape[:-2], x.shape[-2] // math.prod(width)
    places = np.arange(channels * math.prod(output_size)).reshape(channels, *output_size) + 1
    where = _columns(places, width, dilation, padding, stride)
    out = np.zeros((*outer, places.size + 1))
    for k in np.ndindex(*outer):
        np.add.at(out[k], where.reshape(-1), x[k].reshape(-1))
    return out[..., 1:].reshape(*outer, channels, *output_size)


class Col2Im(Structured):
    """The transpose of ``Im2Col``: images (*, c, *output_size) to which the columns of ``x`` are added."""

    linear, batch = ("x",), merged_batch
    samples = cases(
        lambda: (draw(4, 6), (3, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
        lambda: (draw(1, 4, 8), (4, 3), (2, 1), (2, 1), (1, 0), (1, 2)),
    )
    reference = _folded

    def plan(x_layout, output_size, kernel_size, dilation, padding, stride):
        *outer, rows, places = x_layout.shape
        geometry, _ = _geometry(output_size, kernel_size, stride, padding, dilation)
        channels, n = rows // math.prod(kernel_size), math.prod(outer)
        out = intern(x_layout.numpy_dtype, (*outer, channels, *output_size), None, x_layout.device)
        if not x_layout.numel:
            return lambda x: zeros_of(out)
        source, target = row_major("x", x_layout, (n, rows, places)), Written(0, (n, channels, 1, *output_size))
        return Launches([(kernels.fold_columns, source, geometry, target)], [out])

    def grad_x(g, kernel_size, dilation, padding, stride):
        return Im2Col.apply(g, kernel_size, dilation, padding, stride)


def _pair(name: str, value: Any) -> tuple[int, ...]:
    values = (int(value),) * 2 if is_int(value) else as_ints("im2col", value, name)
    if len(values) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(values)}")
    return values


def _check(width: _Ints, dilation: _Ints, padding: _Ints, stride: _Ints) -> None:
    for what, short, values in (("kernel size", "kernel", width), ("dilation", "dilation", dilation),
                                ("stride", "stride", stride)):  # fmt: skip
        if min(values) <= 0:
            raise RuntimeError(
                f"{what} should be greater than zero, but got {short}_height: {values[0]} {short}_width: {values[1]}"
            )
    if min(padding) < 0:
        raise RuntimeError(
            f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: {padding[1]}"
        )


@functools.partial(public, module="nn.functional")
def unfold(input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
           padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1) -> Tensor:  # fmt: skip
    """The windows of ``input`` (n, c, h, w), or (c, h, w), as columns: (n, c times a window's size, windows).

    RuntimeError where sizes do not fit, NotImplementedError for integers.
    """
    given = ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride)
    width, dilation, padding, stride = (_pair(n, v) for n, v in given)
    _check(width, dilation, padding, stride)
    shape = list(input.shape)
    if len(shape) < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(shape)}, {len(shape) - 1}], but got "
            f"{len(shape)})"
        )
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {shape}"
        )
    _, counts = _geometry(shape[-2:], width, stride, padding, dilation)
    if min(counts) < 1:
        raise RuntimeError(
            f"Given input with spatial size ({shape[-2]}, {shape[-1]}), kernel_size={_shown(width)}, "
            f"dilation={_shown(dilation)}, padding={_shown(padding)}, calculated shape of the array of sliding blocks "
            f"as {_shown(counts)}, but its components must be at least one."
        )
    if input._layout.dtype.category == 1:
        raise not_implemented_for("im2col_out_cpu", input.dtype)
    return Im2Col.apply(input, width, dilation, padding, stride)


def _shown(values: _Ints) -> str:
    return f"({', '.join(map(str, values))})"


@functools.partial(public, module="nn.functional")
def fold(input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int],
         dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
         stride: int | Sequence[int] = 1) -> Tensor:  # fmt: skip
    """Images (n, c, *output_size) to which the columns of ``input`` are added, at the windows that ``unfold`` reads.

    RuntimeError where sizes do not fit, NotImplementedError for integers.
    """
    given = (("output_size", output_size), ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding),
             ("stride", stride))  # fmt: skip
    size, width, dilation, padding, stride = (_pair(n, v) for n, v in given)
    _check(width, dilation, padding, stride)
    shape = list(input.shape)
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {shape}"
        )
    first, last = len(shape) - 2, len(shape) - 1
    if shape[first] % math.prod(width):
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={shape[first]} and kernel_size={_shown(width)}."
        )
    _, counts = _geometry(size, width, stride, padding, dilation)
    if math.prod(counts) != shape[last]:
        raise RuntimeError(
            f"Given output_size={_shown(size)}, kernel_size={_shown(width)}, dilation={_shown(dilation)}, "
            f"padding={_shown(padding)}, stride={_shown(stride)}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got "
            f"input.size(2)={shape[last]}."
        )
    if min(counts) < 1:
        raise RuntimeError(
            f"Given output_size={_shown(size)}, kernel_size={_shown(width)}, dilation={_shown(dilation)}, "
            f"padding={_shown(padding)}, stride={_shown(stride)}, calculated shape of the array of sliding blocks as "
            f"({counts[0]}, {counts[1]}), which is too small (non-positive)"
        )
    if input._layout.dtype.category == 1:
        raise not_implemented_for("col2im_out_cpu", input.dtype)
    return Col2Im.apply(input, size, width, dilation, padding, stride)
