"""Where values stand in sorted rows, and whether they are there."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.dtypes import int32, int64
from jitgrad.core.errors import invalid_combination, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import search as kernels
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.creation.type_info import result_type
from jitgrad.ops.indexing.gather import Gather
from jitgrad.ops.indexing.places import checked_index
from jitgrad.ops.shape.copy import cast

__all__: list[str] = []


def _search_batched(call: BatchedCall) -> Any:
    """Values of all samples in one row of boundaries, or each sample's vector in its own row."""
    if call.ndim("bounds") == 1 and ("bounds" not in call.batched or call.ndim("values") == 1):
        return call.run(values=call.whole("values")) if "bounds" in call.batched else call.run()
    return one_by_one(call)


def _searched(bounds: Any, values: Any, right: bool, out_int32: bool = False) -> Any:
    side: Any = "right" if right else "left"
    rows = np.broadcast_to(bounds, (*values.shape[:-1], bounds.shape[-1])).reshape(-1, bounds.shape[-1])
    places = [np.searchsorted(b, v, side) for b, v in zip(rows, values.reshape(len(rows), -1), strict=True)]
    return np.stack(places).reshape(values.shape)


class Search(Structured):
    """Places in sorted rows of ``bounds`` before, or with ``right`` behind, elements equal to ``values``."""

    name = "_searchsorted"
    batch = _search_batched
    reference = _searched
    samples = cases(
        lambda: (draw(5).msort(), draw(3, 4, seed=1), False),
        lambda: (draw(5, 3).msort().t(), draw(3, 4, seed=1), True, True),
    )

    def plan(bounds_layout, values_layout, right, out_int32=False):
        n, m = bounds_layout.shape[-1], values_layout.shape[-1] if values_layout.ndim else 1
        rows, all_rows = bounds_layout.numel // max(n, 1), values_layout.numel // max(m, 1)
        if bounds_layout.ndim == 1:
            rows, all_rows, m = 1, 1, values_layout.numel
        out = intern(np.dtype(np.int32 if out_int32 else np.int64), values_layout.shape)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        arrays = row_major("bounds", bounds_layout, (rows, n)), row_major("values", values_layout, (all_rows, m))
        return Launches([(kernels.search, *arrays, Written(0, (all_rows, m)), right)], [out])


def _check(bounds: Layout, values: Layout, sorter: Layout | None) -> None:
    """RuntimeError unless the shapes of boundaries, values and sorter fit."""
    op = "torch.searchsorted():"
    if sorter is not None and sorter.shape != bounds.shape:
        raise RuntimeError(
            f"{op} boundary and sorter must have the same size, but got boundary tensor {list(bounds.shape)}and got "
            f"sorter tensor {list(sorter.shape)}"
        )
    if sorter is not None and sorter.dtype is not int64:
        raise RuntimeError(f"{op} sorter must be a tensor of long dtype but got dtype {scalar_type(sorter.dtype)}")
    if not values.ndim and bounds.ndim != 1:
        raise RuntimeError(
            f"{op} input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries "
            f"tensor dim({bounds.ndim}) and input value's dim({values.ndim}) numel({values.numel})"
        )
    if not bounds.ndim:
        raise RuntimeError(f"{op} boundaries tensor should have positive dimension, but got 0 dimension")
    if bounds.ndim != 1 and bounds.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"{op} boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
            f"value tensor must match, but we got boundaries tensor {list(bounds.shape)} and input value tensor "
            f"{list(values.shape)}"
        )


def _places(bounds: Tensor, values: Any, out_int32: bool, right: bool, sorter: Tensor | None = None) -> Tensor:
    """The places of values, a tensor or a number, in checked rows, all of them in the dtype that both promote to."""
    dtype = bounds._layout.dtype
    if not isinstance(values, Tensor) or values._layout.dtype is not dtype:
        dtype = result_type(bounds, values)
        bounds = cast(bounds, dtype)
        values = cast(values, dtype) if isinstance(values, Tensor) else tensor(values, dtype=dtype)
    if values._layout.ndim == 0 or bounds._layout.ndim != 1 or sorter is not None:
        _check(bounds._layout, values._layout, None if sorter is None else sorter._layout)
    if dtype.category in (0, 3):
        if not values._layout.numel:  # PyTorch returns before it looks for a kernel of the dtype
            return values.new_empty(values.shape, dtype=int32 if as_flag(out_int32) else int64)
        raise not_implemented_for("searchsorted_out_cpu", dtype)
    if sorter is not None:
        error_of = lambda value: RuntimeError("torch.searchsorted(): sorter index out of range")
        bounds = Gather.apply(bounds, -1, checked_index(sorter, bounds._layout.shape[-1], error_of))
    return Search.apply(bounds, values, as_flag(right), as_flag(out_int32))


