"""Instance norm: batch norm in which each channel of each sample counts as a channel."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]

_OLD_STATS = (
    "Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If state_dict is a "
    "checkpoint saved before 0.4.0, this may be expected because {kind} does not track running stats by default since "
    "0.4.0. Please remove these keys from state_dict. If the running stats are actually needed, instead set "
    "track_running_stats=True in {kind} to enable them. See the documentation of {kind} for details."
)


class _InstanceNorm(_NormBase):
    """Instance norm; an input may have either number of dims in ``_dims``, the first without a batch dim."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._dims[0]

    def forward(self, input: Tensor) -> Tensor:
        """Normalise the channels of each sample."""
        self._check_input_dim(input)
        alone = input.ndim == self._dims[0]
        dim = 0 if alone else 1
        if input.shape[dim] != self.num_features:
            text = f"input's size at {dim=} to match num_features ({self.num_features}), but got: {input.shape[dim]}."
            if self.affine:  # without weight and bias any number of channels can be normalised
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


    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        if local_metadata.get("version") is None and not self.track_running_stats:  # saved before PyTorch 0.4
            names = [n for n in ("running_mean", "running_var") if prefix + n in state_dict]
            if names:
                keys = " and ".join(f'"{prefix}{n}"' for n in names)
                error_msgs.append(_OLD_STATS.format(names=keys, kind=type(self).__name__))
                for name in names:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


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
