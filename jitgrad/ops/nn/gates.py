"""Activations with a second operand: gates, learned slopes, random slopes; and bilinear forms."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from jitgrad.core.errors import cpp_name, not_implemented_for, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.copying import copy_to_layout
from jitgrad.dispatch.drawing import fill_by, generator_for
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, planned, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.dispatch.strides import result_strides
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.elementwise import gates as rows  # declares rows of the table
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import gates as kernels
from jitgrad.ops.nn.margin_losses import at_top, functional
from jitgrad.ops.pointwise.activation import (
    celu,
    elu,
    leaky_relu,
    relu,
    selu,
    threshold,
)  # fmt: skip
from jitgrad.ops.pointwise.arithmetic import apply
from jitgrad.ops.random.random_fills import RandomFill
from jitgrad.ops.shape.copy import Contiguous
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.permute import Permute
from jitgrad.random import default_generator

__all__ = ["Glu"]


def _halves(x: Layout, dim: int) -> tuple[int, int, int]:
    """(outer, 2, n), in which dim 1 tells the halves along ``dim`` apart; RuntimeError where there are none."""
    if not x.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    d = normalize_dim(dim, x.ndim)
    if x.shape[d] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {x.shape[d]}")
    if not x.dtype.is_floating_point:
        raise not_implemented_for("glu_cpu", x.dtype)
    return math.prod(x.shape[:d]), 2, math.prod(x.shape[d:]) // 2


class Glu(Structured):
    """The first half along ``dim`` times the sigmoid of the second."""

    batch = over_dims("dim")
    samples = cases(lambda: (draw(3, 4), 1), lambda: (draw(4, 3), 0), lambda: (draw(4, 2, 3).transpose(0, 1), -2))
    reference = lambda x, dim: np.split(x, 2, dim)[0] / (1 + np.exp(-np.split(x, 2, dim)[1]))

    def plan(x_layout, dim):
        blocks, d = _halves(x_layout, dim), normalize_dim(dim, x_layout.ndim)
        shape = (*x_layout.shape[:d], x_layout.shape[d] // 2, *x_layout.shape[d + 1 :])
        half = intern(x_layout.numpy_dtype, shape, x_layout.strides, x_layout.device)
        strides = result_strides([half], shape) if x_layout.device == "cpu" else None
        out = intern(x_layout.numpy_dtype, shape, strides, x_layout.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        if not out.contiguous:
            return lambda x, *_: _gated_along(out, x, d)
        return Launches([(kernels.glu, row_major("x", x_layout, blocks), Written(0, blocks[::2]))], [out])

    def grad_x(g, x, dim):
        half = x.shape[dim] // 2
        a, b = x.narrow(dim, 0, half), x.narrow(dim, half, half)
        gate = table.sigmoid(b)
        return cat([g * gate, g * a * gate * (1 - gate)], dim)

    @planned("g", "x")
    def kernel_x(g, x, dim):
        blocks, out = _halves(x, dim), intern(x.numpy_dtype, x.shape, None, x.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        arrays = row_major("g", g, blocks[::2]), row_major("x", x, blocks), Written(0, blocks)
        return Launches([(kernels.glu_gradient, *arrays)], [out])


def _gated_along(out: Layout, x: Tensor, d: int) -> Tensor:
    """The same as a tensor of a dense layout ``out``, computed in the order of its memory."""
    order = sorted(range(out.ndim), key=lambda k: (out.strides[k], out.shape[k]), reverse=True)
    turned, data = Permute.forward(x, order), empty_for(out)
    blocks = _halves(turned._layout, order.index(d))
    values = copy_to_layout(turned, intern(out.numpy_dtype, turned._layout.shape))._data
    launch(kernels.glu, values.reshape(blocks), data.transpose(order).reshape(blocks[::2]))
    return wrap(data, out)


@functional
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of ``input`` along ``dim`` times the sigmoid of the second. RuntimeError for an odd size."""
    return Glu.apply(input, int_argument("glu", "dim", 2, dim))


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``input`` where it is positive, else ``weight * input``; one weight, or one a channel, dim 1.

    RuntimeError for another number of weights, and where dtypes differ.
    """
    dtype, ndim, n = input._layout.dtype, input._layout.ndim, weight._layout.numel
    if dtype is not weight._layout.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {scalar_type(dtype)} and {scalar_type(weight._layout.dtype)}"
        )
    if n != 1:
        if not ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if ndim > 1 else 1
        if channels != n:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {n} and channel "
                f"size = {channels}."
            )
    if weight._layout.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight._layout.ndim}"
        )
    if ndim != weight._layout.ndim and (n != 1 or not ndim):  # one weight broadcasts as it is
        weight = weight.reshape([n if d == 1 else 1 for d in range(ndim)])
    return rows.PreluKernel.apply(input, weight)


public(prelu)
functional(prelu)


# -- random slopes --------------------------------------------------------------------------------------


class RandomSlopes(RandomFill):
    """Overwrite what is not positive with numbers in [low, high), the rest with 1."""

    name, grad_name = "random_slopes", "RreluWithNoiseBackward0"
    samples = cases(lambda: (draw(3, 4), 0.1, 0.3, default_generator))

    def write(x, low, high, generator):
        fill_by(kernels.random_slopes, x, generator, float(low), float(high))


def _rrelu(x: Tensor, lower: float, upper: float, training: bool, generator: Any, inplace: bool) -> Tensor:
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not as_flag(training):
        return apply(table.rrelu_in_evaluation, x, (lower + upper) / 2, inplace=inplace)
    if not x._layout.dtype.is_floating_point:
        raise not_implemented_for("rrelu_with_noise_out_cpu", x._layout.dtype)
    source = generator_for("rrelu", generator)
    if x._level is None:
        slopes = copy_to_layout(x, intern(x._layout.numpy_dtype, x._layout.shape, None, x._layout.device))
        fill_by(kernels.random_slopes, slopes, source, float(lower), float(upper))
    elif any(level.randomness == "same" for level in grad_state.levels):
        raise RuntimeError(
            'vmap: we do not yet support aten::rrelu. Please file an issue. (With randomness="same" samples would have '
            'the same slopes, but where they have one depends on the sample; use "different".)'
        )
    else:
        slopes = RandomSlopes.inplace(Contiguous.apply(x.detach()), lower, upper, source)
    return apply(table.rrelu_with_noise, x, slopes, inplace=inplace)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:  # fmt: skip
    """``input`` where it is positive, else times a slope: in training drawn in [lower, upper), else the mean of both.

    RuntimeError for bounds that are infinite or exchanged.
    """
    return _rrelu(input, lower, upper, training, None, inplace)


functional(rrelu)


def _top_rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:  # fmt: skip
    """``nn.functional.rrelu``, with slopes from a generator of one's own."""
    return _rrelu(input, lower, upper, training, generator, False)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:  # fmt: skip
    """In-place version of ``rrelu``."""
    return _rrelu(input, lower, upper, training, generator, True)