def searchsorted(
    sorted_sequence: Tensor, input: Any = ..., *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None, self: Any = ...,
) -> Tensor:  # fmt: skip
    """Places at which values would keep the rows of ``sorted_sequence``, along its last dim, sorted.

    input: values, a number or a tensor; where ``sorted_sequence`` has several rows it has one for each of them. Before
    equal elements, behind them with ``right`` or ``side="right"``. sorter: the order that sorts the rows, as of
    ``argsort``. The result is int64, or int32 with ``out_int32``.
    """
    values = self if input is ... else input
    if not isinstance(sorted_sequence, Tensor) or not isinstance(values, (Tensor, *NUMBERS)):
        raise invalid_combination("searchsorted", (sorted_sequence, values))
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            f"torch.searchsorted(): side and right can't be set to opposites, got side of {side} while right was True"
        )
    return _places(sorted_sequence, values, out_int32, right or side == "right", sorter)


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the interval between sorted ``boundaries``, a vector, in which each value lies.

    A value that is a boundary belongs to the interval that ends there, with ``right`` to the one that begins there.
    """
    if not isinstance(boundaries, Tensor) or not isinstance(input, (Tensor, *NUMBERS)):
        raise invalid_combination("bucketize", (input, boundaries))
    if boundaries._layout.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._layout.ndim})")
    return _places(boundaries, input, out_int32, right)


# -- whether values are there -----------------------------------------------------------------------------


class Member(Structured):
    """Whether the elements of ``x`` are among those of the vector ``wanted``; with ``invert``, whether not."""

    name = "_isin"
    batch = lambda call: call.run() if call.batched == {"x"} else one_by_one(call)
    reference = lambda x, wanted, invert: np.isin(x, wanted, invert=invert)
    samples = cases(
        lambda: (draw(3, 4).round(), draw(3, seed=1).round(), False),
        lambda: (draw(3, 4).round(), draw(3, seed=1).round(), True),
    )

    def plan(x_layout, wanted_layout, invert):
        shape, n = (x_layout.numel,), wanted_layout.numel
        out = intern(np.dtype(np.bool_), x_layout.shape)
        if n <= kernels.FEW:
            arrays = row_major("x", x_layout, shape), row_major("wanted", wanted_layout, (n,)), Written(0, shape)
            return Launches([(kernels.member_of_few, *arrays, invert)], [out])
        sort = kernels.sorted_values, row_major("wanted", wanted_layout, (n,)), Written(1)
        find = kernels.member, row_major("x", x_layout, shape), Written(1), Written(0, shape), invert
        return Launches([sort, find], [out, intern(x_layout.numpy_dtype, (n,))])


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements are among ``test_elements``; either may be a number. ``invert``: which are not."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise invalid_combination("isin", (elements, test_elements))
    if isinstance(elements, Tensor) and isinstance(test_elements, Tensor):
        mine, theirs = elements._layout.dtype, test_elements._layout.dtype
        if mine is theirs and mine.category in (1, 2):
            return Member.apply(elements, test_elements, as_flag(invert))
    dtype = result_type(elements, test_elements)
    for given in (elements, test_elements):
        kind = (given if isinstance(given, Tensor) else tensor(given)).dtype
        if kind.category in (0, 3):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {scalar_type(kind)}")
    values, wanted = (t if isinstance(t, Tensor) else tensor(t, dtype=dtype) for t in (elements, test_elements))
    return Member.apply(cast(values, dtype), cast(wanted, dtype), as_flag(invert))


for _function in (searchsorted, bucketize, isin):
    public(takes_out(_function), method_too=False)
