"""Dropout: of elements, of whole channels, and the kind that goes with SELU."""

from __future__ import annotations

from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """What drops with probability ``p``, in training mode only."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if p < 0 or p > 1:  # NaN is found where it is used
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """Probability and mode."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """While training, sets each element to 0 with probability ``p`` and scales the rest by 1 / (1 - p)."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements, in training mode."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """While training, sets each channel of (N, C, L) or (C, L) to 0 with probability ``p``, scales the rest."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop channels, in training mode."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """While training, sets each channel of (N, C, H, W) or (N, C, L) to 0 with probability ``p``, scales the rest."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop channels, in training mode."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """While training, sets each channel of (N, C, D, H, W) or (C, D, H, W) to 0 with probability ``p``, scales the
    rest."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop channels, in training mode."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """While training, brings each element to SELU's saturation with probability ``p``; mean and variance stay."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements, in training mode."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """Drop channels, in training mode."""
        return F.feature_alpha_dropout(input, self.p, self.training)
