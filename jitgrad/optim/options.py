"""Options of optimisers: their checks, in PyTorch's words, and their values as the numbers that kernels take."""

from __future__ import annotations

from typing import Any

from jitgrad.core.tensor import Tensor

__all__ = ["as_number", "check_at_least_zero", "check_betas", "check_fused", "check_rate"]


def as_number(value: Any) -> float:
    """A hyper-parameter, which may be a tensor of one element, as the Python number that kernels take."""
    return value.item() if isinstance(value, Tensor) else float(value)


def check_at_least_zero(value: Any, what: str) -> None:
    """ValueError for a negative hyper-parameter, and for NaN."""
    # Not ``value < 0``, which is false for NaN.
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}")


def check_rate(lr: Any, text: str = "Invalid learning rate: {}") -> None:
    """ValueError for a learning rate that is negative, NaN, or a tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(text.format(lr))


def check_betas(betas: Any) -> None:
    """ValueError for coefficients of running averages outside of [0, 1)."""
    for k in range(2):
        if not 0.0 <= betas[k] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")


def check_fused(fused: Any, foreach: Any, differentiable: Any) -> None:
    """RuntimeError if two forms of the step are asked for at once. There is only one, but programs are PyTorch's."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
