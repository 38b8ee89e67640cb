"""Layer norm and group norm: rows brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import float32
from jitgrad.core.errors import expected_scalar_type, not_implemented_for
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import intern
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import norm as kernels
from jitgrad.ops.creation.constants import full
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__ = [
    "a_channel", "beside_channels", "check_mixed", "group_norm", "layer_norm", "rms_norm", "scaled", "slope",
    "values_of",
]  # fmt: skip


class SavedStatistics:
    """What forward found and backward wants to know: arrays of means and of inverse standard deviations."""

    __slots__ = ("mean", "rstd")

    mean: Any
    rstd: Any


def values_of(x: Tensor, shape: Sequence[int]) -> Any:
    """The values of a tensor as a row-major array of this shape."""
    return contiguous(unrecorded(x))._data.reshape(shape)


_NOT_FLOAT = "expect parameter to have scalar type of Float"


def check_mixed(x: Tensor, *parameters: Tensor | None) -> None:
    """RuntimeError, in PyTorch's words, for parameters of another dtype than the input's."""
    dtype, found = x._layout.dtype, [p._layout.dtype for p in parameters if p is not None]
    if found and found[0] is not dtype:
        alike = all(other is float32 for other in found)
        raise RuntimeError(
            f"mixed dtype (CPU): {'all inputs must share same datatype.' if alike else _NOT_FLOAT}"
        )
    for other in found:
        if other is not dtype:
            raise expected_scalar_type(dtype, other)


def _filled(weight: Tensor | None, x: Tensor, shape: tuple[int, int], value: float) -> Any:
    """A weight, or what stands for none, as an array (groups, n): one of a value a channel is repeated."""
    if weight is None:
        return full(shape, value, dtype=x._layout.dtype)._data
    if weight._layout.numel == math.prod(shape):
        return values_of(weight, shape)
    channels = weight._layout.numel
    inner = math.prod(shape) // channels
    return values_of(unrecorded(weight).reshape(channels, 1).expand(channels, inner), shape)


def _forward(x: Tensor, weight: Any, bias: Any, blocks: tuple[int, int, int], eps: float,
             statistics: SavedStatistics) -> Tensor:  # fmt: skip
    layout = intern(x._layout.numpy_dtype, x._layout.shape)
    data = np.empty(layout.shape, layout.numpy_dtype)
    statistics.mean, statistics.rstd = (np.empty(blocks[:2], layout.numpy_dtype) for _ in range(2))
    if layout.numel:
        parameters = _filled(weight, x, blocks[1:], 1), _filled(bias, x, blocks[1:], 0)
        arrays = values_of(x, blocks), *parameters, data.reshape(blocks), statistics.mean, statistics.rstd
        launch(kernels.normalize_rows, *arrays, eps)
    return wrap(data, layout)


def _backward(
    wants: tuple[str, ...], g: Tensor, x: Tensor, weight: Any, sizes: Any, blocks: tuple[int, int, int], eps: float,
    statistics: SavedStatistics | None,
) -> dict[str, Tensor]:  # fmt: skip
    """The gradients; ``sizes`` is the shape of weight and bias."""
    if statistics is None or not hasattr(statistics, "mean"):
        statistics = SavedStatistics()
        _forward(unrecorded(x), None, None, blocks, eps, statistics)
    layout = intern(x._layout.numpy_dtype, x._layout.shape)
    known = values_of(g, blocks), values_of(x, blocks), statistics.mean, statistics.rstd
    found = {}
    if "x" in wants:
        data = np.empty(layout.shape, layout.numpy_dtype)
        if layout.numel:
            launch(kernels.row_gradient, *known, _filled(weight, x, blocks[1:], 1), data.reshape(blocks))
        found["x"] = wrap(data, layout)
    if "weight" in wants or "bias" in wants:
        rows = intern(layout.numpy_dtype, blocks[1:])
        sums = [wrap(np.empty(blocks[1:], layout.numpy_dtype), rows) for _ in range(2)]
        launch(kernels.row_sums, *known, *[s._data for s in sums])
        for name, total in zip(("weight", "bias"), sums, strict=True):
            if math.prod(sizes) != math.prod(blocks[1:]):  # one value a channel
                total = total.reshape(math.prod(sizes), -1).sum(1)
            found[name] = total.reshape(sizes)
    return found


def _normal(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean) / standard deviation over dims, and 1 / the standard deviation, in differentiable ops."""
    centered = x - x.mean(dims, True)
    rstd = (centered.square().mean(dims, True) + eps).rsqrt()
    return centered * rstd, rstd


