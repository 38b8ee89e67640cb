"""Batch norm: channels brought to mean 0 and variance 1 over a batch, or by running averages of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.storage import count_write, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.transform_guards import writing_captured
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import copy_to_layout, preserved_layout
from jitgrad.dispatch.memory_formats import following
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Number, Read, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import norm as kernels
from jitgrad.kernels.loops.moments import squares_columns
from jitgrad.kernels.loops.reduction import divide, sum_columns
from jitgrad.ops.nn.mixed_norm import in_float32, mixes
from jitgrad.ops.nn.norm import (
    SavedStatistics,
    a_channel,
    beside_channels,
    check_mixed,
    scaled,
    slope,
    standardized,
    values_of,
)  # fmt: skip
from jitgrad.ops.nn.taps import in_format_of
from jitgrad.ops.pointwise.where_clamp import constant_in
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.reduction.variance import var_mean

__all__ = ["batch_norm", "instance_norm"]


class BatchStatistics(SavedStatistics):
    """Arrays of means, variances and inverse standard deviations, one value a channel.

    ``when_measured`` is called once, as soon as forward has filled them in. Not after forward, for a checkpoint that
    computes forward again may stop it when its node is made.
    """

    __slots__ = ("var", "when_measured")

    var: Any

    def __init__(self, when_measured: Callable[[BatchStatistics], None] | None = None):
        self.when_measured = when_measured

    def keep(self, mean: Tensor, var: Tensor, rstd: Tensor) -> None:
        """Take these as the statistics."""
        self.mean, self.var, self.rstd = mean._data, var._data, rstd._data

    def report(self) -> None:
        """Call ``when_measured``, the first time."""
        if self.when_measured is not None:
            self.when_measured(self)
            self.when_measured = None


def _blocks(x: Layout) -> tuple[int, ...]:
    """(outer, channels, inner), or (outer, channels) where a channel has one place."""
    outer, channels, *places = x.shape
    inner = math.prod(places)
    return (outer, channels) if inner == 1 else (outer, channels, inner)


def _measure(x: Tensor, mean: Tensor | None, var: Tensor | None, eps: float, statistics: BatchStatistics) -> None:
    """Fill in ``statistics``: with the mean and the variance given, or with those of the batch."""
    if mean is None or var is None:
        statistics.keep(*_normalized(unrecorded(x), None, None, eps)[1:])
        return
    channels, dtype = x._layout.shape[1], x._layout.numpy_dtype
    statistics.mean, statistics.var = values_of(mean, (channels,)), values_of(var, (channels,))
    statistics.rstd = np.empty(channels, dtype)
    launch(kernels.inverse_root, statistics.var, statistics.rstd, eps)


def _per_channel(name: str, p: Layout | None, x: Layout, value: float) -> Any:
    """Tensor ``name`` as a kernel's argument of one value a channel; ``value`` where there is none."""
    channels = x.shape[1]
    return np.full(channels, value, x.numpy_dtype) if p is None else row_major(name, p, (channels,))


_FEW = 1 << 13  # elements that are measured in one pass for each moment


@planned("x", "weight?", "bias?", numbers=("eps",))
def _normalized(x, weight, bias, eps):
    """(results, means, variances, inverse standard deviations), unrecorded, by the moments of the batch."""
    blocks, channels = _blocks(x), intern(x.numpy_dtype, x.shape[1:2])
    row, columns = (1, blocks[1]), len(blocks) == 2
    source, mean, var, rstd = row_major("x", x, blocks), Written(1), Written(2), Written(3)
    if columns and x.numel <= _FEW:
        measure = [(kernels.column_moments, source, mean, var)]
    elif columns:
        rows = row_major("x", x, (1, *blocks))
        measure = [
            (sum_columns, rows, Written(1, row)),
            (divide, mean, blocks[0]),
            (squares_columns, rows, Written(1, row), Written(2, row)),
            (divide, var, blocks[0]),
        ]
    else:
        measure = [(kernels.channel_moments, source, mean, var)]
    parameters = _per_channel("weight", weight, x, 1), _per_channel("bias", bias, x, 0), Written(0, blocks)
    kernel = kernels.normalize_columns if columns else kernels.normalize_channels
    launches = [*measure, (kernels.inverse_root, var, rstd, Number("eps")), (kernel, source, mean, rstd, *parameters)]
    made = Launches(launches, [intern(x.numpy_dtype, x.shape), channels, channels, channels], 4)
    return made if x.contiguous else in_format_of(x, made, x=x, weight=weight, bias=bias, eps=eps)


