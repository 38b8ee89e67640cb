"""Gradients of convolutions with respect to their input and their weight, without a graph."""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.nn.modules.utils import _ntuple
from jitgrad.ops.nn.conv import ConvInput, ConvWeight

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _input(dims: int) -> Any:
    each = _ntuple(dims)

    def conv_input(
        input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """The gradient, of shape ``input_size``, of a convolution's input by that of its output."""
        sizes = tuple(input_size)[2:]
        return ConvInput.apply(grad_output, weight, None, sizes, each(stride), each(padding), each(dilation), groups)

    conv_input.__name__ = f"conv{dims}d_input"
    return conv_input


def _weight(dims: int) -> Any:
    each = _ntuple(dims)

    def conv_weight(
        input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """The gradient, of shape ``weight_size``, of a convolution's weight by that of its output."""
        sizes = tuple(weight_size)[2:]
        return ConvWeight.apply(grad_output, input, sizes, each(stride), each(padding), each(dilation), groups)

    conv_weight.__name__ = f"conv{dims}d_weight"
    return conv_weight


conv1d_input, conv2d_input, conv3d_input = map(_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_weight, (1, 2, 3))
