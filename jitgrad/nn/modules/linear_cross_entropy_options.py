"""The options of ``LinearCrossEntropyLoss``, under PyTorch's name of their module."""

from jitgrad.nn.modules.linear_cross_entropy import LinearCrossEntropyOptions

__all__ = ["LinearCrossEntropyOptions"]
