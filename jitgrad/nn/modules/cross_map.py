"""Local response normalisation as PyTorch took it over from Lua."""

from __future__ import annotations

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.nn.modules.module import Module

__all__ = ["CrossMapLRN2d"]


class CrossMapLRN2d(Module):
    """x / (k + alpha / size * s) ** beta, where s sums x ** 2 over ``size`` channels about each one of (N, C, H, W).

    As in PyTorch, the window of every channel has the first channel in it too. The gradient is that of this formula;
    PyTorch's has a window of its own that is off by one.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input``; ValueError unless it has four dims."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        half, channels = int((self.size - 1) / 2 + 1), input.shape[1]
        rows = [[float(j == 0 or abs(c - j) < half) for j in range(channels)] for c in range(channels)]
        window = jitgrad.tensor(rows, dtype=input.dtype, device=input.device).reshape(channels, channels)
        sums = (window @ input.square().flatten(2)).view(input.shape)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
