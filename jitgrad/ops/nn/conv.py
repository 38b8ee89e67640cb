"""Convolution, its transpose, and the gradient of its weights: three ops that are each other's gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.memory_formats import channels_come_last
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import conv as kernels
from jitgrad.kernels.loops.reduction import sum_columns
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.nn.conv_methods import ByTaps, by_taps
from jitgrad.ops.nn.taps import in_format_of
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["Conv", "ConvInput", "ConvWeight"]

_CACHE, _NARROW = 1 << 17, 64  # bytes of columns, columns at least
_PIECES, _SUMS = 4, 1 << 20  # of work on a sum over samples; bytes of all parts of it


def _volume(shape: Sequence[int]) -> tuple[int, ...]:
    """(n, channels, *sizes) with three sizes."""
    return (*shape[:2], *(1,) * (5 - len(shape)), *shape[2:])


class _Geometry:
    """What the kernels know of a convolution of ``x`` (n, channels, *sizes) by ``weight`` (out, channels, *sizes)."""

    def __init__(self, x: Sequence[int], weight: Sequence[int], y: Sequence[int], stride: Sequence[int],
                 padding: Sequence[int], dilation: Sequence[int], groups: int, dtype: np.dtype[Any]):  # fmt: skip
        missing = 5 - len(x)
        self.x, self.rows, self.places = _volume(x), math.prod(weight[1:]), math.prod(y[2:])
        self.weight = groups, weight[0] // groups, self.rows
        self.y = x[0], groups, weight[0] // groups, self.places
        lists = [_volume(weight)[2:], *[(fill,) * missing + tuple(v) for fill, v in
                 ((1, stride), (0, padding), (1, dilation))], _volume(y)[2:]]  # fmt: skip
        self.numbers = np.array([n for part in lists for n in part], np.int64)
        pointwise = math.prod(weight[2:]) == 1 and x[2:] == y[2:] and not any(padding)
        fitting = max(_NARROW, _CACHE // (self.rows * dtype.itemsize) // 16 * 16)
        pieces = -(-self.places // fitting)
        # Blocks of equal size, rounded to 16 columns, so that the last one is not a small rest.
        block = self.places if pieces == 1 else min(-(-self.places // pieces) + 15, self.places) // 16 * 16
        self.options = self.numbers, max(block, 1), pointwise
        self.split = *self.weight[:2], weight[1], math.prod(weight[2:])
        self._given: tuple[Any, ...] = weight, x[2:], y[2:], stride, padding, dilation, groups, dtype

    def by_taps(self) -> ByTaps | None:
        """How y comes of x, and the gradient of weights of both, if not by columns."""
        weight, _, places, *options = self._given
        return by_taps(weight, self.x[0], places, *options)

    def back_by_taps(self) -> ByTaps | None:
        """How x comes of y: a convolution by turned weights, padded by what the other's windows reach."""
        weight, size, _, stride, padding, dilation, groups, dtype = self._given
        turned = groups * weight[1], weight[0] // groups, *weight[2:]
        reach = [d * (k - 1) - p for d, k, p in zip(dilation, weight[2:], padding, strict=True)]
        return by_taps(turned, self.x[0], size, stride, reach, dilation, groups, dtype)


