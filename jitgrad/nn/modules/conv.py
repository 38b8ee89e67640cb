"""Convolutions and their transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn import init
from jitgrad.nn.modules.module import Module
from jitgrad.nn.modules.utils import _ntuple, _pair, _reverse_repeat_tuple, _single, _triple  # noqa: F401  and users'
from jitgrad.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(Module):
    """What all convolutions share; PyTorch's users test for this class by its name, and derive from it.

    Sizes are tuples, a number for each dim.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...],
        padding: str | tuple[int, ...], dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...],
        groups: int, bias: bool, padding_mode: str, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        _check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._both_ends()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (first, second // groups, *kernel_size)
        self.weight = Parameter(jitgrad.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(jitgrad.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _both_ends(self) -> list[int]:
        """The padding before and after each dim, the last dim first, as ``pad`` takes it."""
        if self.padding == "valid":
            return [0] * 2 * len(self.kernel_size)
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [n for t in total[::-1] for n in (t // 2, t - t // 2)]
        return list(_reverse_repeat_tuple(self.padding, 2))

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform between -1 / sqrt(n) and 1 / sqrt(n), n the elements of a window."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        """Sizes, and what is not the default."""
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            if getattr(self, name) != (usual,) * len(self.kernel_size):
                parts.append(f"{name}={getattr(self, name)}")
        parts += [f"groups={self.groups}"] * (self.groups != 1) + ["bias=False"] * (self.bias is None)
        parts += [f"padding_mode={self.padding_mode}"] * (self.padding_mode != "zeros")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _check(inputs: int, outputs: int, stride: Any, padding: Any, groups: int, padding_mode: str) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if inputs % groups:
        raise ValueError("in_channels must be divisible by groups")
    if outputs % groups:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
        if padding == "same" and any(s != 1 for s in _single(stride)):
            raise ValueError("padding='same' is not supported for strided convolutions")
    modes = {"zeros", "reflect", "replicate", "circular"}
    if padding_mode not in modes:
        raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")


class _Conv(_ConvNd):
    """Products of ``weight`` (out_channels, in_channels / groups, *kernel_size) and windows, plus ``bias``.

    padding_mode: what the padding holds, "zeros", "reflect", "replicate" or "circular".
    """

    _dims: ClassVar[int]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        each = _ntuple(self._dims)
        super().__init__(
            in_channels, out_channels, each(kernel_size), each(stride),
            padding if isinstance(padding, str) else each(padding), each(dilation), False,
            each(0), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self._dims - 1]
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of (n, in_channels, *sizes), or of one sample."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """``nn.functional.conv1d`` of (n, in_channels, l), or (in_channels, l)."""

    _dims = 1


class Conv2d(_Conv):
    """``nn.functional.conv2d`` of (n, in_channels, h, w), or (in_channels, h, w)."""

    _dims = 2


class Conv3d(_Conv):
    """``nn.functional.conv3d`` of (n, in_channels, d, h, w), or (in_channels, d, h, w)."""

    _dims = 3


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share, with ``weight`` (in_channels, out_channels / groups, *kernel_size)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...],
        padding: tuple[int, ...], dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...],
        groups: int, bias: bool, padding_mode: str, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self, input: Tensor, output_size: Sequence[int] | None, stride: Sequence[int], padding: Sequence[int],
        kernel_size: Sequence[int], num_spatial_dims: int, dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:  # fmt: skip
        """The output padding that leads to ``output_size``; ValueError where none does."""
        if output_size is None:
            return self.output_padding
        dims = num_spatial_dims
        plain = input.ndim - dims
        if len(output_size) == input.ndim:
            output_size = output_size[plain:]
        if len(output_size) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.ndim}D input, output_size must have {dims} or {input.ndim} elements "
                f"(got {len(output_size)})"
            )
        dilation = (1,) * dims if dilation is None else dilation
        every = zip(input.shape[plain:], kernel_size, stride, padding, dilation, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in every]
        most = [n + s - 1 for n, s in zip(least, stride, strict=True)]
        if any(not a <= n <= b for a, n, b in zip(least, output_size, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} (for an "
                f"input of {input.size()[2:]})"
            )
        return [n - a for n, a in zip(output_size, least, strict=True)]


class _ConvTranspose(_ConvTransposeNd):
    """A transposed convolution of a number of dims."""

    _dims: ClassVar[int]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        each = _ntuple(self._dims)
        super().__init__(
            in_channels, out_channels, each(kernel_size), each(stride), each(padding),
            each(dilation), True, each(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution; ``output_size`` where the stride leaves several."""
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._dims - 1]
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._dims, self.dilation  # type: ignore
        )
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """``nn.functional.conv_transpose1d`` of (n, in_channels, l), or (in_channels, l)."""

    _dims = 1


class ConvTranspose2d(_ConvTranspose):
    """``nn.functional.conv_transpose2d`` of (n, in_channels, h, w), or (in_channels, h, w)."""

    _dims = 2


class ConvTranspose3d(_ConvTranspose):
    """``nn.functional.conv_transpose3d`` of (n, in_channels, d, h, w), or (in_channels, d, h, w)."""

    _dims = 3
