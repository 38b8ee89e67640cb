"""Batch norm: channels brought to mean 0 and variance 1 over a batch, or by running averages of both."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import intern
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import norm as kernels
from jitgrad.kernels.loops.moments import squares_columns
from jitgrad.kernels.loops.reduction import divide, sum_columns
from jitgrad.ops.creation.constants import full
from jitgrad.ops.nn.norm import a_channel, beside_channels, check_mixed, scaled, slope, values_of
from jitgrad.ops.reduction.variance_norm import var_mean

__all__ = ["batch_norm", "instance_norm"]


class _Notes:
    """What forward found: arrays of means, variances and inverse standard deviations, one value a channel.

    ``found`` is called once, as soon as they are there: when the node is made, a checkpoint may stop.
    """

    __slots__ = ("found", "mean", "rstd", "var")

    mean: Any
    var: Any
    rstd: Any

    def __init__(self, found: Callable[[_Notes], None] | None = None):
        self.found = found


def _blocks(x: Tensor) -> tuple[int, ...]:
    """(outer, channels, inner), or (outer, channels) where a channel has one place."""
    outer, channels, *places = x._layout.shape
    inner = math.prod(places)
    return (outer, channels) if inner == 1 else (outer, channels, inner)


def _measure(x: Tensor, mean: Tensor | None, var: Tensor | None, eps: float, notes: _Notes) -> None:
    """Note the moments: those given, or those of the batch."""
    blocks, dtype = _blocks(x), x._layout.numpy_dtype
    channels = blocks[1]
    if mean is not None and var is not None:
        notes.mean, notes.var = values_of(mean, (channels,)), values_of(var, (channels,))
    else:
        notes.mean, notes.var = np.empty(channels, dtype), np.empty(channels, dtype)
        if len(blocks) == 3:
            launch(kernels.channel_moments, values_of(x, blocks), notes.mean, notes.var)
        else:
            rows = values_of(x, (1, *blocks))
            launch(sum_columns, rows, notes.mean.reshape(1, -1))
            launch(divide, notes.mean, blocks[0])
            launch(squares_columns, rows, notes.mean.reshape(1, -1), notes.var.reshape(1, -1))
            launch(divide, notes.var, blocks[0])
    notes.rstd = np.empty(channels, dtype)
    launch(kernels.inverse_root, notes.var, notes.rstd, eps)


def _value(p: Tensor | None, x: Tensor, value: float) -> Any:
    """A value a channel as an array; ``value`` where there is none."""
    channels = x._layout.shape[1]
    return values_of(full((channels,), value, dtype=x._layout.dtype) if p is None else p, (channels,))


def _normal(x: Tensor, mean: Any, var: Any, eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean) * rstd, and rstd, in differentiable ops."""
    if mean is None:
        centered = x - x.mean(beside_channels(x), True)
        var = centered.square().mean(beside_channels(x), True)
    else:
        centered, var = x - a_channel(mean, x), a_channel(var, x)
    rstd = (var + eps).rsqrt()
    return centered * rstd, rstd


def _samples() -> Iterator[Any]:
    parameters = draw(3, seed=1), draw(3, seed=2)
    yield (draw(4, 3), *parameters), {}
    yield (draw(2, 3, 4), *parameters), {}
    yield (draw(3, 2, 2, 2).transpose(0, 1), None, None), {"eps": 0.1}
    yield (draw(4, 3), *parameters, draw(3, seed=3), draw(3, low=0.5, seed=4)), {}
    yield (draw(2, 3, 2), None, draw(3, seed=2), draw(3, seed=3), draw(3, low=0.5, seed=4)), {}


class NativeBatchNorm(Structured):
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel; mean and var are the batch's if not given."""

    samples = staticmethod(_samples)

    def forward(x, weight, bias, mean=None, var=None, eps=1e-5, notes=None):
        notes = _Notes() if notes is None else notes
        layout = intern(x._layout.numpy_dtype, x._layout.shape)
        data, blocks = np.empty(layout.shape, layout.numpy_dtype), _blocks(x)
        if layout.numel:
            _measure(x, mean, var, eps, notes)
            arrays = values_of(x, blocks), notes.mean, notes.rstd, _value(weight, x, 1), _value(bias, x, 0)
            kernel = kernels.normalize_channels if len(blocks) == 3 else kernels.normalize_columns
            launch(kernel, *arrays, data.reshape(blocks))
            if notes.found is not None:
                notes.found(notes)
                notes.found = None
        return wrap(data, layout)

    def grad_x(g, x, weight, mean, var, eps):
        normal, rstd = _normal(x, mean, var, eps)
        g = g if weight is None else g * a_channel(weight, x)
        if mean is not None:
            return g * rstd
        return slope(g, normal, rstd, beside_channels(x))

    def grad_weight(g, x, mean, var, eps):
        return (g * _normal(x, mean, var, eps)[0]).sum(beside_channels(x))

    def grad_bias(g):
        return g.sum(beside_channels(g))

    def kernels(wants, g, x, weight, mean, var, eps, notes):
        return _backward(wants, g, x, weight, mean, var, eps, notes) if x._layout.numel else {}


