"""Differences between neighbours, and what is made of them: derivatives and integrals of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import invalid_combination, must_be
from jitgrad.core.layout import as_int, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.ops.reduction.scan import cumsum
from jitgrad.ops.shape.join import Cat
from jitgrad.ops.shape.slicing import Slice, without_dim, zeros_of

__all__: list[str] = []


def _part(x: Tensor, d: int, begin: int, end: int) -> Tensor:
    """``x[begin:end]`` along ``d``; a negative edge counts from the end, 0 as an ``end`` is the end itself."""
    n = x._layout.shape[d]
    first, last = (begin if begin >= 0 else max(n + begin, 0)), (end if end > 0 else max(n + end, 0))
    return Slice.apply(x, d, min(first, n), max(min(first, n), min(last, n)), 1)


@public
@takes_out
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The ``n``-th differences of neighbours along ``dim``; of bools, whether they differ.

    ``prepend`` and ``append`` are put before and behind ``input`` first; RuntimeError unless they have its shape but
    along ``dim``.
    """
    layout = input._layout
    if not layout.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    n = int_argument("diff", "n", 2, n)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = normalize_dim(dim, layout.ndim)
    beside = [t for t in (prepend, append) if t is not None]
    for other in beside:
        _check_beside(layout.shape, other._layout.shape, d)
    if not n:
        return input.clone()
    if beside:
        input = Cat.apply([t for t in (prepend, input, append) if t is not None], d)
    for _ in range(min(n, input._layout.shape[d])):
        size = input._layout.shape[d]
        later, earlier = Slice.apply(input, d, 1, size, 1), Slice.apply(input, d, 0, size - 1, 1)
        input = later.logical_xor(earlier) if layout.dtype.category == 0 else later - earlier
    return input


def _check_beside(shape: Sequence[int], other: Sequence[int], d: int) -> None:
    if len(shape) != len(other):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for k, (n, m) in enumerate(zip(shape, other, strict=True)):
        if n != m and k != d:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({k}) = {n}, but got tensor.size({k}) = {m}"
            )


