"""Limits to the norms of a tensor's slices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import number_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import distances as kernels
from jitgrad.ops.reduction.vector_norm import VectorNorm

__all__: list[str] = []


def _limited(x: Any, p: float, dim: int, limit: float) -> Any:
    others = tuple(d for d in range(x.ndim) if d != dim)
    norms = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
    return x * np.where(norms > limit, limit / (norms + 1e-7), 1)


def _of_samples(call: BatchedCall) -> Tensor:
    x, p, dim, limit = call.args.values()
    norms = VectorNorm.apply(x, p, tuple([d + 1 for d in range(call.ndim("x")) if d != dim]), True)
    limited: Tensor = x * table.where(norms > limit, limit / (norms + 1e-7), 1.0)
    return limited


class Renorm(Structured):
    """The slices at each place of ``dim``, scaled to norm ``limit`` where theirs of order ``p`` is larger."""

    grad_name = "RenormBackward0"
    samples = cases(
        lambda: (draw(3, 4), 2.0, 0, 1.5),
        lambda: (draw(2, 3, 4), 1.0, 1, 2.0),
        lambda: (draw(4, 3).t(), 3.0, 1, 1.0),
    )
    reference = _limited

    batch = _of_samples

    def plan(x_layout, p, dim, limit):
        shape = x_layout.shape
        blocks = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
        launched = kernels.renorm, row_major("x", x_layout, blocks), Written(0, blocks), kernels.kind_of(p), p, limit
        return Launches([launched], [intern(x_layout.numpy_dtype, shape)])

    def grad_x(g, x, p, dim, limit):
        ndim = x._layout.ndim
        others = tuple([d for d in range(ndim) if d != dim])
        norms = VectorNorm.apply(x, p, others, True)
        along = (x.conj() * g).real if x.is_complex() else x * g
        along = along.sum(others, True)
        inverse = (norms + 1e-7).reciprocal()
        of_norm = VectorNorm.grad_x(along, norms, x, p, others, True)
        return table.where(norms > limit, (g - of_norm * inverse) * (inverse * limit), g)


def _real(name: str, position: int, value: Any) -> float:
    value = number_argument("renorm", name, position, value)
    if isinstance(value, complex):
        raise RuntimeError(f"renorm: {name} must be real-valued")
    return float(value)


@public
@takes_out
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices at each place of ``dim``, scaled down to norm ``maxnorm`` where theirs of order ``p`` is larger.

    RuntimeError for fewer than two dims, for p <= 0 and for a negative ``maxnorm``.
    """
    order, limit, n = _real("p", 2, p), _real("maxnorm", 4, maxnorm), input._layout.ndim
    if not order > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not limit >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {limit:g}")
    if n < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {n} dimensions")
    if input._layout.dtype.category < 2:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{scalar_type(input.dtype)}"
        )
    return Renorm.apply(input, order, normalize_dim(dim, n), limit)


public(inplace_form(renorm), function_too=False)