public(_top_rrelu, "rrelu", method_too=False)
functional(at_top(rrelu_))


# -- in place, of activations that are elsewhere ------------------------------------------------------------


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of ``celu``."""
    return celu(input, alpha, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of ``elu``."""
    return elu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place version of ``hardtanh``."""
    return apply(table.hardtanh, input, min_val, max_val, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place version of ``leaky_relu``."""
    return leaky_relu(input, negative_slope, inplace=True)


def relu_(input: Tensor) -> Tensor:
    """In-place version of ``relu``."""
    return relu(input, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """In-place version of ``selu``."""
    return selu(input, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place version of ``threshold``."""
    return _threshold(input, threshold, value, inplace=True)


_threshold = threshold
for _function in (celu_, elu_, hardtanh_, leaky_relu_, relu_, selu_, threshold_):
    functional(_function)


# -- products and choices -----------------------------------------------------------------------------------


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ weight input2 + bias, for inputs (*, m) and (*, n), weight (k, m, n) and bias (k): (*, k).

    RuntimeError for sizes and dtypes that do not fit.
    """
    _check_bilinear(input1, input2, weight, bias)
    k, m, n = weight.shape
    places = input1.shape[:-1]
    # (places, m) times (m, k n), then each row's (k, n) times its (n, 1).
    left = (input1.reshape(-1, m) @ weight.permute(1, 0, 2).reshape(m, k * n)).reshape(-1, k, n)
    out = (left @ input2.reshape(-1, n, 1)).reshape(*places, k)
    return out if bias is None else out + bias


def _check_bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    def refuse(what: str, one: Any, other: Any, between: str = "and") -> RuntimeError:
        return RuntimeError(f"bilinear(): {what}: got {one} {between} {other}")

    if not x._layout.dtype is y._layout.dtype is weight._layout.dtype:
        a, b, c = (cpp_name(t._layout.dtype) for t in (x, y, weight))
        raise RuntimeError(f"All tensors must have the same dtype, got input1: {a}, input2: {b}, weight: {c}")
    if x.ndim != y.ndim:
        raise refuse("input dimensions do not match", x.ndim, y.ndim)
    for d in range(x.ndim - 1):
        if x.shape[d] != y.shape[d]:
            raise refuse(f"input batch dimensions do not match at dim {d}", x.shape[d], y.shape[d])
    for number, t in ((1, x), (2, y)):
        if t.shape[-1] != weight.shape[number]:
            raise refuse(f"input{number} size does not match weight size", t.shape[-1], weight.shape[number],
                         "but expected")  # fmt: skip
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise refuse("bias size does not match weight size", bias.shape[0], weight.shape[0], "but expected")


functional(at_top(bilinear))


@functional
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Softmax of (logits + Gumbel noise) / tau along ``dim``; ``hard``: one-hot, with the gradient of the softmax."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=user_level())
    noise = -Contiguous.apply(logits.detach()).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return logits.new_zeros(logits.shape).scatter_(dim, index, 1.0) - soft.detach() + soft
