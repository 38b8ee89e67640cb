"""Layer norm and group norm: rows brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import float32
from jitgrad.core.errors import expected_scalar_type, not_implemented_for
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import CAPACITY, Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.memory_formats import channels_come_last, following
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Number, Read, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import float_argument, ints_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import norm as kernels
from jitgrad.kernels.loops.reduction import sum_columns
from jitgrad.kernels.past_caches import STREAMED_BYTES, STREAMED_ROW
from jitgrad.ops.nn.mixed_norm import in_float32, mixes
from jitgrad.ops.reduction.reduction_plan import CHUNKS, unrecorded
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.expand import summed_to

__all__ = [
    "SavedStatistics", "a_channel", "beside_channels", "check_mixed", "group_norm", "layer_norm", "rms_norm", "scaled",
    "slope", "standardized", "values_of",
]  # fmt: skip


Blocks = tuple[int, int, int]  # (outer, groups, n): the rows of an array, each of n elements


class SavedStatistics:
    """What forward measured and backward needs again: means and inverse standard deviations, unrecorded.

    An argument of the op that forward fills in: so the node keeps it, and it is no result of the op. Without
    ``rstd`` where forward did not run, since a checkpoint kept the result; backward then measures again.
    """

    __slots__ = ("mean", "rstd")

    mean: Any
    rstd: Any


def values_of(x: Tensor, shape: Sequence[int]) -> Any:
    """The values of a tensor as a row-major array of this shape."""
    return contiguous(unrecorded(x))._data.reshape(shape)


_NOT_FLOAT = "expect parameter to have scalar type of Float"


def check_mixed(x: Layout, *parameters: Layout | None) -> None:
    """RuntimeError for parameters of another dtype than the input's."""
    dtype, found = x.dtype, [p.dtype for p in parameters if p is not None]
    if found and found[0] is not dtype:
        alike = all(other is float32 for other in found)
        raise RuntimeError(
            f"mixed dtype (CPU): {'all inputs must share same datatype.' if alike else _NOT_FLOAT}"
        )
    for other in found:
        if other is not dtype:
            raise expected_scalar_type(dtype, other)


def standardized(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean) * rstd and rstd = 1 / sqrt(variance + eps), both over ``dims``, in differentiable ops."""
    centered = x - x.mean(dims, True)
    rstd = table.rsqrt(table.pow_number(centered, 2).mean(dims, True) + eps)
    return centered * rstd, rstd


def slope(g: Tensor, normal: Tensor, rstd: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The gradient of ``standardized``, whose results are ``normal`` and ``rstd``, with respect to x."""
    return (g - g.mean(dims, True) - normal * (g * normal).mean(dims, True)) * rstd


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * weight + bias, each left out if it is None."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


# -- of rows: layer norm and group norm -----------------------------------------------------------------


class RowNorm(Structured, abstract=True):
    """(x - mean) / sqrt(variance + eps) * weight + bias, with the mean and the variance of each row of x.

    ``blocks`` are sizes (outer, groups, n) into which x divides: n elements to a row. ``broadcast`` is the shape in
    which weight and bias broadcast to x; it has as many elements as each of them.
    """

    def forward(x, weight, bias, blocks, broadcast, eps=1e-5, statistics=None):
        out, mean, rstd = _normalized_rows(x, weight, bias, blocks, eps)
        if statistics is not None:
            statistics.mean, statistics.rstd = mean, rstd
        return out

    def grad_x(g, x, weight, blocks, broadcast, eps):
        dtype = x._layout.dtype
        g, x, weight = (p if p is None else cast(p, dtype.compute) for p in (g, x, weight))
        normal, rstd = standardized(x.reshape(blocks), (2,), eps)
        g = g if weight is None else g * weight.reshape(broadcast)
        return cast(slope(g.reshape(blocks), normal, rstd, (2,)).reshape(x.shape), dtype)

    def grad_weight(g, x, weight_layout, blocks, broadcast, eps):
        dtype = x._layout.dtype
        g, x = cast(g, dtype.compute), cast(x, dtype.compute)
        normal, _ = standardized(x.reshape(blocks), (2,), eps)
        return cast(summed_to(g * normal.reshape(x.shape), broadcast).reshape(weight_layout.shape), dtype)

    def grad_bias(g, bias_layout, broadcast):
        return summed_to(g, broadcast).reshape(bias_layout.shape)

    def kernels(wants, g, x, weight, weight_layout, bias_layout, blocks, eps, statistics):
        if statistics is None or not hasattr(statistics, "rstd"):
            _, mean, rstd = _normalized_rows(unrecorded(x), None, None, blocks, eps)
        else:
            mean, rstd = statistics.mean, statistics.rstd
        return _row_gradients(g, x, weight, mean, rstd, blocks, weight_layout, bias_layout, wants)

    def reference(x, weight, bias, blocks, broadcast, eps=1e-5):
        rows = x.reshape(blocks)
        centered = rows - rows.mean(2, keepdims=True)
        normal = (centered / np.sqrt((centered**2).mean(2, keepdims=True) + eps)).reshape(x.shape)
        weight, bias = (p if p is None else p.reshape(broadcast) for p in (weight, bias))
        return normal * (1 if weight is None else weight) + (0 if bias is None else bias)


