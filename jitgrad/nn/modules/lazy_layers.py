"""Layers that take the number of their input's features or channels from their first input."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor
from jitgrad.nn.modules import batchnorm, conv, instancenorm
from jitgrad.nn.modules.lazy import LazyModuleMixin
from jitgrad.nn.modules.linear import Linear
from jitgrad.nn.parameter import UninitializedBuffer, UninitializedParameter

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class _Sized(LazyModuleMixin):
    """What lazy layers share: the attribute that holds the input's size, and values once parameters have shapes."""

    _size: str  # its name
    weight: Any
    bias: Any

    def _make_unshaped(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, where their shapes are known."""
        if not self.has_uninitialized_params() and getattr(self, self._size) != 0:
            super().reset_parameters()  # type: ignore[misc]


class LazyLinear(_Sized, Linear):
    """A ``Linear`` that takes ``in_features`` from its first input."""

    cls_to_become, _size = Linear, "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(0, 0, False)
        self._make_unshaped(bias, device, dtype)
        self.out_features = out_features

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes by the last dim of ``input``; AssertionError where a loaded weight has another one."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the weight was loaded
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


# -- convolutions -------------------------------------------------------------------------------------------------


class _LazyConv(_Sized):
    _size = "in_channels"
    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Shapes by the channels of ``input``."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        n = len(self.kernel_size)
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                f"size: {input.shape}"
            )
        return input.shape[-n - 1]

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


class _LazyForward(_LazyConv):
    """Of convolutions; the other arguments are theirs."""

    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._make_unshaped(bias, device, dtype)
        self.out_channels = out_channels


class _LazyTransposed(_LazyConv):
    """Of transposed convolutions; the other arguments are theirs."""

    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._make_unshaped(bias, device, dtype)
        self.out_channels = out_channels


class LazyConv1d(_LazyForward, conv.Conv1d):
    """A ``Conv1d`` that takes ``in_channels`` from its first input."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyForward, conv.Conv2d):
    """A ``Conv2d`` that takes ``in_channels`` from its first input."""

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyForward, conv.Conv3d):
    """A ``Conv3d`` that takes ``in_channels`` from its first input."""

    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyTransposed, conv.ConvTranspose1d):
    """A ``ConvTranspose1d`` that takes ``in_channels`` from its first input."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, conv.ConvTranspose2d):
    """A ``ConvTranspose2d`` that takes ``in_channels`` from its first input."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, conv.ConvTranspose3d):
    """A ``ConvTranspose3d`` that takes ``in_channels`` from its first input."""

    cls_to_become = conv.ConvTranspose3d


# -- norms --------------------------------------------------------------------------------------------------------


class _LazyNormBase(_Sized, batchnorm._NormBase):
    _size = "num_features"

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self._make_unshaped(bias, device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = jitgrad.tensor(0, dtype=jitgrad.long, device=device)

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes by the channels of ``input``, dim 1."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for name in ("weight", "bias", "running_mean", "running_var"):
            member = getattr(self, name)
            if member is not None:
                member.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, batchnorm._BatchNorm):
    """A ``BatchNorm1d`` that takes ``num_features`` from its first input."""

    cls_to_become, _dims = batchnorm.BatchNorm1d, batchnorm.BatchNorm1d._dims


class LazyBatchNorm2d(_LazyNormBase, batchnorm._BatchNorm):
    """A ``BatchNorm2d`` that takes ``num_features`` from its first input."""

    cls_to_become, _dims = batchnorm.BatchNorm2d, batchnorm.BatchNorm2d._dims


class LazyBatchNorm3d(_LazyNormBase, batchnorm._BatchNorm):
    """A ``BatchNorm3d`` that takes ``num_features`` from its first input."""

    cls_to_become, _dims = batchnorm.BatchNorm3d, batchnorm.BatchNorm3d._dims


class LazyInstanceNorm1d(_LazyNormBase, instancenorm._InstanceNorm):
    """An ``InstanceNorm1d`` that takes ``num_features`` from its first input."""

    cls_to_become, _dims = instancenorm.InstanceNorm1d, instancenorm.InstanceNorm1d._dims


class LazyInstanceNorm2d(_LazyNormBase, instancenorm._InstanceNorm):
    """An ``InstanceNorm2d`` that takes ``num_features`` from its first input."""

    cls_to_become, _dims = instancenorm.InstanceNorm2d, instancenorm.InstanceNorm2d._dims


class LazyInstanceNorm3d(_LazyNormBase, instancenorm._InstanceNorm):
    """An ``InstanceNorm3d`` that takes ``num_features`` from its first input."""

    cls_to_become, _dims = instancenorm.InstanceNorm3d, instancenorm.InstanceNorm3d._dims
