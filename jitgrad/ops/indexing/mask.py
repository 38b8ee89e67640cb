"""Masks: where elements are true, and reading and writing there."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import cpp_type, must_be_tensor, overflow, scalar_type
from jitgrad.core.layout import broadcast_shapes, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import BatchedCall, align, check_one_shape, is_batch, one_by_one, onto_first
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.inplace_ops import InplaceOp, through_rows
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.ops.creation.constants import convert_number, zeros
from jitgrad.ops.creation.fill import zeros_like
from jitgrad.ops.indexing.gather import folded
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["indices_of", "true_places"]


def _int64(*shape: int) -> Tensor:
    layout = intern(np.dtype(np.int64), shape, None, "cpu")
    return wrap(empty_for(layout), layout)


def true_places(x: Tensor) -> Tensor:
    """The places, counted row by row, of the elements that are not zero: int64, without history."""
    x = x.detach()
    check_one_shape("nonzero", x)
    flat = contiguous(x)._data.reshape(-1)
    count = np.empty(1, np.int64)
    launch(kernels.count_true, flat, count)
    places = _int64(int(count[0]))
    launch(kernels.true_places, flat, places._data)
    return places


def indices_of(x: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row for each: int64, shape (count, ndim)."""
    places = true_places(x)
    columns = _int64(x._layout.ndim, places._layout.numel)
    if x._layout.ndim:
        launch(kernels.unravel, places._data, columns._data, np.array(x._layout.shape, np.int64))
    return columns.t().detach()


@public
@takes_out
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: int64 of shape (count, ndim).

    ``as_tuple``: a vector for each dim instead, with which the tensor can be indexed.
    """
    if not as_tuple:
        return indices_of(input)
    return indices_of(input.reshape(1) if not input._layout.ndim else input).unbind(1)


@public
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row for each."""
    return indices_of(input)


# -- masked -------------------------------------------------------------------------------------------


def _check_mask(op: str, mask: Any) -> None:
    if not isinstance(mask, Tensor):
        raise must_be_tensor(op, "mask", 2, mask)
    if mask._layout.dtype is not bool_:
        if op == "masked_fill_":
            found = cpp_type(mask.dtype)
            raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {found}")
        raise RuntimeError(f"{op}: expected BoolTensor for mask")


def _mask_for(x: Tensor, mask: Tensor) -> Tensor:
    """The mask in the shape of ``x``, which it must broadcast to."""
    shape = tuple(broadcast_shapes(mask._layout.shape, x._layout.shape))
    if shape != x._layout.shape:
        raise RuntimeError(
            f"output with shape {list(x._layout.shape)} doesn't match the broadcast shape {list(shape)}"
        )
    return mask.detach().expand(shape)


def _choose(x: Tensor, mask: Tensor, value: Any) -> None:
    """x = value where the mask says so, x elsewhere."""
    plain = wrap(x._data, x._layout)
    copy_into(x._data, x._layout, table.where(_mask_for(x, mask), value, plain))


class MaskedFill(InplaceOp):
    """Set the elements where ``mask`` is true to a number."""

    batch = onto_first
    name = "masked_fill_number"
    samples = cases(lambda: (draw(2, 3), draw(2, 3) > 0, 1.5), lambda: (draw(2, 3), draw(3) > 0, 1.5))

    def write(x, mask, value):
        _check_mask("masked_fill_", mask)
        number = convert_number(value, x._layout.dtype)
        places = contiguous(_mask_for(x, mask))._data.reshape(-1)
        through_rows(x, lambda data: launch(kernels.fill_true, places, data.reshape(-1), number))

    def grad_x(g, mask):
        return MaskedFill.apply(g, mask, 0)


def _fill_masked_lot(call: BatchedCall) -> Any:
    """A number for each sample, chosen where the mask is true."""
    if "value" not in call.batched:
        return onto_first(call)
    x = call.whole("x")
    names = ("mask", "value")
    x, mask, value = align([(x, True), *((call[n], n in call.batched) for n in names)])
    return call.overwritten(table.where(mask, value.to(x.dtype), x))


def _masked_lot(call: BatchedCall) -> Any:
    """The same places in every sample."""
    if "places" in call.batched:
        return one_by_one(call)
    return call["x"].reshape(call.size, -1).index_select(1, call["places"])


