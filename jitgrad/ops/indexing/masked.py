"""Reading and writing where a mask is true: masked_fill, masked_select, masked_scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import cpp_type, must_be_tensor, overflow, scalar_type
from jitgrad.core.layout import broadcast_shapes
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, align, is_batch, one_by_one, onto_first
from jitgrad.dispatch.copying import copy_into, filled
from jitgrad.dispatch.inplace_ops import InplaceOp, stored_once, through_rows, warn_of_expanded
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import check_out, into_out
from jitgrad.dispatch.planned import Launches, Number, Read, planned
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.kernels.loops import masks
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.indexing.index_errors import check_no_dims
from jitgrad.ops.indexing.nonzero import true_places
from jitgrad.ops.indexing.places import empty_like_layout, in_blocks, row_major, written
from jitgrad.ops.reduction.any_all import any as any_true
from jitgrad.ops.reduction.sums import Sum
from jitgrad.ops.shape.copy import cast, contiguous
from jitgrad.ops.shape.join import Cat
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import reshape

__all__: list[str] = []


def _check_mask(op: str, mask: Any) -> None:
    """TypeError or RuntimeError for what is no tensor of bools."""
    if not isinstance(mask, Tensor):
        raise must_be_tensor(op, "mask", 2, mask)
    if mask._layout.dtype is not bool_:
        if op == "masked_fill_":
            found = cpp_type(mask.dtype)
            raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {found}")
        raise RuntimeError(f"{op}: expected BoolTensor for mask")


def _fill_target(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(``x``, ``mask`` in its shape), both with each place in memory once: one true element of several sets it."""
    _check_mask("masked_fill_", mask)
    mask, stored = _mask_for(x, mask), stored_once(x)
    if stored is not x:
        pairs = zip(x._layout.shape, stored._layout.shape, strict=True)
        mask = any_true(mask, [d for d, (n, m) in enumerate(pairs) if n != m], keepdim=True)
    return stored, mask


def _mask_for(x: Tensor, mask: Tensor) -> Tensor:
    """The mask in the shape of ``x``, which it must broadcast to."""
    shape = tuple(broadcast_shapes(mask._layout.shape, x._layout.shape))
    if shape != x._layout.shape:
        raise RuntimeError(f"output with shape {list(x._layout.shape)} doesn't match the broadcast shape {list(shape)}")
    return mask.detach().expand(shape)


# -- masked_fill ----------------------------------------------------------------------------------------


class MaskedFill(InplaceOp, abstract=True):
    """Base of the two fills under a mask: by a number, and by a tensor without dims, which has a gradient."""

    allows_internal_overlap = True
    copy_strides = "row-major"
    reference = lambda x, mask, value: np.where(mask, value, x)

    def grad_x(g, mask):
        return MaskedFillNumber.apply(g, mask, 0)


@planned("x", "mask", numbers=("number",))
def _fill(x, mask, number):
    """Set the elements of ``x`` where ``mask`` is true: by one launch where both are row-major, of the same shape."""
    if x.shape == mask.shape and x.contiguous and mask.contiguous and not (x.dtype.is_half or x.dtype.is_complex):
        flat = Read("mask", (x.numel,)), Read("x", (x.numel,))
        return Launches([(masks.fill_true, *flat, Number("number"))], [], 0)
    return _fill_in_steps


def _fill_in_steps(x: Tensor, mask: Tensor, number: Any) -> None:
    x, mask = _fill_target(x, mask)
    places = contiguous(mask)._data.reshape(-1)
    through_rows(x, lambda data: launch(masks.fill_true, places, data.reshape(-1), number))


class MaskedFillNumber(MaskedFill):
    """Set the elements where ``mask`` is true to a number."""

    batch = onto_first
    grad_name = "MaskedFillBackward0"
    samples = cases(lambda: (draw(2, 3), draw(2, 3) > 0, 1.5), lambda: (draw(2, 3), draw(3) > 0, 1.5))

    def write(x, mask, value):
        _check_mask("masked_fill_", mask)
        _fill(x, mask, convert_number(value, x._layout.dtype))


def _fill_tensor_batched(call: BatchedCall) -> Any:
    """A number for each sample is chosen where the mask is true, since it is no tensor without dims any more."""
    if "value" not in call.batched:
        return onto_first(call)
    x = call.whole("x")
    names = ("mask", "value")
    x, mask, value = align([(x, True), *((call[n], n in call.batched) for n in names)])
    return call.overwritten(table.where(mask, value.to(x.dtype), x))


class MaskedFillTensor(MaskedFill):
    """Set the elements where ``mask`` is true to the value of a tensor without dimensions."""

    jointly_linear = ("x", "value")
    batch = _fill_tensor_batched
    grad_name = "MaskedFillBackward1"
    samples = cases(lambda: (draw(2, 3), draw(2, 3) > 0, draw(seed=1)))

    def write(x, mask, value):
        x, mask = _fill_target(x, mask)
        check_no_dims("masked_fill_", value)
        if value._layout.dtype.is_complex and x._layout.dtype.category in (1, 2):
            raise overflow(x.dtype)
        chosen = table.where(mask, cast(value.detach(), x._layout.dtype), wrap(x._data, x._layout))
        copy_into(x._data, x._layout, chosen)

    def grad_value(g, mask, value_layout):
        # The sum of g where the mask is true, the mask being broadcast to g as it was to x.
        return cast(Sum.apply(MaskedFillNumber.apply(g, table.bitwise_not(mask), 0)), value_layout.dtype)


