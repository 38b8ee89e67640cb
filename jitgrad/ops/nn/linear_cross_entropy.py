"""Cross entropy of a linear layer's results."""

from __future__ import annotations

import math
import warnings
from typing import Any

from jitgrad.core.dtypes import int64
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.ops.linalg.matmul import linear
from jitgrad.ops.nn.margin_losses import REDUCTIONS, functional
from jitgrad.ops.nn.nll_loss import IGNORED, cross_entropy
from jitgrad.ops.shape.copy import cast

__all__ = ["linear_cross_entropy"]


def _check(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    if bias is not None and tuple(bias.shape) != tuple(weight.shape[:-1]):
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")
    if weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, (N, "
            f"{input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


def _by_chunks(weight: Tensor, target: Tensor, bias: Tensor | None, reduction: str, smoothing: float) -> bool:
    """Whether PyTorch takes its path by chunks, with its warning if not; here all calls give what that gives."""
    places = tuple(weight.shape[1:-1])
    if places or reduction not in REDUCTIONS or smoothing != 0.0 or target.dtype is not int64:
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in {'mean','sum','none'}, "
            f"label_smoothing == 0, target.dtype == int64, out_features == (). Got reduction={reduction!r}, "
            f"label_smoothing={smoothing}, target.dtype={target.dtype}, out_features={places}, tracing=False, "
            f"linear_bias.shape={None if bias is None else tuple(bias.shape)}.", stacklevel=user_level(),
        )  # fmt: skip
        return False
    return True


_ACCUMULATED = (
    "acc_dtype must be one of {{None, torch.float16, torch.bfloat16, torch.float32, torch.float64}}, got {}. Pass "
    "acc_dtype=None to let the op pick automatically."
)


@functional
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """``cross_entropy`` of ``linear(input, linear_weight, linear_bias)``.

    input: (n, m) or (m,), linear_weight: (classes, ..., m). ``options`` are how PyTorch cuts the batch: the loss does
    not depend on them. RuntimeError for sizes that do not fit.
    """
    _check(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    by_chunks = options is not None and _by_chunks(linear_weight, target, linear_bias, reduction, label_smoothing)
    if linear_weight.dim() > 2:
        rows = math.prod(linear_weight.shape[:-1])
        linear_weight = linear_weight.reshape(rows, linear_weight.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(rows)
    dtype = input.dtype
    if by_chunks:  # which computes in the dtype of its input, of 16-bit floats in float32
        if not dtype.is_floating_point:
            raise ValueError(_ACCUMULATED.format(dtype))
        if dtype.is_half:
            input, linear_weight = cast(input, dtype.compute), cast(linear_weight, dtype.compute)
        linear_bias, weight = (t if t is None else cast(t, dtype.compute) for t in (linear_bias, weight))
    logits = linear(input, linear_weight, linear_bias).reshape(shape)
    ignored = IGNORED if ignore_index is None else ignore_index
    loss = cross_entropy(
        logits, target, weight, reduction=reduction, ignore_index=ignored, label_smoothing=label_smoothing
    )
    loss = cast(loss, dtype) if by_chunks and dtype.is_half else loss
    return loss.squeeze(0) if by_chunks and input.dim() == 1 else loss  # a view, as PyTorch's