class MaskedFillWith(InplaceOp):
    """Set the elements where ``mask`` is true to the value of a tensor without dimensions."""

    jointly_linear = ("x", "value")
    batch = _fill_masked_lot
    name, grad_name = "masked_fill_tensor", "MaskedFillBackward1"
    samples = cases(lambda: (draw(2, 3), draw(2, 3) > 0, draw(seed=1)))

    def write(x, mask, value):
        _check_mask("masked_fill_", mask)
        if value._layout.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._layout.ndim} dimension(s)."
            )
        if value._layout.dtype.is_complex and x._layout.dtype.category in (1, 2):
            raise overflow(x.dtype)
        _choose(x, mask, value.detach().to(x.dtype))

    def grad_x(g, mask):
        return MaskedFill.apply(g, mask, 0)

    def grad_value(g, mask, value_layout):
        return MaskedFill.apply(g, ~mask, 0).sum().to(value_layout.dtype)


@public
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """A copy with the elements where ``mask`` is true set to ``value``; both broadcast."""
    _check_mask("masked_fill_", mask)
    shape = tuple(broadcast_shapes(mask._layout.shape, input._layout.shape))
    x = input if shape == input._layout.shape else input.expand(shape)
    return (MaskedFillWith if isinstance(value, Tensor) else MaskedFill).apply(x, mask, value)


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """In-place version of ``masked_fill``."""
    return (MaskedFillWith if isinstance(value, Tensor) else MaskedFill).inplace(self, mask, value)


method(masked_fill_)


class MaskedSelect(Structured):
    """The elements where ``mask``, of the same shape, is true: a vector."""

    linear = ("x",)
    batch = _masked_lot
    name, grad_name = "masked_select_places", "MaskedSelectBackward0"
    samples = cases(lambda: (draw(2, 3), true_places(draw(2, 3) > 0)))

    def forward(x, places):
        layout = intern(x._layout.numpy_dtype, (places._layout.numel,), None, x._layout.device)
        out = wrap(empty_for(layout), layout)
        launch(kernels.take_rows, folded(x, (1, x._layout.numel, 1)), places._data, out._data.reshape(1, -1, 1))
        return out

    def grad_x(g, x_layout, places):
        return PutPlaces.apply(zeros_of(x_layout), places, g)


class PutPlaces(InplaceOp):
    """Set the elements at checked places, counted row by row, to those of ``source``."""

    jointly_linear = ("x", "source")
    grad_name = "MaskedScatterBackward0"
    samples = cases(lambda: (draw(2, 3), true_places(draw(2, 3) > 0), draw(6, seed=1)))

    def write(x, places, source):
        rows = folded(source, (1, -1, 1))[:, : places._layout.numel]
        through_rows(x, lambda data: launch(kernels.put_rows, rows, places._data, data.reshape(1, -1, 1)))

    def grad_x(g, places):
        return PutPlaces.apply(g, places, zeros_like(MaskedSelect.apply(g, places)))

    def grad_source(g, places, source_layout):
        found = MaskedSelect.apply(g, places)
        unused = source_layout.numel - found._layout.numel
        rest = [zeros(unused, dtype=g.dtype)] if unused else []
        return cat([found, *rest]).reshape(source_layout.shape)


@public
@takes_out
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` is true, as a vector; the two broadcast."""
    _check_mask("masked_select", mask)
    if is_batch(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for "
            "each batch this would return a differently shaped Tensor. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    shape = tuple(broadcast_shapes(mask._layout.shape, input._layout.shape))
    return MaskedSelect.apply(input.expand(shape), true_places(mask.detach().expand(shape)))


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
    """``masked_scatter`` by masks of which each has its own number of places."""
    _check_source(x, mask, source)
    mask = _mask_for(x, mask)
    order = mask.reshape(-1).cumsum(0).sub(1).clamp_min(0).reshape(mask.shape)  # which of the source goes where
    return table.where(mask, source.reshape(-1)[order], x)


@public
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy whose elements where ``mask`` is true are those of ``source``, in order."""
    if is_batch(mask):
        return _scattered_by_sample(input, mask, source)
    return PutPlaces.apply(input, _scatter_places(input, mask, source), source)


def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """In-place version of ``masked_scatter``."""
    if is_batch(mask):
        return self.copy_(_scattered_by_sample(self, mask, source))
    return PutPlaces.inplace(self, _scatter_places(self, mask, source), source)


method(masked_scatter_)
