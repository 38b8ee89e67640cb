"""Batch norm, and the running averages of mean and variance that instance norm keeps as well."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.normalization import _Affine

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


class _NormBase(_Affine):
    """A layer that may keep running averages of each channel's mean and variance."""

    _version = 2  # of the state_dict: since 2 it has num_batches_tracked
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
            present = self.num_batches_tracked  # what version 1 saved has no count: keep the present one, if it is one
            state_dict[key] = jitgrad.tensor(0) if present is None or present.is_meta else present
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Batch norm of inputs of as many dims as ``_dims`` says; PyTorch's users test for this class by its name."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise channels by the batch in training mode, else by the running averages if they are tracked."""
        self._check_input_dim(input)
        # Running averages move by ``momentum`` of the way to the batch's; 1 / t makes them plain averages of t.
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        # A layer made with running averages whose tracking was switched off later must not change them in training.
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