def slope(g: Tensor, normal: Tensor, rstd: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The gradient of ``_normal``."""
    return (g - g.mean(dims, True) - normal * (g * normal).mean(dims, True)) * rstd


# -- over the last dims -------------------------------------------------------------------------------


def _last(x: Tensor, count: int) -> tuple[int, int, int]:
    shape = x._layout.shape
    kept = len(shape) - count
    return math.prod(shape[:kept]), 1, math.prod(shape[kept:])


def _dims(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def _layer_samples() -> Iterator[Any]:
    yield (draw(3, 4), draw(4, seed=1), draw(4, seed=2), 1), {}
    yield (draw(2, 3, 4), draw(3, 4, seed=1), None, 2), {}
    yield (draw(4, 3).t(), None, None, 1), {"eps": 0.1}


class NativeLayerNorm(Structured):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last ``count`` dims."""

    samples = staticmethod(_layer_samples)

    def forward(x, weight, bias, count, eps=1e-5, statistics=None):
        return _forward(x, weight, bias, _last(x, count), eps, SavedStatistics() if statistics is None else statistics)

    def grad_x(g, x, weight, count, eps):
        normal, rstd = _normal(x, _dims(count), eps)
        return slope(g if weight is None else g * weight, normal, rstd, _dims(count))

    def grad_weight(g, x, count, eps):
        return (g * _normal(x, _dims(count), eps)[0]).sum_to_size(x.shape[-count:])

    def grad_bias(g, bias_layout):
        return g.sum_to_size(bias_layout.shape)

    def kernels(wants, g, x, weight, count, eps, statistics):
        return _backward(wants, g, x, weight, x.shape[-count:], _last(x, count), eps, statistics)


def _shape_of(op: str, given: Any) -> tuple[int, ...]:
    if not isinstance(given, (tuple, list)):
        raise TypeError(
            f"{op}(): argument 'normalized_shape' (position 2) must be tuple of ints, not {type(given).__name__}"
        )
    return tuple(given)


def _check_shapes(shape: tuple[int, ...], **parameters: Tensor | None) -> None:
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, p in parameters.items():
        if p is not None and tuple(p.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(p.shape)} and "
                f"normalized_shape = {list(shape)}"
            )


def _check_layer(x: Tensor, shape: tuple[int, ...], weight: Tensor | None, bias: Tensor | None) -> None:
    _check_shapes(shape, weight=weight, bias=bias)
    if tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but "
            f"got input of size{list(x.shape)}"
        )
    if not x.dtype.is_floating_point:
        raise not_implemented_for("LayerNormKernelImpl", x.dtype)
    check_mixed(x, weight, bias)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, mean and variance over the last dims of an input.

    These dims, and weight and bias, are of ``normalized_shape``. RuntimeError for shapes and dtypes that don't
    fit, NotImplementedError for integers.
    """
    shape = _shape_of("layer_norm", normalized_shape)
    _check_layer(input, shape, weight, bias)
    if grad_state.levels:
        return scaled(_normal(input, _dims(len(shape)), eps)[0], weight, bias)
    return NativeLayerNorm.apply(input, weight, bias, len(shape), eps, SavedStatistics())


public(layer_norm, method_too=False)


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * weight + bias, each left out if it is None."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dims, which are of ``normalized_shape``.

    ``eps`` is by default that of the dtype. RuntimeError, ValueError for shapes that don't fit.
    """
    shape = _shape_of("rms_norm", normalized_shape)
    _check_shapes(shape, weight=weight)
    if input.ndim < len(shape):
        raise ValueError(f"Input tensor must have at least {len(shape)} dimensions, but got {input.ndim}")
    if tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{', '.join(map(str, shape))}], but "
            f"got input of size{list(input.shape)}"
        )
    if input._layout.dtype.category < 2:
        raise not_implemented_for("rms_norm", input.dtype)
    eps = float(np.finfo(input._layout.dtype.to_real().numpy).eps) if eps is None else eps
    return scaled(input * (input.square().mean(_dims(len(shape)), True) + eps).rsqrt(), weight, None)