@planned("x", "weight?", "bias?", "mean", "var", numbers=("eps",))
def _normalized_by(x, weight, bias, mean, var, eps):
    """(results, inverse standard deviations), unrecorded, by moments that are given."""
    blocks, channels, rstd = _blocks(x), intern(x.numpy_dtype, x.shape[1:2]), Written(1)
    parameters = _per_channel("weight", weight, x, 1), _per_channel("bias", bias, x, 0), Written(0, blocks)
    kernel = kernels.normalize_columns if len(blocks) == 2 else kernels.normalize_channels
    moments = [_per_channel(name, p, x, 0) for name, p in (("mean", mean), ("var", var))]
    root = kernels.inverse_root, moments[1], rstd, Number("eps")
    normalize = kernel, row_major("x", x, blocks), moments[0], rstd, *parameters
    made = Launches([root, normalize], [intern(x.numpy_dtype, x.shape), channels], 2)
    return made if x.contiguous else in_format_of(x, made, x=x, weight=weight, bias=bias, mean=mean, var=var, eps=eps)


@planned("g", "x", "weight?", "mean", "rstd")
def _gradients(g, x, weight, mean, rstd, wants, fixed):
    """{input: gradient}; ``fixed``: the moments are constants, through which no gradient flows."""
    blocks, columns = _blocks(x), x.numel == x.shape[0] * x.shape[1]
    known = row_major("g", g, blocks), row_major("x", x, blocks), Read("mean"), Read("rstd")
    launches = [(kernels.channel_sums_columns if columns else kernels.channel_sums, *known, Written(0), Written(1))]
    layouts = [intern(x.numpy_dtype, x.shape[1:2])] * 2
    if "x" in wants:
        through_moments = [_per_channel("", None, x, 0)] * 2 if fixed else [Written(0), Written(1)]
        factors = _per_channel("weight", weight, x, 1), *through_moments, Written(2, blocks)
        kernel = kernels.channel_gradient_columns if columns else kernels.channel_gradient
        launches.append((kernel, *known, *factors, x.numel // blocks[1]))
        layouts = [*layouts, intern(x.numpy_dtype, x.shape)]
    return Launches(launches, layouts, len(layouts), lambda *found: dict(zip(("weight", "bias", "x"), found)))


def _normal(x: Tensor, mean: Any, var: Any, eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean) * rstd, and rstd, in differentiable ops; of the batch's moments where ``mean`` is None."""
    if mean is None:
        return standardized(x, beside_channels(x), eps)
    rstd = table.rsqrt(a_channel(var, x) + eps)
    return (x - a_channel(mean, x)) * rstd, rstd


class NativeBatchNorm(Structured):
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel; mean and var are the batch's if not given."""

    samples = cases(
        lambda: (draw(4, 3), draw(3, seed=1), draw(3, seed=2)),
        lambda: (draw(2, 3, 4), draw(3, seed=1), draw(3, seed=2)),
        lambda: (draw(3, 2, 2, 2).transpose(0, 1), None, None, None, None, 0.1),
        lambda: (draw(4, 3), draw(3, seed=1), draw(3, seed=2), draw(3, seed=3), draw(3, low=0.5, seed=4)),
        lambda: (draw(2, 3, 2), None, draw(3, seed=2), draw(3, seed=3), draw(3, low=0.5, seed=4)),
    )

    def reference(x, weight, bias, mean=None, var=None, eps=1e-5):
        dims, shape = tuple(d for d in range(x.ndim) if d != 1), (-1, *[1] * (x.ndim - 2))
        mean, var = (x.mean(dims), x.var(dims)) if mean is None else (mean, var)
        weight, bias = 1 if weight is None else weight.reshape(shape), 0 if bias is None else bias.reshape(shape)
        return (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps) * weight + bias

    def forward(x, weight, bias, mean=None, var=None, eps=1e-5, statistics=None):
        statistics = BatchStatistics() if statistics is None else statistics
        if not x._layout.numel:
            layout = intern(x._layout.numpy_dtype, x._layout.shape)
            return wrap(empty_for(layout), layout)
        if mean is None or var is None:
            out, *measured = _normalized(x, weight, bias, eps)
            statistics.keep(*measured)
        else:
            out, rstd = _normalized_by(x, weight, bias, mean, var, eps)
            statistics.mean, statistics.var = (values_of(p, rstd._layout.shape) for p in (mean, var))
            statistics.rstd = rstd._data
        statistics.report()
        return out

    def grad_x(g, x, weight, mean, var, eps):
        normal, rstd = _normal(x, mean, var, eps)
        g = g if weight is None else g * a_channel(weight, x)
        if mean is not None:
            return constant_in(g * rstd, x)
        return slope(g, normal, rstd, beside_channels(x))

    def grad_weight(g, x, mean, var, eps):
        return (g * _normal(x, mean, var, eps)[0]).sum(beside_channels(x))

    def grad_bias(g):
        return g.sum(beside_channels(g))

    def kernels(wants, g, x, weight, mean, var, eps, statistics):
        return _backward(wants, g, x, weight, mean, var, eps, statistics) if x._layout.numel else {}


def _backward(
    wants: tuple[str, ...], g: Tensor, x: Tensor, weight: Any, mean: Any, var: Any, eps: float,
    statistics: BatchStatistics | None,
) -> dict[str, Tensor]:  # fmt: skip
    if statistics is None or not hasattr(statistics, "rstd"):
        statistics = BatchStatistics()
        _measure(x, mean, var, eps, statistics)
    per_channel = intern(x._layout.numpy_dtype, x._layout.shape[1:2])
    measured = (wrap(array, per_channel) for array in (statistics.mean, statistics.rstd))
    gradients: dict[str, Tensor] = _gradients(g, x, weight, *measured, wants, mean is not None)
    if "x" in gradients:
        gradients["x"] = following(x._layout, gradients["x"])
    return gradients


# -- with running averages ----------------------------------------------------------------------------


def _check_channels(x: Tensor) -> None:
    if x.ndim < 2 and x.shape != (0,):  # a vector of nothing counts as no samples of no channels
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")


def _check(x: Tensor, training: bool, **parameters: Tensor | None) -> None:
    if not training:
        for name in ("running_mean", "running_var"):
            if parameters[name] is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
    if (parameters["running_mean"] is None) != (parameters["running_var"] is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    channels = x.shape[1]
    for name, p in parameters.items():
        if p is not None and p.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {p.numel()}")
    if not x.dtype.is_floating_point:
        raise not_implemented_for("batch_norm", x.dtype)
    check_mixed(x._layout, *(p if p is None else p._layout for p in parameters.values()))


def _of_nothing(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """The norm of an input without elements: no averages move, and of the parameters only the first values count.

    So their number need not be that of the channels, but an IndexError says that there are none, as in PyTorch.
    """
    out = x.clone()
    out = out if weight is None else out * weight.select(0, 0)
    return out if bias is None else out + bias.select(0, 0)


_FITTING: dict[Any, bool] = cache()  # layouts, and whether one trains, of calls that were found to be right


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of input (n, channels, *).

    Training: mean and variance are the batch's, and the running ones, if given, move by ``momentum`` towards them
    (towards the unbiased variance). Else they are the running ones. RuntimeError for shapes and dtypes that don't fit.
    """
    given = running_mean, running_var, weight, bias
    known = (input._layout, training, training.__class__, *[None if p is None else p._layout for p in given])
    if known not in _FITTING:
        _check_channels(input)
        if not input._layout.numel:
            return _of_nothing(input, weight, bias)
        if mixes(input, *given):
            return in_float32(
                lambda x: batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps), input
            )
        _check(
            input, as_flag(training), running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
        )
        if training is True or training is False:
            _FITTING[known] = True
    momentum = momentum if momentum.__class__ is float else float_argument("batch_norm", "momentum", 7, momentum)
    eps = eps if eps.__class__ is float else float_argument("batch_norm", "eps", 8, eps)
    if grad_state.levels:
        return _composed(input, weight, bias, running_mean, running_var, training, momentum, eps)
    for name, p in (("running_mean", running_mean), ("running_var", running_var)):
        if p is not None and p._requires_grad and grad_state.enabled:
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input "
                "cannot have requires_grad True."
            )
    if not training:
        mean, var = running_mean, running_var
        if grad_state.enabled and any(t is not None and t._requires_grad for t in (input, weight, bias)):
            # As backward must find them: copies, since training may write to them before backward runs.
            mean, var = [copy_to_layout(t, preserved_layout(t._layout)) for t in (mean, var) if t is not None]
        return NativeBatchNorm.apply(input, weight, bias, mean, var, eps, BatchStatistics())

    def move(statistics: BatchStatistics) -> None:
        count = input._layout.numel // input._layout.shape[1]
        _move(running_mean, statistics.mean, momentum, 1.0)
        # Running variances are unbiased, a sum of squares over count - 1; the batch's is over count.
        _move(running_var, statistics.var, momentum, count / (count - 1) if count > 1 else math.nan)

    return NativeBatchNorm.apply(input, weight, bias, None, None, eps, BatchStatistics(move))


def _move(running: Tensor | None, fresh: Any, momentum: float, factor: float) -> None:
    """running = (1 - momentum) * running + momentum * factor * fresh, ``fresh`` an array of one value a channel."""
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
        with no_grad(), writing_captured():
            var, mean = var_mean(x.detach(), beside_channels(x))
            try:
                running_mean.mul_(1 - momentum).add_(mean * momentum)
                running_var.mul_(1 - momentum).add_(var * momentum)
            except RuntimeError:  # the running values are no batch, so cannot hold one for each sample
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
            with writing_captured():
                running.copy_(moved.view(n, channels).mean(0))
    return out.view(input.shape)


public(instance_norm, method_too=False)
