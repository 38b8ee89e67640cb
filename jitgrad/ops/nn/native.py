"""Functions that PyTorch's own are made of and that programs meet by their names: normalisation with its statistics,
dropout with its mask, softmax and its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.dtypes import bool_, uint8
from jitgrad.core.errors import must_be_tensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.half_ops import widened
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.parameter_types import explained
from jitgrad.ops.creation.constants import empty, new, zeros_like
from jitgrad.ops.nn.batch_norm import batch_norm
from jitgrad.ops.nn.margin_losses import at_top
from jitgrad.ops.nn.norm import beside_channels, group_norm, layer_norm
from jitgrad.ops.random.random_fills import DropoutMask
from jitgrad.ops.reduction.any_all import all as all_
from jitgrad.ops.reduction.softmax import softmax
from jitgrad.ops.reduction.sums import SumDim
from jitgrad.ops.reduction.variance import var_mean
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.random import default_generator

__all__: list[str] = []


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Means and inverse standard deviations over ``dims``."""
    var, mean = var_mean(x, dims, correction=0, keepdim=keepdim)
    return mean, (var + eps).rsqrt()


@at_top
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(``layer_norm``, the means of its rows, their inverse standard deviations)."""
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    return out, *_statistics(input.detach(), tuple(range(-len(normalized_shape), 0)), eps, True)


@at_top
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(``group_norm`` of (N, C, *), its means (N, group), its inverse standard deviations), all with gradients."""
    if not input.is_contiguous():
        raise RuntimeError(
            "Expected X.is_contiguous(memory_format) to be true, but got false.  (Could this error message be "
            "improved?  If so, please report an enhancement request to PyTorch.)"
        )
    out = group_norm(input, group, weight, bias, eps)
    return out, *_statistics(input.reshape(N, group, C // group * HxW), (2,), eps)


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(``batch_norm``, the means of channels, their inverse standard deviations); both empty unless ``training``."""
    out = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        return out, new(input.dtype, (0,), input.device), new(input.dtype, (0,), input.device)
    return out, *_statistics(input.detach(), beside_channels(input), eps)


def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any, **named: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """``native_batch_norm``, also without running averages: (input, weight, bias, training, momentum, eps)."""
    if len(rest) + len(named) == 3:
        rest = (None, None, *rest)
    return explained(native_batch_norm, "_native_batch_norm_legit")(input, weight, bias, *rest, **named)


def _batch_norm_with_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``native_batch_norm`` in training, and an empty tensor."""
    found = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *found, new(uint8, (0,), input.device)


for _function in (native_batch_norm, _native_batch_norm_legit, _batch_norm_with_update):
    at_top(takes_out(_function))


# -- dropout ------------------------------------------------------------------------------------------------


@at_top
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(``dropout``, which elements stayed); ``train`` None counts as True."""
    if train is False or not input.numel():
        return input.clone(), new(bool_, tuple(input.shape), input.device).fill_(True)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 1:
        return input * 0, zeros_like(input, dtype=bool_)
    mask = DropoutMask.inplace(empty(tuple(input.shape), dtype=input.dtype), 1 - float(p), default_generator)
    return input * mask, mask != 0


@at_top
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """grad_output * mask * scale: the gradient of ``native_dropout``, whose scale is 1 / (1 - p)."""
    return grad_output * (cast(mask, grad_output.dtype) * scale)


# -- softmax ------------------------------------------------------------------------------------------------


@at_top
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of softmax along ``dim``, whose result was ``output``, in ``input_dtype``."""
    for place, (name, x) in enumerate((("grad_output", grad_output), ("output", output)), 1):
        if not isinstance(x, Tensor):
            raise must_be_tensor("_softmax_backward_data", name, place, x)
    output = widened(output)  # 16-bit floats are rounded once
    products = widened(grad_output) * output
    return contiguous(cast(products - output * SumDim.apply(products, dim, True), input_dtype))


@at_top
def _safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax along ``dim`` that is 0 where all elements are -inf."""
    nothing = all_(input == float("-inf"), dim, keepdim=True)
    # Such elements are replaced before softmax as well, whose NaN there would reach gradients.
    return table.where(nothing, 0, softmax(table.where(nothing, 0, input), dim, dtype))
