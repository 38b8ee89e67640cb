"""Limits to the norms of a tensor's slices."""

from __future__ import annotations

from jitgrad.core import dtypes
from jitgrad.core.layout import normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.inplace_forms import inplace_form
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.ops.reduction.vector_norm import VectorNorm

__all__: list[str] = []

_WIDE = {"float32": "float64", "complex64": "complex128"}  # norms are summed in double precision


@public
@takes_out
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices at each place of ``dim``, scaled down to norm ``maxnorm`` where theirs of order ``p`` is larger.

    RuntimeError for fewer than two dims, for p <= 0 and for a negative ``maxnorm``.
    """
    if isinstance(p, complex):
        raise RuntimeError("renorm: p must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if isinstance(maxnorm, complex):
        raise RuntimeError("renorm: maxnorm must be real-valued")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    n = input._layout.ndim
    if n < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {n} dimensions")
    kept = normalize_dim(dim, n)
    others = tuple([d for d in range(n) if d != kept])
    dtype = input._layout.dtype
    wide = _WIDE.get(dtype.name)
    norms = VectorNorm.apply(input, float(p), others, True, wide and getattr(dtypes, wide))
    factors = table.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)
    return input * (factors if wide is None else factors.to(dtype.to_real()))


public(inplace_form(renorm), function_too=False)
