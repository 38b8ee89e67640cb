"""Normalisation layers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LayerNorm", "RMSNorm",
]  # fmt: skip


class _Scaled(Module):
    """What may have a weight, which starts as ones, and a bias, which starts as zeros."""

    weight: Parameter | None
    bias: Parameter | None

    def _make_parameters(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", weight and bias)):
            made = Parameter(jitgrad.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Scaled):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dims, which are of ``normalized_shape``.

    weight and bias, of that shape, start as ones and zeros; ``elementwise_affine=False`` leaves both out.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_parameters(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dims."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape and options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


def _as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class RMSNorm(_Scaled):
    """x / sqrt(mean(x ** 2) + eps) * weight over the last dims, which are of ``normalized_shape``.

    eps is by default that of the dtype.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = Parameter(jitgrad.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", made if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the last dims."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape and options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Scaled):
    """(x - mean) / sqrt(variance + eps) over each of ``num_groups`` groups of channels, * weight + bias a channel."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._make_parameters(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalise groups of channels of an input (n, channels, *)."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Sizes and options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


# -- with running averages ----------------------------------------------------------------------------


class _Tracking(_Scaled):
    """What may keep running averages of each channel's mean and variance."""

    _version = 2
    _dims: tuple[int, ...] = ()  # the numbers of dims that an input may have
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._make_parameters(num_features, affine, bias, device, dtype)
        kept: list[Tensor | None] = [None] * 3
        if track_running_stats:
            kept = [jitgrad.empty(num_features, device=device, dtype=dtype) for _ in range(2)]
            kept.append(jitgrad.tensor(0, device=device))
        for name, buffer in zip(("running_mean", "running_var", "num_batches_tracked"), kept, strict=True):
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Running mean 0, variance 1, no batches seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running averages anew."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._dims:
            wanted = " or ".join(f"{n}D" for n in self._dims)
            raise ValueError(f"expected {wanted} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        """Sizes and options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *rest: Any) -> None:
        key = prefix + "num_batches_tracked"
        if self.track_running_stats and (local_metadata.get("version") or 0) < 2 and key not in state_dict:
            state_dict[key] = self.num_batches_tracked  # the first version did not count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_Tracking):
    """Batch norm of inputs of certain numbers of dims."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise channels by the batch in training mode, else by the running averages if they are tracked."""
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average of all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        kept = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if kept else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of (N, C) or (N, C, L).

    Training: over the batch, and running averages move towards its mean and unbiased variance by ``momentum`` (None:
    they are plain averages of all batches). Evaluation: by the running averages, unless
    ``track_running_stats=False``. ``affine=False`` leaves weight and bias out.
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """``BatchNorm1d`` for inputs (N, C, H, W)."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """``BatchNorm1d`` for inputs (N, C, D, H, W)."""

    _dims = (5,)


class _InstanceNorm(_Tracking):
    """Instance norm of inputs of certain numbers of dims, the first of which has no batch."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the channels of each sample."""
        self._check_input_dim(input)
        alone = input.ndim == self._dims[0]
        dim = 0 if alone else 1
        if input.shape[dim] != self.num_features:
            text = f"input's size at {dim=} to match num_features ({self.num_features}), but got: {input.shape[dim]}."
            if self.affine:
                raise ValueError(f"expected {text}")
            warnings.warn(
                f"input's size at {dim=} does not match num_features. You can silence this warning by not passing in "
                "num_features, which is not used because affine=False",
                stacklevel=2,
            )
        out = F.instance_norm(
            input.unsqueeze(0) if alone else input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """(x - mean) / sqrt(variance + eps) for each channel of each sample of (N, C, L) or (C, L).

    ``affine``: times weight, plus bias, of one value a channel. ``track_running_stats``: evaluation goes by running
    averages.
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """``InstanceNorm1d`` for inputs (N, C, H, W) or (C, H, W)."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """``InstanceNorm1d`` for inputs (N, C, D, H, W) or (C, D, H, W)."""

    _dims = (4, 5)