def _backward(
    wants: tuple[str, ...], g: Tensor, x: Tensor, weight: Any, mean: Any, var: Any, eps: float, notes: _Notes | None
) -> dict[str, Tensor]:
    if notes is None or not hasattr(notes, "rstd"):  # the result was kept by a checkpoint, forward did not run
        notes = _Notes()
        _measure(x, mean, var, eps, notes)
    blocks, layout = _blocks(x), intern(x._layout.numpy_dtype, x._layout.shape)
    columns, channels = len(blocks) == 2, intern(layout.numpy_dtype, (blocks[1],))
    slopes, xs = values_of(g, blocks), values_of(x, blocks)
    products, sums = (np.empty(blocks[1], layout.numpy_dtype) for _ in range(2))
    launch(kernels.channel_sums_columns if columns else kernels.channel_sums, slopes, xs, notes.mean, notes.rstd,
           products, sums)  # fmt: skip
    found = {"weight": wrap(products, channels), "bias": wrap(sums, channels)}
    if "x" in wants:
        data = np.empty(layout.shape, layout.numpy_dtype)
        count = layout.numel // blocks[1]
        if mean is not None:  # constants: nothing flows through them
            products, sums = (_value(None, x, 0) for _ in range(2))
        launch(kernels.channel_gradient_columns if columns else kernels.channel_gradient, slopes, xs, notes.mean,
               notes.rstd, _value(weight, x, 1), products, sums, data.reshape(blocks), count)  # fmt: skip
        found["x"] = wrap(data, layout)
    return found


# -- with running averages ----------------------------------------------------------------------------


def _check_channels(x: Tensor) -> None:
    if x.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")


def _check(x: Tensor, training: bool, **parameters: Tensor | None) -> None:
    if not training:
        for name in ("running_mean", "running_var"):
            if parameters[name] is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    if (parameters["running_mean"] is None) != (parameters["running_var"] is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    _check_channels(x)
    for name, p in parameters.items():
        if p is not None and p.numel() != x.shape[1]:
            raise RuntimeError(f"{name} should contain {x.shape[1]} elements not {p.numel()}")
    if not x.dtype.is_floating_point:
        raise not_implemented_for("batch_norm", x.dtype)
    check_mixed(x, *parameters.values())


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of input (n, channels, *).

    Training: mean and variance are the batch's, and the running ones, if given, move by ``momentum`` towards them
    (towards the unbiased variance). Else they are the running ones. RuntimeError for shapes and dtypes that don't fit.
    """
    names = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    _check(input, training, **names)
    if not isinstance(momentum, numbers.Real):
        raise TypeError(
            f"batch_norm(): argument 'momentum' (position 7) must be float, not {type(momentum).__name__}"
        )
    if grad_state.levels:
        return _composed(input, weight, bias, running_mean, running_var, training, momentum, eps)
    for name in ("running_mean", "running_var"):
        if grad_state.enabled and (p := names[name]) is not None and p._requires_grad:
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input "
                "cannot have requires_grad True."
            )
    if not training:
        return NativeBatchNorm.apply(input, weight, bias, _kept(running_mean), _kept(running_var), eps, _Notes())

    def move(notes: _Notes) -> None:
        count = input._layout.numel // input._layout.shape[1]
        _move(running_mean, notes.mean, momentum, 1.0)
        _move(running_var, notes.var, momentum, count / (count - 1) if count > 1 else math.nan)

    return NativeBatchNorm.apply(input, weight, bias, None, None, eps, _Notes(move))


def _kept(running: Any) -> Tensor:
    """A running average as backward is to find it: training may move it in between."""
    if not grad_state.enabled:
        return running
    with no_grad():
        return running.clone()


def _move(running: Tensor | None, fresh: Any, momentum: float, factor: float) -> None:
    """Move a running average towards a fresh value."""
    if running is None:
        return
    if running._layout.contiguous:
        launch(kernels.move_towards, fresh, running._data.reshape(-1), momentum, factor)
        count_write(running)
    else:
        with no_grad():
            value = wrap(fresh, intern(fresh.dtype, fresh.shape)).reshape(running.shape)
            running.copy_(running * (1 - momentum) + value * (momentum * factor))


_BATCHED = (  # the missing space is PyTorch's
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
    "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
    "False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for "
    "resources on how to patch your module to work with vmap"
)


def _composed(
    x: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Tensor:
    """Batch norm in ops that every transform knows."""
    mean, var = (None, None) if training else (running_mean, running_var)
    normal = _normal(x, mean, var, eps)[0]
    if training and running_mean is not None:
        with no_grad():
            var, mean = var_mean(x.detach(), beside_channels(x))
            try:
                running_mean.mul_(1 - momentum).add_(mean * momentum)
                running_var.mul_(1 - momentum).add_(var * momentum)
            except RuntimeError:  # one sample's place for the values of all
                raise RuntimeError(_BATCHED) from None
    return scaled(normal, a_channel(weight, x), a_channel(bias, x))


public(batch_norm, method_too=False)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Batch norm in which each channel of each sample counts as a channel; running values are samples' averages."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    _check_channels(input)
    n, channels, *places = input.shape
    many: Any = [p if p is None else p.repeat(n) for p in (weight, bias, running_mean, running_var)]
    rows = input.reshape(1, n * channels, *places)
    out = batch_norm(rows, many[0], many[1], many[2], many[3], use_input_stats, momentum, eps)
    for running, moved in ((running_mean, many[2]), (running_var, many[3])):
        if running is not None and use_input_stats and n:
            running.copy_(moved.view(n, channels).mean(0))
    return out.view(input.shape)


public(instance_norm, method_too=False)
