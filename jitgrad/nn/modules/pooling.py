"""Pooling layers: the options of a function of ``nn.functional`` each."""

from __future__ import annotations

from typing import Any, ClassVar

from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


def _each(value: Any, dims: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class _MaxPoolNd(Module):
    """The largest element of each window along the last dims; ``return_indices``: and its place."""

    _dims: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 return_indices: bool = False, ceil_mode: bool = False):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Pool ``input``."""
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self._dims - 1]
        return pool(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                    self.return_indices)  # fmt: skip

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _MaxUnpoolNd(Module):
    """Zeros with the elements that max pooling has found at their places."""

    _dims: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        dims = self._dims
        self.kernel_size, self.padding = _each(kernel_size, dims), _each(padding, dims)
        self.stride = _each(stride if stride is not None else kernel_size, dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Put ``input`` back at ``indices``; ``output_size`` where the windows leave several."""
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self._dims - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    """The mean of each window along the last dims."""

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """``nn.functional.avg_pool1d`` of (n, c, l), or (c, l)."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True):  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding = _each(kernel_size, 1), _each(padding, 1)
        self.stride = _each(stride if stride is not None else kernel_size, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Pool ``input``."""
        options = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        return F.avg_pool1d(input, *options)


class _AvgPoolOfSeveral(_AvgPoolNd):
    _dims: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Pool ``input``."""
        pool = F.avg_pool2d if self._dims == 2 else F.avg_pool3d
        options = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        return pool(input, *options, self.divisor_override)


class _LPPoolNd(Module):
    """The p-norm of each window along the last dims, p being ``norm_type``."""

    _dims: ClassVar[int]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Pool ``input``."""
        pool = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[self._dims - 1]
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """The power and the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptiveAvgPoolNd(Module):
    """The means of ``output_size`` windows that cover the last dims."""

    _dims: ClassVar[int]

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Pool ``input``."""
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[self._dims - 1]
        return pool(input, self.output_size)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(Module):
    """The largest elements of ``output_size`` windows that cover the last dims."""

    _dims: ClassVar[int]

    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """Pool ``input``."""
        pool = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[self._dims - 1]
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"output_size={self.output_size}"


class _FractionalMaxPoolNd(Module):
    """The largest elements of windows at random places, ``output_size`` of them or ``output_ratio`` of the size."""

    _dims: ClassVar[int]

    def __init__(self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                 return_indices: bool = False, _random_samples: Tensor | None = None):  # fmt: skip
        super().__init__()
        dims, name = self._dims, type(self).__name__
        self.kernel_size, self.return_indices = _each(kernel_size, dims), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _each(output_size, dims)
        self.output_ratio = None if output_ratio is None else _each(output_ratio, dims)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Pool ``input``."""
        pool = F.fractional_max_pool2d if self._dims == 2 else F.fractional_max_pool3d
        return pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                    _random_samples=self._random_samples)  # fmt: skip


class AvgPool2d(_AvgPoolOfSeveral):
    """``nn.functional.avg_pool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class AvgPool3d(_AvgPoolOfSeveral):
    """``nn.functional.avg_pool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3


class MaxPool1d(_MaxPoolNd):
    """``nn.functional.max_pool1d`` of (n, c, l), or (c, l)."""

    _dims = 1


class MaxPool2d(_MaxPoolNd):
    """``nn.functional.max_pool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class MaxPool3d(_MaxPoolNd):
    """``nn.functional.max_pool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3


class MaxUnpool1d(_MaxUnpoolNd):
    """``nn.functional.max_unpool1d`` of (n, c, l), or (c, l)."""

    _dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """``nn.functional.max_unpool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """``nn.functional.max_unpool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3


class LPPool1d(_LPPoolNd):
    """``nn.functional.lp_pool1d`` of (n, c, l), or (c, l)."""

    _dims = 1


class LPPool2d(_LPPoolNd):
    """``nn.functional.lp_pool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class LPPool3d(_LPPoolNd):
    """``nn.functional.lp_pool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """``nn.functional.adaptive_avg_pool1d`` of (n, c, l), or (c, l)."""

    _dims = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """``nn.functional.adaptive_avg_pool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """``nn.functional.adaptive_avg_pool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """``nn.functional.adaptive_max_pool1d`` of (n, c, l), or (c, l)."""

    _dims = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """``nn.functional.adaptive_max_pool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """``nn.functional.adaptive_max_pool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """``nn.functional.fractional_max_pool2d`` of (n, c, h, w), or (c, h, w)."""

    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """``nn.functional.fractional_max_pool3d`` of (n, c, d, h, w), or (c, d, h, w)."""

    _dims = 3
