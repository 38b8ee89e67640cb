"""Sums, means and products over dims."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..dtypes import TITLES
from ..kernels import reduction as kernels
from ..kernels.launch import launch
from ..layout import Layout
from ..tensor import Tensor, wrap
from .copy import cast
from .fold import fold, reduce_chunks
from .registry import public
from .structured import Structured

__all__ = ["as_before", "plain", "spread"]


def plain(x: Tensor, dtype: dtypes.dtype | None = None) -> Tensor:
    """The values of ``x`` outside the graph, cast to ``dtype`` if given."""
    if dtype is None or dtype is x._layout.dtype:
        return x
    return cast(wrap(x._data, x._layout), dtype)


def as_before(g: Tensor, layout: Layout, dim: Any, keepdim: bool) -> Tensor:
    """A result-shaped tensor with the reduced dims put back as ones, so that it broadcasts."""
    if keepdim or not layout.ndim:
        return g
    dims = fold(wrap(None, layout), dim, False).ones
    return g.reshape(dims)


def spread(g: Tensor, layout: Layout, dim: Any, keepdim: bool) -> Tensor:
    """A result-shaped tensor repeated along the reduced dims."""
    return as_before(g, layout, dim, keepdim).expand(layout.shape)


def _sum(x: Tensor, dim: Any, keepdim: bool, dtype: dtypes.dtype | None) -> Tensor:
    source = x._layout.dtype
    if dtype is None:
        dtype = dtypes.int64 if source.category < 2 else source
    x = plain(x, dtype if dtype.category >= 2 else None)
    folded = fold(x, dim, keepdim)
    array, out = folded.empty(dtype.numpy)
    reduce_chunks(kernels.sum_rows, kernels.sum_columns, folded.read(x), array)
    return out


def _mean(x: Tensor, dim: Any, keepdim: bool, dtype: dtypes.dtype | None) -> Tensor:
    known = dtype or x._layout.dtype
    if known.category < 2:
        which, title = ("Input", TITLES[known.name]) if dtype is None else ("Optional", TITLES[known.name])
        raise RuntimeError(
            "mean(): could not infer output dtype. "
            f"{which} dtype must be either a floating point or complex dtype. Got: {title}"
        )
    out = _sum(x, dim, keepdim, dtype)
    launch(kernels.divide, out._data.ravel("K"), fold(x, dim, keepdim).n)
    return out


class Sum(Structured):
    """Sum of all elements."""

    name, function, method = "sum_all", False, False

    def forward(x, dtype=None):
        return _sum(x, None, False, dtype)

    def grad_x(g, x_layout):
        return cast(g.expand(x_layout.shape), x_layout.dtype)


class SumDim(Structured):
    """Sum over dims."""

    name, grad_name, function, method = "sum_dim", "SumBackward1", False, False

    def forward(x, dim, keepdim=False, dtype=None):
        return _sum(x, dim, keepdim, dtype)

    def grad_x(g, x_layout, dim, keepdim):
        return cast(spread(g, x_layout, dim, keepdim), x_layout.dtype)


class Mean(Structured):
    """Mean of all elements."""

    name, function, method = "mean_all", False, False

    def forward(x, dtype=None):
        return _mean(x, None, False, dtype)

    def grad_x(g, x_layout):
        return cast(g.expand(x_layout.shape) / x_layout.numel, x_layout.dtype)


class MeanDim(Structured):
    """Mean over dims."""

    name, grad_name, function, method = "mean_dim", "MeanBackward1", False, False

    def forward(x, dim, keepdim=False, dtype=None):
        return _mean(x, dim, keepdim, dtype)

    def grad_x(g, x_layout, dim, keepdim):
        n = fold(wrap(None, x_layout), dim, keepdim).n
        return cast(spread(g, x_layout, dim, keepdim) / n, x_layout.dtype)


@public
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim``: an int, several, or None for all dims.

    Bools and integers are summed as int64 unless ``dtype`` says otherwise. float32 is summed in
    blocks whose totals are float64. IndexError for a dim out of range.
    """
    if dim is None and not keepdim:
        return Sum.apply(input, dtype)
    return SumDim.apply(input, dim, keepdim, dtype)


@public
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim``: an int, several, or None for all dims; NaN where there is nothing.

    RuntimeError for bools and integers unless a floating ``dtype`` is given.
    """
    if dim is None and not keepdim:
        return Mean.apply(input, dtype)
    return MeanDim.apply(input, dim, keepdim, dtype)