def conv_size(n: int, width: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows there are along a dim."""
    return (n + 2 * padding - dilation * (width - 1) - 1) // stride + 1


def _parts_and_shares(pieces: int, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, int]:
    """Into how many parts of the samples, and shares of the channels, the sums for weights of ``shape`` are divided.

    Each part is as large as the weights; a share costs nothing but that something is read again.
    """
    parts = max(min(pieces, _SUMS // (math.prod(shape) * dtype.itemsize)), 1)
    return parts, pieces // parts


def _no_bias(dtype: np.dtype[Any]) -> np.ndarray:
    return np.empty(0, dtype)


def _merged(t: Tensor) -> Tensor:
    """A batch (b, n, channels, *sizes) as samples with the channels of all: (n, b channels, *sizes)."""
    moved = t.movedim(0, 1)
    return moved.reshape((moved.shape[0], moved.shape[1] * moved.shape[2], *moved.shape[3:]))


def _split(t: Tensor, size: int) -> Tensor:
    return t.reshape((t.shape[0], size, t.shape[1] // size, *t.shape[2:])).movedim(1, 0)


def _batched(call: BatchedCall) -> Tensor:
    """Samples of a batch are more samples; weights of a batch are more groups."""
    first, second, *others = call.tensors()
    if call.batched == {first} and second == "weight":
        x = call[first]
        out = call.run(**{first: x.reshape((-1, *x.shape[2:]))})
        return out.reshape((call.size, -1, *out.shape[1:]))
    given = {first: _merged(call.whole(first)), "groups": call.size * call["groups"]}
    if second != "weight":
        given[second] = _merged(call.whole(second))
        out = call.run(**given)
        return out.reshape((call.size, -1, *out.shape[1:]))
    for name in (second, *others):
        t = call.whole(name)
        given[name] = t.reshape((t.shape[0] * t.shape[1], *t.shape[2:]))
    return _split(call.run(**given), call.size)


def _over_channels(g: Tensor) -> Tensor:
    """The sums over all dims but that of channels."""
    places = tuple(range(2, g.ndim))
    # In one step a row-major tensor, in which these dims are no neighbours, would be copied first.
    return g.sum(places).sum(0) if g.is_contiguous() and len(g) > 1 else g.sum((0, *places))


_ONE, _TWO = ((1,), (0,), (1,)), ((2, 1), (1, 0), (1, 2))  # strides, paddings, dilations of the samples


def _reference(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    windows = zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    sizes = [conv_size(n, k, s, 0, d) for n, k, s, d in windows]
    out = np.zeros((len(x), weight.shape[0], *sizes), np.result_type(x, weight))
    per = weight.shape[0] // groups
    for at in np.ndindex(*weight.shape[2:]):
        part = x[(..., *[slice(a * d, a * d + (n - 1) * s + 1, s)
                         for a, d, n, s in zip(at, dilation, sizes, stride, strict=True)])]  # fmt: skip
        for o in range(weight.shape[0]):
            first = o // per * weight.shape[1]
            values = weight[(o, slice(None), *at)]
            out[:, o] += np.tensordot(part[:, first : first + weight.shape[1]], values, (1, 0))
    return out if bias is None else out + bias.reshape(-1, *[1] * len(sizes))


class Conv(Structured):
    """Products of ``weight`` (o, c / groups, *k) and the windows of ``x`` (n, c, *sizes), plus ``bias`` (o).

    stride, padding, dilation: tuples, one for each size. places: the numbers of windows, where these aren't all.
    """

    name, grad_name, batch = "_convolve", "ConvolutionBackward0", _batched
    samples = cases(
        lambda: (draw(2, 2, 4), draw(3, 2, 3), draw(3), *_ONE, 1),
        lambda: (draw(1, 4, 4, 3), draw(2, 2, 2, 2), None, *_TWO, 2),
    )
    reference = _reference

    def plan(
        x_layout, weight_layout, bias_layout=None, stride=(), padding=(), dilation=(), groups=1, places=None
    ):  # fmt: skip
        x, weight = x_layout.shape, weight_layout.shape
        windows = zip(x[2:], weight[2:], stride, padding, dilation, strict=True)
        shape = (x[0], weight[0], *(places or [conv_size(*w) for w in windows]))
        out = intern(x_layout.numpy_dtype, shape, None, x_layout.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        if not x_layout.numel or not weight_layout.numel:
            return lambda *_: zeros_of(out)
        made = _Geometry(x, weight, shape, stride, padding, dilation, groups, out.numpy_dtype)
        launches = _products(made, x_layout, weight_layout, _bias(bias_layout, out), out)
        format_of = x_layout if channels_come_last(x_layout) else weight_layout
        return in_format_of(format_of, launches, x=x_layout, weight=weight_layout, bias=bias_layout)

    def grad_x(g, x_layout, weight, stride, padding, dilation, groups):
        return ConvInput.apply(g, conj(weight), None, tuple(x_layout.shape[2:]), stride, padding, dilation, groups)

    def grad_weight(g, x, weight_layout, stride, padding, dilation, groups):
        return ConvWeight.apply(g, conj(x), tuple(weight_layout.shape[2:]), stride, padding, dilation, groups)

    def grad_bias(g):
        return _over_channels(g)


def _products(made: _Geometry, x: Layout, weight: Layout, bias: Any, out: Layout) -> Launches:
    """y of x."""
    if way := made.by_taps():
        return _products_by_taps(made, way, row_major("x", x, made.x), weight, False, bias, out)
    arrays = row_major("x", x, made.x), row_major("weight", weight, made.weight)
    return Launches([(kernels.convolve, *arrays, bias, Written(0, made.y), *made.options)], [out])


def _products_back(made: _Geometry, y: Layout, weight: Layout, bias: Any, out: Layout) -> Launches:
    """x of y."""
    if way := made.back_by_taps():
        return _products_by_taps(made, way, row_major("y", y, _volume(y.shape)), weight, True, bias, out)
    arrays = row_major("y", y, made.y), row_major("weight", weight, made.weight)
    return Launches([(kernels.convolve_back, *arrays, bias, Written(0, made.x), *made.options)], [out])


def _products_by_taps(
    made: _Geometry, way: ByTaps, volume: Any, weight: Layout, turned: bool, bias: Any, out: Layout
) -> Launches:  # fmt: skip
    """The convolution of ``volume``; turned: by weights turned, which is the transpose of another."""
    taps, shape = intern(out.numpy_dtype, way.shape), (out.shape[0], *way.shape[1:3], *way.places)
    weights = row_major("weight", weight, made.split)
    products = way.products, volume, Written(1), bias, Written(0, shape), *way.options
    if way.mixed:
        products = *products, row_major("weight", weight, made.weight), turned, *made.options
    launches: list[tuple[Any, ...]] = [(way.split, weights, turned, Written(1)), products]
    if turned and not way.mixed:
        launches.append((kernels.add_unbounded, volume, weights, Written(0, made.x), made.numbers))
    return Launches(launches, [out, taps])


def _bias(layout: Layout | None, out: Layout) -> Any:
    return _no_bias(out.numpy_dtype) if layout is None else row_major("bias", layout, layout.shape)


def _back_reference(y: Any, weight: Any, bias: Any, size: Any, stride: Any, padding: Any, dilation: Any,
                    groups: int) -> Any:  # fmt: skip
    shape = len(y), groups * weight.shape[1], *size
    options = stride, padding, dilation, groups
    rows = np.stack([_reference(one.reshape(shape[1:])[None], weight, None, *options).reshape(-1)
                     for one in np.eye(math.prod(shape[1:]))])  # fmt: skip
    out = (y.reshape(len(y), -1) @ rows.T).reshape(shape)
    return out if bias is None else out + bias.reshape(-1, *[1] * len(size))


class ConvInput(Structured):
    """The transpose of ``Conv`` in ``x``: of ``y`` (n, o, *places), as (n, c, *size), plus ``bias`` (c)."""

    name, grad_name, batch = "_convolve_back", "ConvolutionBackward0", _batched
    samples = cases(
        lambda: (draw(2, 3, 2), draw(3, 2, 3), draw(2), (4,), *_ONE, 1),
        lambda: (draw(1, 2, 3, 1), draw(2, 2, 2, 2), None, (4, 3), *_TWO, 2),
    )
    reference = _back_reference

    def plan(y_layout, weight_layout, bias_layout=None, size=(), stride=(), padding=(), dilation=(), groups=1):
        y, weight = y_layout.shape, weight_layout.shape
        out = intern(y_layout.numpy_dtype, (y[0], groups * weight[1], *size), None, y_layout.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        if not y_layout.numel or not weight_layout.numel:
            return lambda *_: zeros_of(out)
        made = _Geometry(out.shape, weight, y, stride, padding, dilation, groups, out.numpy_dtype)
        launches = _products_back(made, y_layout, weight_layout, _bias(bias_layout, out), out)
        format_of = y_layout if channels_come_last(y_layout) else weight_layout
        return in_format_of(format_of, launches, y=y_layout, weight=weight_layout, bias=bias_layout)

    def grad_y(g, y_layout, weight, stride, padding, dilation, groups):
        return Conv.apply(g, conj(weight), None, stride, padding, dilation, groups, tuple(y_layout.shape[2:]))

    def grad_weight(g, y, weight_layout, stride, padding, dilation, groups):
        return ConvWeight.apply(conj(y), g, tuple(weight_layout.shape[2:]), stride, padding, dilation, groups)

    def grad_bias(g):
        return _over_channels(g)


def _weight_reference(y: Any, x: Any, width: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    shape = y.shape[1], x.shape[1] // groups, *width
    options = stride, padding, dilation, groups
    values = [(_reference(x, one.reshape(shape), None, *options) * y).sum() for one in np.eye(math.prod(shape))]
    return np.array(values).reshape(shape)


class ConvWeight(Structured):
    """The transpose of ``Conv`` in ``weight``: (o, c / groups, *width), of ``y`` (n, o, *places) and ``x``."""

    name, grad_name, batch, linear = "_convolve_weight", "ConvolutionBackwardBackward0", _batched, ("y", "x")
    samples = cases(
        lambda: (draw(2, 3, 2), draw(2, 2, 4), (3,), *_ONE, 1),
        lambda: (draw(1, 2, 3, 1), draw(1, 4, 4, 3), (2, 2), *_TWO, 2),
    )
    reference = _weight_reference

    def plan(y_layout, x_layout, width, stride, padding, dilation, groups):
        y, x = y_layout.shape, x_layout.shape
        out = intern(y_layout.numpy_dtype, (y[1], x[1] // groups, *width), None, y_layout.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        if not y_layout.numel or not x_layout.numel:
            return lambda *_: zeros_of(out)
        made = _Geometry(x, out.shape, y, stride, padding, dilation, groups, out.numpy_dtype)
        pieces = min(x[0], _PIECES) if y_layout.numel * made.rows > 1 << 21 else 1
        if way := made.by_taps():
            parts, *shares = _parts_and_shares(pieces, way.shape, out.numpy_dtype) if way.shared else [pieces]
            arrays = row_major("y", y_layout, _volume(y)), row_major("x", x_layout, made.x)
            several, rest = intern(out.numpy_dtype, (parts, *way.shape)), math.prod(way.shape[1:])
            added = way.join, Written(1, (parts, way.shape[0], rest)), Written(0, (rest, out.numel // rest))
            columns = row_major("y", y_layout, made.y), row_major("x", x_layout, made.x)
            bounded = kernels.bounded_weight_sums, *columns, Written(0, (1, *made.weight)), *made.options
            summed = way.sums, *arrays, Written(1), *way.options, *shares
            return Launches([summed, added, bounded], [out, several])
        parts, *shares = _parts_and_shares(pieces, made.weight, out.numpy_dtype)
        arrays, options = (row_major("y", y_layout, made.y), row_major("x", x_layout, made.x)), (*made.options, *shares)
        if parts == 1:
            return Launches([(kernels.weight_sums, *arrays, Written(0, (1, *made.weight)), *options)], [out])
        several = intern(out.numpy_dtype, (parts, *made.weight))
        added = sum_columns, Written(1, (1, parts, out.numel)), Written(0, (1, out.numel))
        return Launches([(kernels.weight_sums, *arrays, Written(1), *options), added], [out, several])

    def grad_y(g, y_layout, x, stride, padding, dilation, groups):
        return Conv.apply(conj(x), g, None, stride, padding, dilation, groups, tuple(y_layout.shape[2:]))

    def grad_x(g, y, x_layout, stride, padding, dilation, groups):
        return ConvInput.apply(conj(y), g, None, tuple(x_layout.shape[2:]), stride, padding, dilation, groups)
