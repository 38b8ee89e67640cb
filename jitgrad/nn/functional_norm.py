"""Functions of ``nn.functional`` that normalise channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import explaining_form
from jitgrad.ops.nn import batch_norm as ops
from jitgrad.ops.nn.norm import group_norm as _group_norm

__all__ = ["batch_norm", "group_norm", "instance_norm"]

# Their errors count arguments as these functions do, which have them in another order.
_batch_norm, _instance_norm = map(explaining_form, (ops.batch_norm, ops.instance_norm))


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(input - mean) / sqrt(variance + eps) * weight + bias for each channel, dim 1.

    Training: by the batch's mean and variance, towards which the running ones move. Else by the running ones.
    """
    if training:  # the variance of one value says nothing: its output would be the bias alone
        _check_several(input._layout.shape, input._layout.size)
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _check_several(shape: Sequence[int], shown: Any) -> None:
    """ValueError, with the shape as it is to be ``shown``, unless each channel, dim 1, has more than one value."""
    if len(shape) > 1 and shape[0] == 1 and math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shown}")


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) over each group of channels, dim 1, * weight + bias of each channel."""
    if input.ndim > 1 and num_groups > 0:
        # The groups as channels, and the channels of a group beside the samples: PyTorch's message shows that shape.
        shape = input._layout.shape
        groups = [shape[0] * shape[1] // num_groups, num_groups, *shape[2:]]
        _check_several(groups, groups)
    return _group_norm(input, num_groups, weight, bias, eps)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """``batch_norm`` in which each channel of each sample counts as a channel."""
    if use_input_stats and math.prod(input._layout.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)