public(rms_norm, method_too=False)


# -- over groups of channels --------------------------------------------------------------------------


def _groups(x: Tensor, groups: int) -> tuple[int, int, int]:
    shape = x._layout.shape
    return shape[0], groups, math.prod(shape[1:]) // groups


def _parted(x: Tensor, groups: int) -> Tensor:
    return x.reshape(_groups(x, groups))


def a_channel(p: Any, x: Tensor) -> Any:
    """A value a channel, in a shape that broadcasts; None for none."""
    return p if p is None else p.reshape(-1, *[1] * (x.ndim - 2))


def beside_channels(x: Tensor) -> tuple[int, ...]:
    """All dims but that of the channels."""
    return tuple([d for d in range(x.ndim) if d != 1])


def _group_samples() -> Iterator[Any]:
    yield (draw(2, 4, 3), draw(4, seed=1), draw(4, seed=2), 2), {}
    yield (draw(3, 2), None, draw(2, seed=2), 1), {}
    yield (draw(3, 2, 2, 2).transpose(2, 3), draw(2, seed=1), None, 1), {"eps": 0.1}


class NativeGroupNorm(Structured):
    """(x - mean) / sqrt(variance + eps) over each of ``groups`` groups of channels, * weight + bias of each channel."""

    samples = staticmethod(_group_samples)

    def forward(x, weight, bias, groups, eps=1e-5, statistics=None):
        statistics = SavedStatistics() if statistics is None else statistics
        return _forward(x, weight, bias, _groups(x, groups), eps, statistics)

    def grad_x(g, x, weight, groups, eps):
        normal, rstd = _normal(_parted(x, groups), (2,), eps)
        g = g if weight is None else g * a_channel(weight, x)
        return slope(_parted(g, groups), normal, rstd, (2,)).reshape(x.shape)

    def grad_weight(g, x, groups, eps):
        return (g * _normal(_parted(x, groups), (2,), eps)[0].reshape(x.shape)).sum(beside_channels(x))

    def grad_bias(g):
        return g.sum(beside_channels(g))

    def kernels(wants, g, x, weight, groups, eps, statistics):
        return _backward(wants, g, x, weight, (x.shape[1],), _groups(x, groups), eps, statistics)


def _check_group(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None) -> None:
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
        if p is not None and tuple(p.shape) != (x.shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(p.shape)} and input of shape {list(x.shape)}"
            )
    if not x.dtype.is_floating_point:
        raise not_implemented_for("GroupNormKernelImpl", x.dtype)
    check_mixed(x, weight, bias)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) for input (n, channels, *), over each of ``num_groups`` groups of channels.

    Times weight, plus bias, of one value a channel. RuntimeError for shapes and dtypes that don't fit.
    """
    _check_group(input, num_groups, weight, bias)
    if grad_state.levels:
        normal = _normal(_parted(input, num_groups), (2,), eps)[0].reshape(input.shape)
        return scaled(normal, a_channel(weight, input), a_channel(bias, input))
    return NativeGroupNorm.apply(input, weight, bias, num_groups, eps, SavedStatistics())


public(group_norm, method_too=False)
