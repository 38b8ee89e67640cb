"""Histograms: how many values there are of each kind, or in each bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad.core import dtypes, return_types
from jitgrad.core.errors import cpp_type, invalid_combination, must_be, must_be_tensor, not_implemented_for, overflow
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import of_samples
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import planned
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, int_argument, is_int, number_argument
from jitgrad.kernels.launch import check, launch, prepared
from jitgrad.kernels.loops import histogram as kernels
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import Clone, contiguous

__all__: list[str] = []


def _flat(x: Tensor) -> Any:
    if x._layout.contiguous and type(x._data) is np.ndarray:
        return x._data.reshape(-1)
    return contiguous(unrecorded(x))._data.reshape(-1)


# -- of integers ------------------------------------------------------------------------------------------


# One launch finds both the range and the counts of at most SHORT elements, if all values are below FEW.
FEW, SHORT = 256, 4096


@planned("x")
def _few(x):
    """(how often 0 to FEW - 1 occur, [least, largest value]) in a vector; None if it is long or has larger values."""
    if x.ndim != 1 or x.numel > SHORT or not x.contiguous or x.device != "cpu":
        return lambda x: None
    run = prepared(kernels.count_few_values, x.numpy_dtype, x.shape, (FEW,), (2,))

    def count(x: Tensor) -> Any:
        counts, ends = np.zeros(FEW, np.int64), np.zeros(2, np.int64)
        run(x._data, counts, ends)
        return (counts, ends) if ends.item(1) < FEW else None

    return count


@public
@of_samples
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, ... is there, or the sum of its ``weights``; at least ``minlength`` of them.

    input: a vector of integers that are not negative. int64; the dtype of weights if that is float32, else float64.
    """
    least, layout = int_argument("bincount", "minlength", 3, minlength), input._layout
    if least < 0:
        raise RuntimeError("minlength should be >= 0")
    if layout.dtype.category != 1:
        raise not_implemented_for("bincount_cpu", layout.dtype)
    if layout.ndim == 1 and not layout.numel:
        return filled(intern(np.dtype(np.int64), (least,)), 0)
    if weights is not None and (weights._layout.ndim != 1 or weights._layout.numel != layout.numel):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if read_observers:  # the largest number decides the shape of the result
        announce_read("bincount()")
    few = _few(input) if weights is None else None
    if few is not None:
        counts, ends = few
    else:
        ends = np.zeros(2, np.int64)
        if layout.ndim == 1:
            launch(kernels.value_range, _flat(input), ends)
    if layout.ndim != 1 or ends.item(0) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    size = max(ends.item(1) + 1, least)
    if few is not None and size <= FEW:
        return wrap(counts[:size].copy(), intern(counts.dtype, (size,)))
    values = _flat(input)
    if weights is None:
        out = filled(intern(np.dtype(np.int64), (size,)), 0)
        launch(kernels.count_values, values, out._data)
        return out
    dtype = dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    out = filled(intern(dtype.numpy, (size,)), 0)
    launch(kernels.weigh_values, values, _flat(unrecorded(weights, dtype)), out._data)
    return out


# -- of numbers in bins -----------------------------------------------------------------------------------


def _ends_of(x: Any, margin: float, refuse: Any) -> Any:
    """The least and the largest element of an array, a vector; ``refuse(low, high)`` raises where one is not finite."""
    ends, found = np.empty(2, x.dtype), np.zeros(1, np.int64)
    launch(kernels.outer_edges, x, ends, found, margin)
    check(found, lambda found, ends: refuse(*ends.tolist()), ends)
    return ends


def _shown(value: float) -> str:
    return f"{value:g}"


def _refuse_range(low: float, high: float) -> NoReturn:
    raise RuntimeError(f"torch.histc: range of [{_shown(low)}, {_shown(high)}] is not finite")