@public
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """A copy with the elements where ``mask`` is true set to ``value``; both broadcast."""
    _check_mask("masked_fill_", mask)
    x, shape = input, input._layout.shape
    if mask._layout.shape != shape and (wider := tuple(broadcast_shapes(mask._layout.shape, shape))) != shape:
        x = input.expand(wider)
    return (MaskedFillTensor if isinstance(value, Tensor) else MaskedFillNumber).apply(x, mask, value)


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """In-place version of ``masked_fill``."""
    warn_of_expanded("masked_fill_", self, "tensor[mask] = scalar")
    return (MaskedFillTensor if isinstance(value, Tensor) else MaskedFillNumber).inplace(self, mask, value)


method(masked_fill_)


# -- masked_select and masked_scatter -------------------------------------------------------------------


def _select_batched(call: BatchedCall) -> Any:
    """Places that all samples share are read from all of them at once."""
    if "places" in call.batched:
        return one_by_one(call)
    return call["x"].reshape(call.size, -1).index_select(1, call["places"])


class MaskedSelect(Structured):
    """The elements at checked places, counted row by row: a vector."""

    linear = ("x",)
    batch = _select_batched
    name = "masked_select_places"
    samples = cases(lambda: (draw(2, 3), true_places(draw(2, 3) > 0)))
    reference = np.take

    def forward(x, places):
        out = empty_like_layout(x._layout, (places._layout.numel,))
        launch(kernels.take_rows, in_blocks(x, (1, x._layout.numel, 1)), places._data, out._data.reshape(1, -1, 1))
        return out

    def grad_x(g, x_layout, places):
        return PutPlaces.apply(zeros_of(x_layout), places, g)


class PutPlaces(InplaceOp):
    """Set the elements at checked places, counted row by row, to the first of ``source``, which may have more."""

    jointly_linear = ("x", "source")
    grad_name, copy_strides = "MaskedScatterBackward0", "row-major"
    samples = cases(lambda: (draw(2, 3), true_places(draw(2, 3) > 0), draw(6, seed=1)))
    reference = lambda x, places, source: written(x, source.reshape(-1)[: places.size], np.take, places)

    def write(x, places, source):
        # The source is used from its first element on, as many elements as there are places.
        rows = in_blocks(source, (1, source._layout.numel, 1))[:, : places._layout.numel]
        through_rows(x, lambda data: launch(kernels.put_rows, rows, places._data, data.reshape(1, -1, 1)))

    def grad_x(g, places):
        return PutPlaces.apply(g, places, filled(row_major(g._layout, places._layout.shape), 0))

    def grad_source(g, places, source_layout):
        found = MaskedSelect.apply(g, places)
        unused = source_layout.numel - found._layout.numel
        if unused:
            found = Cat.apply([found, filled(row_major(g._layout, (unused,)), 0)], 0)
        return reshape(found, source_layout.shape)


@public
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where ``mask`` is true, as a vector; the two broadcast."""
    _check_mask("masked_select", mask)
    if is_batch(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for "
            "each batch this would return a differently shaped Tensor. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    x, where = input, mask
    if mask._layout.shape != input._layout.shape:
        shape = tuple(broadcast_shapes(mask._layout.shape, input._layout.shape))
        x, where = input.expand(shape), mask.detach().expand(shape)
    result = MaskedSelect.apply(x, true_places(where))
    if isinstance(out, Tensor):
        if out.dtype is not result.dtype:
            raise RuntimeError("masked_select(): self and result must have the same scalar type")
        check_out(out, (input, mask))
    return into_out("masked_select", result, out)


def _check_source(x: Tensor, mask: Tensor, source: Tensor) -> None:
    _check_mask("masked_scatter", mask)
    if source._layout.dtype is not x._layout.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"  # the missing space is PyTorch's
            f"{scalar_type(x.dtype)} and {scalar_type(source.dtype)}"
        )


def _scatter_places(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    _check_source(x, mask, source)
    places = true_places(_mask_for(x, mask))
    if places._layout.numel > source._layout.numel:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    return places


def _scattered_by_sample(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``masked_scatter`` under vmap, where each sample's mask may have another number of true elements."""
    _check_source(x, mask, source)
    mask = _mask_for(x, mask)
    # Where the mask is true: how many true elements come before, which is the number of the source's element.
    order = mask.reshape(-1).cumsum(0).sub(1).clamp_min(0).reshape(mask.shape)
    return table.where(mask, source.reshape(-1)[order], x)


@public
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy whose elements where ``mask`` is true are those of ``source``, in order; input and mask broadcast."""
    if is_batch(mask):
        return _scattered_by_sample(input, mask, source)
    input = input.expand(broadcast_shapes(mask._layout.shape, input._layout.shape))
    return PutPlaces.apply(input, _scatter_places(input, mask, source), source)


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """In-place version of ``masked_scatter``."""
    if is_batch(mask):
        return self.copy_(_scattered_by_sample(self, mask, source))
    return PutPlaces.inplace(self, _scatter_places(self, mask, source), source)


method(masked_scatter_)
