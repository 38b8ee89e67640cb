"""Clipping of gradients: all together by their norm, or each number by itself."""

from __future__ import annotations

import types
import warnings
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(parameters: Any) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as if they were one vector."""
    tensors, norm_type = _listed(tensors), float(norm_type)
    if not tensors:
        return jitgrad.tensor(0.0)
    total = _norm(jitgrad.stack([_norm(t, norm_type) for t in tensors]), norm_type)
    if error_if_nonfinite and bool(total.isnan() | total.isinf()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _norm(x: Tensor, order: float) -> Tensor:
    """(sum |x|^order)^(1/order) over all elements; for 0 the count of non-zeros, for infinities the limits."""
    size = x.abs()  # real for complex tensors, whose squares would not be
    if order == float("inf"):
        return size.max()
    if order == -float("inf"):
        return size.min()
    if order == 0:
        return (size != 0).sum().to(size.dtype)
    return size.square().sum().sqrt() if order == 2 else size.pow(order).sum().pow(1.0 / order)


@no_grad()
def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients by max_norm / (total_norm + 1e-6) where that is below 1."""
    # A tensor, clamped: reading its value to decide would wait for a device.
    factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for param in _listed(parameters):
        if param.grad is not None:
            param.grad.mul_(factor.to(param.grad.dtype))


@no_grad()
def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients so that their norm, as one vector, is at most ``max_norm``; return the norm
    before. RuntimeError for a norm that is not finite, if ``error_if_nonfinite``."""
    given, parameters = parameters, _listed(parameters)
    if not parameters and isinstance(given, types.GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, float(max_norm), total, foreach)
    return total


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The older name of ``clip_grad_norm_``."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning, stacklevel=2,
    )  # fmt: skip
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Keep every gradient between -clip_value and clip_value."""
    for param in _listed(parameters):
        if param.grad is not None:
            param.grad.clamp_(min=-float(clip_value), max=float(clip_value))