@public
@takes_out
def histc(input: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    """How many elements are in each of ``bins`` equal bins from ``min`` to ``max``, in the dtype of ``input``.

    Without bounds they are the least and the largest element. Elements outside, and NaN, are left out.
    """
    dtype, count = input._layout.numpy_dtype, int_argument("histc", "bins", 2, bins)
    if count <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension 0")
    low, high = (number_argument("histc", n, k, v) for n, k, v in (("min", 3, min), ("max", 4, max)))
    if isinstance(low, complex) or isinstance(high, complex):
        raise overflow(dtypes.float64)
    if math.isfinite(low) and math.isfinite(high) and low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    if input._layout.dtype.is_half:
        return histc(input.to(dtypes.float32), count, low, high).to(input.dtype)
    if dtype.kind != "f":
        raise not_implemented_for("histogram_cpu", input._layout.dtype)
    low, high = dtype.type(low), dtype.type(high)
    x = _flat(input)
    if low == high and x.size:
        ends = _ends_of(x, 1, _refuse_range)
    else:
        if not math.isfinite(low) or not math.isfinite(high):
            _refuse_range(low, high)
        ends = np.array([low - 1, high + 1] if low == high else [low, high], dtype)
    out = filled(intern(dtype, (count,)), 0)
    launch(kernels.count_in_bins, x, ends, out._data)
    return out


def _edges(x: Any, count: int, bounds: Sequence[float] | None, dim: int) -> Tensor:
    """The edges of ``count`` equal bins of an array's values, between ``bounds`` if they are given."""
    op = "torch.histogramdd:"
    if count <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {dim}")

    def refuse(low: float, high: float) -> NoReturn:
        raise RuntimeError(f"{op} dimension {dim}'s range [{_shown(low)}, {_shown(high)}] is not finite")

    if bounds is None and x.size:
        ends = _ends_of(x, 0.5, refuse)
    else:
        low, high = (0.0, 1.0) if bounds is None else bounds
        if not math.isfinite(low) or not math.isfinite(high):
            refuse(low, high)
        if low > high:
            raise RuntimeError(
                f"{op} min should not exceed max, but got min {_shown(low)} max {_shown(high)} for dimension {dim}"
            )
        ends = np.array([low - 0.5, high + 0.5] if low == high else [low, high], x.dtype)
    layout = intern(x.dtype, (count + 1,))
    edges = wrap(empty_for(layout), layout)
    launch(kernels.spread_edges, ends, edges._data)
    return edges


def _counted(columns: list[Any], edges: Sequence[Tensor], even: bool, weight: Any, density: bool) -> Any:
    """The counts of points, whose coordinates are ``columns``, in the bins between edges along each dim."""
    places = np.zeros(columns[0].size, np.int64)
    vectors = [_flat(e) for e in edges]
    for column, vector in zip(columns, vectors, strict=True):
        launch(kernels.bin_places, column, vector, places, even)
    out: Any = filled(intern(columns[0].dtype, tuple([v.size - 1 for v in vectors])), 0)
    weights = np.empty(0, columns[0].dtype) if weight is None else _flat(weight)
    launch(kernels.add_at, places, weights, out._data.reshape(-1))
    if not density:
        return out
    out = out / out.sum()
    for d, e in enumerate(map(unrecorded, edges)):
        widths: Any = e[1:] - e[:-1]
        out = out / widths.reshape([-1 if k == d else 1 for k in range(len(edges))])
    return out


def _check_points(x: Tensor, count: int, edges: Sequence[Tensor], weight: Tensor | None) -> None:
    """RuntimeError unless ``x``, (..., N), has the coordinates for which there are bins, and ``weight`` fits it."""
    op, layout = "torch.histogramdd:", x._layout
    if layout.ndim < 2:
        raise RuntimeError(f"{op} input tensor should have at least 2 dimensions")
    if layout.shape[-1] != count:
        n = layout.shape[-1]
        if not edges:
            raise RuntimeError(
                "histogramdd: The size of bins must be equal to the innermost dimension of the input."
            )
        raise RuntimeError(f"{op} expected {n} sequences of bin edges for a {n}-dimensional histogram but got {count}")
    for d, e in enumerate(edges):
        if e._layout.dtype is not layout.dtype:
            raise RuntimeError(
                f"{op} input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{cpp_type(layout.dtype)} and bins for dimension {d} with dtype {cpp_type(e.dtype)}"
            )
        if e._layout.ndim != 1:
            raise RuntimeError(
                f"{op} bins tensor should have one dimension, but got {e._layout.ndim} dimensions in the bins tensor "
                f"for dimension {d}"
            )
        if not e._layout.numel:
            raise RuntimeError(
                f"{op} bins tensor should have at least 1 element, but got 0 elements in the bins tensor for "
                f"dimension {d}"
            )
    if weight is not None and weight._layout.dtype is not layout.dtype:
        raise RuntimeError(
            f"{op} if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
            f"input({cpp_type(layout.dtype)}), and weight({cpp_type(weight.dtype)})"
        )
    if weight is not None and weight._layout.shape != layout.shape[:-1]:
        raise RuntimeError(
            f"{op} if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {list(layout.shape)} and weight with shape "
            f"{list(weight._layout.shape)}"
        )


def _histogram(x: Tensor, bins: Sequence[Any], bounds: Any, weight: Tensor | None, density: bool) -> tuple[Any, Any]:
    """(counts, edges) of points (..., N); ``bins``: N numbers of bins, or N tensors of edges."""
    even = not isinstance(bins[0], Tensor) if bins else True
    _check_points(x, len(bins), [] if even else bins, weight)
    dtype = x._layout.dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise not_implemented_for("histogramdd", dtype)
    if bounds is not None and not isinstance(bounds, (list, tuple)):
        raise must_be("histogramdd", "range", 3, "tuple of floats", bounds)
    if bounds is not None and len(bounds) != 2 * len(bins):
        raise RuntimeError(
            f"torch.histogramdd: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, "
            f"but got {len(bounds)}"
        )
    if not bins:  # one bin for all of nothing: PyTorch counts no points in it
        return filled(intern(dtype.numpy, ()), math.nan if as_flag(density) else 0), []
    columns = [_flat(c) for c in unrecorded(x).unbind(-1)]
    if even:
        pairs = [None if bounds is None else bounds[2 * d : 2 * d + 2] for d in range(len(bins))]
        edges = [_edges(c, n, p, d) for d, (c, n, p) in enumerate(zip(columns, bins, pairs, strict=True))]
    else:
        edges = list(bins)
    return _counted(columns, edges, even, weight, as_flag(density)), edges


@public
@takes_out
def histogram(
    input: Tensor, bins: Tensor | int = 100, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:  # fmt: skip
    """(hist, bin_edges) of all elements: how many, or how much ``weight``, there is in each bin.

    bins: a number of equal bins, over ``range`` or from the least to the largest element; or a tensor of edges.
    density: as a density, whose integral is 1. Elements outside are left out; the last bin has its right edge.
    """
    given: Any = bins
    if range is not None and (isinstance(bins, Tensor) or not is_int(bins)):
        raise invalid_combination("histogram", (input, bins), range=range)
    points = input.reshape(-1, 1)
    given = given if isinstance(bins, Tensor) else int_argument("histogram", "bins", 2, bins)
    flat = None if weight is None else weight.reshape(-1)
    hist, (edges,) = _histogram(points, [given], range, flat, density)
    return return_types.histogram(hist, Clone.apply(contiguous(unrecorded(edges))) if edges is given else edges)


def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:  # fmt: skip
    """(hist, bin_edges) of points, whose N coordinates are the last dim of ``input``; see ``histogram``.

    bins: one number, or N numbers of bins or tensors of edges. range: the N pairs of bounds in one list.
    """
    if not isinstance(input, Tensor):
        raise must_be_tensor("histogramdd", "input", 1, input)
    if is_int(bins):
        bins = [bins] * (input._layout.shape[-1] if input._layout.ndim else 1)
    if not isinstance(bins, (tuple, list)) or not all(isinstance(b, Tensor) or is_int(b) for b in bins):
        raise invalid_combination("histogramdd", (input, bins))
    counts, edges = _histogram(input, bins, range, weight, density)
    shown: Any = tuple(edges)
    return return_types.histogramdd(counts, shown)


public(histogramdd, method_too=False)