def _per_row(name: str, parameter: Layout | None, x: Layout, sizes: tuple[int, int], value: float) -> Any:
    """A weight or bias, ``value`` for none, as an array (groups, n); one of a value a channel is repeated."""
    if parameter is None:
        return filled(intern(x.numpy_dtype, sizes), value)._data
    if parameter.numel == math.prod(sizes):
        return row_major(name, parameter, sizes)
    return Read(name, lambda p: _repeated(values_of(p, (-1,)), sizes))


def _repeated(channels: Any, sizes: tuple[int, int]) -> Any:
    """An array of ``sizes`` in which each of some values, one a channel, stands as often as it has places."""
    repeated = np.empty(sizes, channels.dtype)
    launch(kernels.repeat_each, channels, repeated.reshape(channels.size, -1))
    return repeated


@planned("x", "weight?", "bias?", numbers=("eps",))
def _normalized_rows(x, weight, bias, blocks, eps):
    """(results, means, inverse standard deviations), unrecorded; the latter two are of shape (outer, groups)."""
    dtype, sizes = x.numpy_dtype, blocks[1:]
    layouts = [intern(dtype, x.shape), intern(dtype, blocks[:2]), intern(dtype, blocks[:2])]
    if not x.numel:
        return lambda *_: tuple([wrap(empty_for(layout), layout) for layout in layouts])
    parameters = _per_row("weight", weight, x, sizes, 1), _per_row("bias", bias, x, sizes, 0)
    arrays = row_major("x", x, blocks), *parameters, Written(0, blocks), Written(1), Written(2)
    return Launches([(kernels.normalize_rows, *arrays, Number("eps"))], layouts, 3)


@planned("g", "x", "weight?", "mean", "rstd")
def _row_gradients(g, x, weight, mean, rstd, blocks, weight_layout, bias_layout, wants):
    """{input: gradient}, of the inputs ``wants``."""
    sizes, dtype = blocks[1:], g.numpy_dtype
    known = row_major("g", g, blocks), row_major("x", x, blocks), Read("mean"), Read("rstd")
    shapes = {"x": x.shape, "weight": sizes, "bias": sizes}
    wanted = [n for n in shapes if n in wants]
    places = {n: k for k, n in enumerate([*wanted, *(n for n in shapes if n not in wants)])}
    layouts = [intern(x.numpy_dtype if n == "x" else dtype, shapes[n]) for n in places]
    launches, slopes = [], None
    if "x" in wants and x.numel:
        slopes = _per_row("weight", weight, x, sizes, 1), places["x"]
    if "weight" in wants or "bias" in wants:  # both also where one is wanted: they share the pass over g
        launches += _sums(g, x, blocks, slopes, (places["weight"], places["bias"]), layouts)
    elif slopes is None:
        return lambda *_: {"x": wrap(empty_for(layouts[0]), layouts[0])}  # nothing to compute
    else:
        launches.append(_slopes(known, slopes, blocks))

    def results(*found: Tensor) -> dict[str, Tensor]:
        every = dict(zip(wanted, found, strict=True))
        for name, layout in (("weight", weight_layout), ("bias", bias_layout)):
            if name in every and layout.shape != sizes:
                every[name] = _shaped(every[name], layout)
        return every

    return Launches(launches, layouts, len(wanted), results)


# Rows of which no more than CHUNKS chunks are summed apart, for several threads.
_MANY_ROWS = 512


def _slopes(known: Sequence[Any], slopes: tuple[Any, int], blocks: Blocks) -> tuple[Any, ...]:
    """The launch that writes the gradient of x; slopes: the weight, and the number of the new array."""
    return kernels.row_gradient, *known, slopes[0], Written(slopes[1], blocks)