# -- derivatives ------------------------------------------------------------------------------------------


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimates of the partial derivatives of a function from its samples: a tensor for each of ``dim`` (all dims).

    Inside by the parabola through an element and its neighbours, at the edges by the line (``edge_order`` 2: parabola)
    through the outermost. spacing: the distance of samples, one for each dim, or for each dim a vector of coordinates.
    """
    dims = None if dim is None else [as_int(d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
    ndim = input._layout.ndim
    count = ndim if dims is None else len(dims)
    steps = _steps(spacing, count)
    _check_gradient(input, None if spacing is None and dims is None else len(steps), dims, edge_order)
    along = range(ndim) if dims is None else [normalize_dim(d, ndim) for d in dims]
    derivative = _derivative_by_coordinates if any(isinstance(s, Tensor) for s in steps) else _derivative
    return tuple([derivative(input, d, s, edge_order) for d, s in zip(along, steps, strict=True)])


def _steps(spacing: Any, count: int) -> list[Any]:
    """The spacing as a list, with one item for each of ``count`` dims if it is one number."""
    if spacing is None:
        return [1] * count
    if isinstance(spacing, (tuple, list)):
        if not all(isinstance(s, (Tensor, *NUMBERS)) for s in spacing):
            raise must_be("gradient", "spacing", None, "tuple of Scalars", spacing)
        return list(spacing)
    if isinstance(spacing, NUMBERS) or (isinstance(spacing, Tensor) and not spacing._layout.ndim):
        return [spacing.item() if isinstance(spacing, (Tensor, np.generic)) else spacing] * count
    raise must_be("gradient", "spacing", None, "Number", spacing)


def _check_gradient(x: Tensor, given: int | None, dims: Sequence[int] | None, edge_order: int) -> None:
    shape = x._layout.shape
    if x._layout.numpy_dtype == np.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if given is not None and dims is None and given != len(shape):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{len(shape)}', since dim argument was not given, but got a list of length {given}"
        )
    if given is not None and dims is not None and given != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got a spacing argument of length {given} and a dim argument of length {len(dims)}."
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    along = range(len(shape)) if dims is None else [normalize_dim(d, len(shape)) for d in dims]
    for d in along:
        if list(along).count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if any(shape[d] < edge_order + 1 for d in along if shape):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")


def _derivative(x: Any, d: int, step: Any, edge_order: int) -> Tensor:
    """The derivative along ``d`` of samples that are ``step`` apart."""
    center = (_part(x, d, 2, 0) - _part(x, d, 0, -2)) / step / 2
    edges = []
    for inward, sign in (((0, 1, 2), 1), ((-1, -2, -3), -1)):
        a, b, *rest = (_part(x, d, k, k + 1) for k in inward[: edge_order + 1])
        if rest:
            slope: Any = a * (-1.5 * sign) + b * (2 * sign) - rest[0] * (0.5 * sign)
        else:
            slope = b - a if sign > 0 else a - b
        edges.append(slope / step)
    return Cat.apply([edges[0], center, edges[1]], d)


def _derivative_by_coordinates(x: Any, d: int, places: Any, edge_order: int) -> Tensor:
    """The derivative along ``d`` of samples at the coordinates ``places``."""
    if places._layout.ndim != 1:
        raise RuntimeError(
            "torch.gradient expected each element of spacing to have one dimension, but got an element with "
            f"{places._layout.ndim} dimensions! "
        )
    gaps: Any = diff(places)
    h, k = (t.reshape([-1 if e == d else 1 for e in range(x._layout.ndim)]) for t in (gaps[:-1], gaps[1:]))
    center = (
        _part(x, d, 0, -2) * (-k / (h * (h + k))) + _part(x, d, 1, -1) * ((k - h) / (h * k))
        + _part(x, d, 2, 0) * (h / (k * (h + k)))
    )  # fmt: skip
    edges = []
    for inward, near, next_, sign in (((0, 1, 2), 0, 1, 1), ((-1, -2, -3), -1, -2, -1)):
        a, b, *rest = (_part(x, d, e, e + 1) for e in inward[: edge_order + 1])
        h = gaps[near] * sign
        if rest:
            k = gaps[next_] * sign
            slope = a * (-(2 * h + k) / (h * (h + k))) + b * ((h + k) / (h * k)) - rest[0] * (h / (k * (h + k)))
        else:
            slope = (b - a) / h
        edges.append(slope)
    return Cat.apply([edges[0], center, edges[1]], d)


public(gradient, method_too=False)


# -- integrals --------------------------------------------------------------------------------------------


def _gaps(op: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> tuple[Any, int]:
    """(distances of neighbours' places, dim)."""
    if x is not None and dx is not None:
        raise invalid_combination(op, (y, x))
    d, shape = normalize_dim(dim, y._layout.ndim), y._layout.shape
    if y._layout.dtype.category == 0 or (x is not None and x._layout.dtype.category == 0):
        named = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{op}: received a bool input for {named}, but bool is not supported")
    if x is None:
        if isinstance(dx, (bool, complex)):
            raise RuntimeError(f"{op}: Currently, we only support dx as a real number.")
        return 1 if dx is None else dx, d
    if x._layout.ndim == 1:
        if x._layout.shape[0] != shape[d]:
            raise RuntimeError(f"{op}: There must be one `x` value for each sample point")
        x = x.view([-1 if k == d else 1 for k in range(len(shape))])
    elif x._layout.ndim < len(shape):
        x = x.view((*(1,) * (len(shape) - x._layout.ndim), *x._layout.shape))
    assert x is not None
    return _part(x, d, 1, 0) - _part(x, d, 0, -1), d


def _sums(y: Tensor, d: int) -> Tensor:
    """The sums of neighbours."""
    return _part(y, d, 0, -1) + _part(y, d, 1, 0)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along ``dim`` of samples ``y`` at places ``x``, or ``dx`` apart, by the trapezoidal rule."""
    d = normalize_dim(dim, y._layout.ndim)
    if y._layout.ndim and not y._layout.shape[d]:
        return zeros_of(without_dim(y._layout, d))
    gaps, d = _gaps("trapezoid", y, x, dx, dim)
    if x is None:  # all but the ends count twice
        return (y.sum(d) - (y.select(d, 0) + y.select(d, -1)) * 0.5) * gaps
    return (_sums(y, d) * gaps).sum(d) / 2


def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """``trapezoid`` by its older name."""
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals up to each sample but the first, by the trapezoidal rule; see ``trapezoid``."""
    gaps, d = _gaps("cumulative_trapezoid", y, x, dx, dim)
    sums = _sums(y, d)
    return cumsum(sums, d) * (gaps / 2) if x is None else cumsum(sums * gaps, d) / 2


for _function in (trapezoid, trapz, cumulative_trapezoid):
    public(_function, method_too=False)
