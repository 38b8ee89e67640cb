"""Batch norms taken into the layer before them, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

import jitgrad
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

explain_missing_names(__name__)


def _fused(layer: Any, bn: Any, fuse: Any, *options: Any) -> Any:
    """A copy of a layer with the parameters that ``fuse`` makes."""
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, *options
    )
    return fused


def _check_eval(*modules: Any) -> None:
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")


def _parameters(weight: Tensor, bias: Tensor, w: Tensor, b: Tensor | None, b_requires: bool) -> Any:
    """The fused values as parameters, of the dtypes and with the ``requires_grad`` of those before."""
    dtype = w.dtype if b is None else b.dtype
    return Parameter(weight.to(w.dtype), w.requires_grad), Parameter(bias.to(dtype), b_requires)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what ``bn(conv(x))`` does in evaluation. AssertionError for modules in training."""
    _check_eval(conv, bn)
    return _fused(conv, bn, fuse_conv_bn_weights, transpose)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of the fused convolution: w s, (b - mean) s + shift with s = scale / sqrt(var + eps).

    ``transpose``: the outputs are the weight's second dim.
    """
    shift = jitgrad.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = jitgrad.ones_like(bn_rm) if bn_w is None else bn_w
    inverse = jitgrad.rsqrt(bn_rv + bn_eps)
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * (scale * inverse).reshape(shape + [1] * (conv_w.dim() - 2))
    bias = ((jitgrad.zeros_like(bn_rm) if conv_b is None else conv_b) - bn_rm) * inverse * scale + shift
    return _parameters(weight, bias, conv_w, conv_b, conv_b is not None and conv_b.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what ``bn(linear(x))`` does in evaluation. AssertionError where they don't fit."""
    _check_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    return _fused(linear, bn, fuse_linear_bn_weights)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the fused linear layer: w s, (b - mean) s + shift with s = scale / sqrt(var + eps)."""
    scale = bn_w * jitgrad.rsqrt(bn_rv + bn_eps)
    bias = ((jitgrad.zeros_like(bn_rm) if linear_b is None else linear_b) - bn_rm) * scale + bn_b
    requires = linear_b is not None and linear_b.requires_grad
    return _parameters(linear_w * scale.unsqueeze(-1), bias, linear_w, linear_b, requires)
