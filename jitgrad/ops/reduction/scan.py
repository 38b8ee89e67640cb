"""Running sums and products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.op_samples import draw
from jitgrad.dispatch.registry import numpy_names, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import scan as kernels
from jitgrad.ops.creation.constants import arange
from jitgrad.ops.reduction.reduction_plan import check_tensor, plan_reduction, unrecorded
from jitgrad.ops.reduction.sums import accumulated
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = ["Cumprod", "Cumsum"]

SUMS = (kernels.cumsum_rows, kernels.cumsum_columns)
PRODUCTS = (kernels.cumprod_rows, kernels.cumprod_columns)


def _scan(pair: tuple[Kernel, Kernel], x: Tensor, dim: int, dtype: dtypes.dtype | None, *options: Any) -> Tensor:
    dtype = accumulated(x, dtype)
    source = contiguous(unrecorded(x, dtype))
    layout = intern(dtype.numpy, x._layout.shape)
    plan = plan_reduction(layout, normalize_dim(dim, layout.ndim))
    data = np.empty(layout.shape, layout.numpy_dtype)
    launch(pair[not plan.flat], plan.read(source), data.reshape(plan.source), *options)
    return wrap(data, layout)


def _samples() -> Iterator[Any]:
    yield (draw(3, 4), 1), {}
    yield (draw(4, 3).t(), 0), {}
    yield (draw(2, 3, 4), 1), {}
    yield (draw(), 0), {}


class Cumsum(Structured):
    """Running sums along a dim."""

    linear = ("x",)
    batch = over_dims("dim")
    name, samples = "_cumsum", staticmethod(_samples)

    def forward(x, dim, dtype=None, backwards=False):
        return _scan(SUMS, x, dim, dtype, backwards)

    def grad_x(g, x_layout, dim, backwards):
        return cast(Cumsum.apply(g, dim, None, not backwards), x_layout.dtype)


class Cumprod(Structured):
    """Running products along a dim."""

    batch = over_dims("dim")
    name = "_cumprod"

    def forward(x, dim, dtype=None):
        return _scan(PRODUCTS, x, dim, dtype)

    def grad_x(g, out, x, dim):
        source, x = x._layout, cast(x, g._layout.dtype)
        if (x.detach() == 0).any().item():
            return cast(_without_each(g, x, normalize_dim(dim, source.ndim)), source.dtype)
        return cast(Cumsum.apply(g * out.conj(), dim, None, True) / x.conj(), source.dtype)

    def kernel_x(g, out, x, dim):
        source, x = x._layout, unrecorded(x, g._layout.dtype)
        return cast(_first_zero_apart(g, out, x, dim), source.dtype)

    @staticmethod
    def samples() -> Iterator[Any]:
        yield from _samples()
        yield (draw(3, 5) * (draw(3, 5) > 0), 1), {}  # with zeros


def _without_each(g: Tensor, x: Tensor, d: int) -> Tensor:
    """Sums of g times running products that leave out one element each: right beside any zeros.

    Takes n times the memory; serves where a zero forbids dividing by the element.
    """
    if not x._layout.ndim:
        return g
    n = x.shape[d]
    place = arange(n)
    ones = [1] * (x._layout.ndim - d - 1)
    out, at = place.reshape(n, 1, *ones), place.reshape(1, n, *ones)
    products = Cumprod.apply(table.where(out == at, 1, x.unsqueeze(d)), d + 1)
    return (table.where(at >= out, products.conj(), 0) * g.unsqueeze(d)).sum(d + 1)


def _first_zero_apart(g: Tensor, out: Tensor, x: Tensor, dim: int) -> Tensor:
    """The same in linear time: only at the first zero of a row do products without it matter."""
    where: Any = table.where
    zero: Any = x == 0  # Any: to a type checker == is bool
    first = zero & (Cumsum.forward(zero, dim) == 1)
    safe, without = where(zero, 1, x).conj(), Cumprod.forward(where(first, 1, x), dim).conj()
    elsewhere = where(zero, 0, Cumsum.forward(g * out.conj(), dim, None, True) / safe)
    return where(first, Cumsum.forward(g * without, dim, None, True), elsewhere)


def _checked(op: str, x: Tensor, dim: Any) -> Layout:
    check_tensor(op, x)
    if dim is ...:
        raise TypeError(f'{op}() missing 1 required positional arguments: "dim"')
    return x._layout


@public
@numpy_names
def cumsum(input: Tensor, dim: int = ..., *, dtype: dtypes.dtype | None = None) -> Tensor:  # type: ignore[assignment]
    """Running sums along ``dim``; bools and integers as int64 unless ``dtype`` says otherwise."""
    _checked("cumsum", input, dim)
    return Cumsum.apply(input, dim, dtype)


@public
@numpy_names
def cumprod(input: Tensor, dim: int = ..., *, dtype: dtypes.dtype | None = None) -> Tensor:  # type: ignore[assignment]
    """Running products along ``dim``; bools and integers as int64 unless ``dtype`` says otherwise."""
    _checked("cumprod", input, dim)
    return Cumprod.apply(input, dim, dtype)
