"""Weights as a length and a direction."""

from __future__ import annotations

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public
from jitgrad.ops.reduction.vector_norm import norm

__all__ = ["norm_except_dim", "weight_norm"]


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of order ``pow`` over all dims but ``dim``, which have size 1 in the result; over all for dim -1."""
    if dim == -1:
        return norm(v, pow)
    return norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], keepdim=True) if v.ndim > 1 else v.abs()


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """v * g / |v|, with the norm of ``norm_except_dim``."""
    return v * (g / norm_except_dim(v, 2, dim))


public(norm_except_dim, method_too=False)
public(weight_norm, "_weight_norm", method_too=False)