def _sums(
    g: Layout, x: Layout, blocks: Blocks, slopes: tuple[Any, int] | None, places: tuple[int, int],
    layouts: list[Layout],
) -> list[Any]:  # fmt: skip
    """Launches that write the gradients of weight and bias to the new arrays ``places``, and ``slopes`` if wanted.

    The layouts of working memory are added to ``layouts``.
    """
    # By the number of rows alone: sums depend on how they are cut, and should be the same on any number of threads.
    chunks = math.gcd(blocks[0], CHUNKS) if blocks[0] >= _MANY_ROWS else 1
    rows, sizes = blocks[0] // chunks, blocks[1:]
    whole, each, totals = (chunks, rows, *sizes), (chunks, rows, blocks[1]), (chunks, *sizes)
    known = row_major("g", g, whole), row_major("x", x, whole), Read("mean", each), Read("rstd", each)
    if chunks == 1:
        one = row_major("g", g, blocks), row_major("x", x, blocks), Read("mean"), Read("rstd")
        first = [] if slopes is None else [_slopes(one, slopes, blocks)]
        return [*first, (kernels.row_sums, *known, *(Written(p, totals) for p in places))]
    partial = [Written(len(layouts) + k, totals) for k in range(2)]
    layouts += [intern(g.numpy_dtype, totals)] * 2
    flat = math.prod(sizes)
    summed = [(sum_columns, Written(p.number, (1, chunks, flat)), Written(place, (1, flat)))
              for p, place in zip(partial, places, strict=True)]  # fmt: skip
    if slopes is None:
        return [(kernels.row_sums, *known, *partial), *summed]
    past = 3 * x.numel * g.numpy_dtype.itemsize >= STREAMED_BYTES and sizes[-1] * g.numpy_dtype.itemsize >= STREAMED_ROW
    return [(kernels.row_gradients, *known, slopes[0], past, Written(slopes[1], whole), *partial), *summed]


def _shaped(total: Tensor, layout: Layout) -> Tensor:
    """The gradient of a parameter, given as (groups, n), in its shape; of one value a channel summed over places."""
    if layout.numel != total._layout.numel:
        total = total.reshape(layout.numel, -1).sum(1)
    return wrap(total._data.reshape(layout.shape), intern(total._layout.numpy_dtype, layout.shape))


def _row_norm(op: type[RowNorm], x: Tensor, weight: Any, bias: Any, blocks: Blocks, broadcast: Any, eps: float
              ) -> Tensor:  # fmt: skip
    """Apply layer or group norm; under a transform as ops that each transform knows, of halves in float32."""
    if not grad_state.levels:
        return op.apply(x, weight, bias, blocks, broadcast, eps, SavedStatistics())
    dtype = x._layout.dtype
    normal = standardized(cast(x, dtype.compute).reshape(blocks), (2,), eps)[0].reshape(x.shape)
    scales = [None if p is None else cast(p, dtype.compute).reshape(broadcast) for p in (weight, bias)]
    return cast(scaled(normal, *scales), dtype)


