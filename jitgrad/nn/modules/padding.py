"""Padding layers: what ``nn.functional.pad`` puts around the last dims."""

from __future__ import annotations

from typing import Any, ClassVar

from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _PadNd(Module):
    """Padding by ``padding``, one number for all ends, or one for each, those of the last dim first."""

    _dims: ClassVar[int]
    _mode: ClassVar[str] = "constant"

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * 2 * self._dims

    def forward(self, input: Tensor) -> Tensor:
        """Pad ``input``."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad ``input``."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    """A ``_ConstantPadNd`` of zeros; it comes before the layer that it derives from, too."""

    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Pad ``input``; ValueError unless it has the layer's dims."""
        dims = self._dims
        if input.ndim not in (dims + 1, dims + 2):
            raise ValueError(f"expected {dims + 1}D or {dims + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """A value around the last dim."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """A value around the last two dims."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """A value around the last three dims."""

    _dims = 3


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Zeros around the last dim."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Zeros around the last two dims."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Zeros around the last three dims."""


class ReflectionPad1d(_ReflectionPadNd):
    """The elements, reflected at the edges around the last dim."""

    _dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The elements, reflected at the edges around the last two dims."""

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The elements, reflected at the edges around the last three dims."""

    _dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """The elements at the edges around the last dim."""

    _dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The elements at the edges around the last two dims."""

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The elements at the edges around the last three dims."""

    _dims = 3


class CircularPad1d(_CircularPadNd):
    """The elements of the other end around the last dim."""

    _dims = 1


class CircularPad2d(_CircularPadNd):
    """The elements of the other end around the last two dims."""

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """The elements of the other end around the last three dims."""

    _dims = 3
