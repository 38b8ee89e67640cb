"""Quantiles: values between those that stand at given fractions of sorted rows."""

from __future__ import annotations

from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.reduction.sort import Sort
from jitgrad.ops.shape.copy import cast

__all__: list[str] = []

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
_MOST = 1 << 24  # up to which float32 counts elements exactly


def _fractions(x: Tensor, q: Any) -> Tensor:
    """``q`` as a tensor, which is checked; RuntimeError for what quantiles are not taken of."""
    given = q if isinstance(q, Tensor) else float_argument("quantile", "q", 2, q)
    if not isinstance(given, Tensor):
        if not 0 <= given <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {given:g}")
        q = filled(intern(x._layout.numpy_dtype, ()), given)
    if not x._layout.numel:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if q._layout.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if x._layout.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q._layout.dtype is not x._layout.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if q is given and not ((unrecorded(q) >= 0) & (unrecorded(q) <= 1)).all().item():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return q


def _ranks(rows: Tensor, q: Tensor, skip_nan: bool) -> Any:
    """The places, as floats, of the fractions ``q`` (a vector) in sorted rows; where NaN decides that of a NaN."""
    last = rows._layout.shape[-1] - 1
    numbers: Any = ~unrecorded(rows).isnan()
    if skip_nan:
        return (cast(numbers.sum(-1, True), q._layout.dtype) - 1).clamp(min=0) * q
    return table.where(numbers.all(-1, True), q * last, last)


def _quantile(x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool) -> Tensor:
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}"
        )
    d = normalize_dim(dim or 0, x._layout.ndim)
    q, kept, ndim = _fractions(x, q), as_flag(keepdim), x._layout.ndim
    whole = dim is None or not ndim
    x = x.reshape(-1) if whole else x.unsqueeze(-1).transpose(d, -1)
    rows = Sort.apply(x, -1, False).values
    if rows._layout.shape[-1] > _MOST:
        raise RuntimeError("quantile() input tensor is too large")
    found = _between(rows, _ranks(rows, q.reshape(-1), skip_nan), interpolation)
    # In place, for the result is no view. A scalar ``q`` is a vector of one fraction until here.
    if q._layout.ndim:
        found.unsqueeze_(0).transpose_(0, -1)
    found.squeeze_(-1)
    front = q._layout.ndim
    for _ in range(ndim if whole and kept else 0):
        found.unsqueeze_(-1)
    return found if whole or kept else found.squeeze_(d + front)


def _between(rows: Tensor, ranks: Any, interpolation: str) -> Any:
    """The values at ``ranks``, floats of shape (..., m), of rows of shape (..., n)."""
    one = {"lower": "floor", "higher": "ceil", "nearest": "round"}.get(interpolation)
    if one:
        return rows.gather(-1, cast(getattr(ranks.detach(), one)(), dtypes.int64))
    places = [cast(edge, dtypes.int64) for edge in (ranks.detach().floor(), ranks.detach().ceil())]
    below, above = (rows.gather(-1, p.expand((*rows._layout.shape[:-1], p._layout.shape[-1]))) for p in places)
    return below.lerp(above, 0.5 if interpolation == "midpoint" else ranks - places[0])


@public
@takes_out
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The values below which the fractions ``q``, a number or a vector, of the elements along ``dim`` (all) lie.

    Between two elements by ``interpolation``: "linear", "lower", "higher", "midpoint" or "nearest". A vector ``q``
    gives the result a dim in front. NaN where there is one. RuntimeError unless ``input`` is float32 or float64.
    """
    return _quantile(input, q, dim, keepdim, interpolation, skip_nan=False)


@public
@takes_out
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """``quantile`` of the elements that are not NaN; NaN where there is none."""
    return _quantile(input, q, dim, keepdim, interpolation, skip_nan=True)
