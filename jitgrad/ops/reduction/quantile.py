"""Quantiles: values between those that stand at given fractions of sorted rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import quantile as kernels
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.reduction.sort import Sort

__all__: list[str] = []

_MOST = 1 << 24  # up to which float32 counts elements exactly


def _fractions(x: Tensor, q: Any) -> Tensor:
    """``q`` as a tensor, which is checked; RuntimeError for what quantiles are not taken of."""
    given = isinstance(q, Tensor)
    if not given:
        number = float_argument("quantile", "q", 2, q)
        if not 0 <= number <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {number:g}")
        q = filled(intern(x._layout.numpy_dtype, ()), number)
    if not x._layout.numel:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if q._layout.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if x._layout.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if q._layout.dtype is not x._layout.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if given and not ((unrecorded(q) >= 0) & (unrecorded(q) <= 1)).all().item():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return q


class Ranks(Structured):
    """(places below, places above, weight of the latter) of each fraction ``q`` in rows of ``x`` in order.

    The weight grows with the fraction, by the last place of a row; its places do not change with it.
    """

    name, multiple_results, results = "_quantile_ranks", True, ("below", "above", "weights")
    samples = cases(lambda: (draw(3, 5).msort().detach(), draw(2, low=0.1, high=0.9), 0, False))

    def plan(x_layout, q_layout, interpolation, skip_nan):
        shape, m = x_layout.shape, q_layout.numel
        rows, out = x_layout.numel // shape[-1], (*shape[:-1], m)
        layouts = [intern(np.dtype(d), out) for d in (np.int64, np.int64, x_layout.numpy_dtype)]
        arrays = row_major("x", x_layout, (rows, shape[-1])), row_major("q", q_layout, (m,))
        results = [Written(k, (rows, m)) for k in range(3)]
        return Launches([(kernels.ranks, *arrays, *results, interpolation, skip_nan)], layouts, 3)

    def grad_q(g, x, q_layout, skip_nan):
        missing, last = unrecorded(x).isnan().sum(-1, True), x._layout.shape[-1] - 1
        spans = (last - missing).clamp(min=0) if skip_nan else (missing == 0) * last
        return (g[2] * spans).reshape(-1, q_layout.numel).sum(0)


def _quantile(x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool) -> Tensor:
    if interpolation not in kernels.INTERPOLATIONS:
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
    vector = q if q._layout.ndim else q.reshape(1)
    below, above, weights = Ranks.apply(rows, vector, kernels.INTERPOLATIONS.index(interpolation), skip_nan)
    found = rows.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        found = found.lerp(rows.gather(-1, above), 0.5 if interpolation == "midpoint" else weights)
    # In place, for the result is no view. A scalar ``q`` is a vector of one fraction until here.
    front = q._layout.ndim
    if front:
        found.unsqueeze_(0).transpose_(0, -1)
    found.squeeze_(-1)
    for _ in range(ndim if whole and kept else 0):
        found.unsqueeze_(-1)
    return found if whole or kept else found.squeeze_(d + front)


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