class NativeLayerNorm(RowNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dims, those of weight and bias."""

    samples = cases(
        lambda: (draw(3, 4), draw(4, seed=1), draw(4, seed=2), (3, 1, 4), (4,)),
        lambda: (draw(2, 3, 4), draw(3, 4, seed=1), None, (2, 1, 12), (3, 4)),
        lambda: (draw(4, 3).t(), None, None, (3, 1, 4), (4,), 0.1),
    )


class NativeGroupNorm(RowNorm):
    """(x - mean) / sqrt(variance + eps) over each of some groups of channels, * weight + bias of each channel."""

    def forward(x, weight, bias, blocks, broadcast, eps=1e-5, statistics=None):
        return following(x._layout, RowNorm.forward(x, weight, bias, blocks, broadcast, eps, statistics))

    def kernels(wants, g, x, weight, weight_layout, bias_layout, blocks, eps, statistics):
        found = RowNorm.kernels(wants, g, x, weight, weight_layout, bias_layout, blocks, eps, statistics)
        return {name: following(x._layout, made) if name == "x" else made for name, made in found.items()}

    samples = cases(
        lambda: (draw(2, 4, 3), draw(4, seed=1), draw(4, seed=2), (2, 2, 6), (4, 1)),
        lambda: (draw(3, 2), None, draw(2, seed=2), (3, 1, 2), (2,)),
        lambda: (draw(3, 2, 2, 2).transpose(2, 3), draw(2, seed=1), None, (3, 1, 8), (2, 1, 1), 0.1),
    )


def _shape_of(op: str, given: Any) -> tuple[int, ...]:
    return ints_argument(op, "normalized_shape", 2, given)


def _check_shapes(shape: tuple[int, ...], **parameters: Layout | None) -> None:
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, p in parameters.items():
        if p is not None and p.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(p.shape)} and "
                f"normalized_shape = {list(shape)}"
            )


@functools.lru_cache(CAPACITY)
def _layer_blocks(x: Layout, shape: tuple[int, ...], weight: Layout | None, bias: Layout | None) -> Blocks:
    """The rows of ``x`` that are normalised over its last dims, of ``shape``; RuntimeError for what doesn't fit."""
    _check_shapes(shape, weight=weight, bias=bias)
    if x.shape[-len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but "
            f"got input of size{list(x.shape)}"
        )
    check_mixed(x, weight, bias)  # before the dtype: integers with parameters of floats are a mixture
    if not x.dtype.is_floating_point:
        raise not_implemented_for("LayerNormKernelImpl", x.dtype)
    return math.prod(x.shape[: -len(shape)]), 1, math.prod(shape)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the last dims of an input.

    These dims, and weight and bias, are of ``normalized_shape``. RuntimeError for shapes and dtypes that don't
    fit, NotImplementedError for integers.
    """
    shape = _shape_of("layer_norm", normalized_shape)
    if type(eps) is not float:
        eps = float_argument("layer_norm", "eps", 5, eps)
    if input._layout.special and mixes(input, weight, bias):
        return in_float32(lambda x: layer_norm(x, shape, weight, bias, eps), input)
    blocks = _layer_blocks(
        input._layout, shape, None if weight is None else weight._layout, None if bias is None else bias._layout
    )
    return _row_norm(NativeLayerNorm, input, weight, bias, blocks, shape, eps)


public(layer_norm, method_too=False)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dims, which are of ``normalized_shape``.

    ``eps`` is by default that of the dtype. RuntimeError, ValueError for shapes that don't fit.
    """
    shape = _shape_of("rms_norm", normalized_shape)
    _check_shapes(shape, weight=None if weight is None else weight._layout)
    if input.ndim < len(shape):
        raise ValueError(f"Input tensor must have at least {len(shape)} dimensions, but got {input.ndim}")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{', '.join(map(str, shape))}], but "
            f"got input of size{list(input.shape)}"
        )
    if input._layout.dtype.category < 2:
        raise not_implemented_for("rms_norm", input.dtype)
    smallest = input._layout.dtype.compute.limits.eps
    eps = float(smallest) if eps is None else float_argument("rms_norm", "eps", 4, eps)
    wide = cast(input, input._layout.dtype.compute)
    wide = wide if channels_come_last(wide._layout) else contiguous(wide)  # PyTorch's result is in either order
    wide = wide * (wide.square().mean(tuple(range(-len(shape), 0)), True) + eps).rsqrt()
    return cast(scaled(wide, weight, None), input._layout.dtype)


public(rms_norm, method_too=False)


# -- over groups of channels --------------------------------------------------------------------------


def a_channel(p: Any, x: Tensor) -> Any:
    """One value a channel in a shape that broadcasts to that of ``x``, (n, channels, ...); None for None."""
    return p if p is None else p.reshape(-1, *[1] * (x.ndim - 2))


def beside_channels(x: Tensor) -> tuple[int, ...]:
    """All dims but dim 1, that of the channels."""
    return tuple([d for d in range(x.ndim) if d != 1])


@functools.lru_cache(CAPACITY)
def _group_blocks(x: Layout, groups: int, weight: Layout | None, bias: Layout | None) -> Blocks:
    """The rows of ``x`` that are normalised over ``groups`` of its channels; RuntimeError for what doesn't fit."""
    if x.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}")
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if x.shape[1] % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(x.shape)} and num_groups={groups}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and p.shape != (x.shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(p.shape)} and input of shape {list(x.shape)}"
            )
    check_mixed(x, weight, bias)
    if not x.dtype.is_floating_point:
        raise not_implemented_for("GroupNormKernelImpl", x.dtype)
    return x.shape[0], groups, math.prod(x.shape[1:]) // groups


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) for input (n, channels, *), over each of ``num_groups`` groups of channels.

    Times weight, plus bias, of one value a channel. RuntimeError for shapes and dtypes that don't fit.
    """
    if mixes(input, weight, bias):
        return in_float32(lambda x: group_norm(x, num_groups, weight, bias, eps), input)
    x, parameters = input._layout, (p if p is None else p._layout for p in (weight, bias))
    blocks = _group_blocks(x, num_groups, *parameters)
    eps = float_argument("group_norm", "eps", 5, eps)
    return _row_norm(NativeGroupNorm, input, weight, bias, blocks, (x.shape[1], *[1] * (x.ndim - 2)), eps)


public(group_norm, method_too=False)
