"""Tensors joined along a dim: cat, stack and what is made of them; unbind, whose gradient stack is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import must_be
from jitgrad.core.layout import Layout, collapse, intern, normalize_dim
from jitgrad.core.storage import allocator, counter_of, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.tensor_observers import announce_tensor, tensor_observers
from jitgrad.dispatch.batch_rules import BatchedCall, over_dims
from jitgrad.dispatch.copying import copy_into, filled
from jitgrad.dispatch.memory_formats import strides_of_result
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import check_devices, check_tensors
from jitgrad.dispatch.out_argument import into_out
from jitgrad.dispatch.planned import planned
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.structured import Structured, View
from jitgrad.dispatch.views import several_views
from jitgrad.kernels.direct_call import DIRECT_BYTES
from jitgrad.kernels.launch import launch, observers
from jitgrad.kernels.loops.join import MOST_LOOPS, Join, Part, compiled_join, join
from jitgrad.ops.shape.copy import cast_gradient
from jitgrad.ops.shape.slicing import Slice, with_size, without_dim, zeros_of

__all__ = ["Cat", "SplitView", "Stack", "Unbind", "cat", "parts_at", "stack"]


def _listed(op: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)):
        raise must_be(op, "tensors", 1, "tuple of Tensors", tensors)
    check_tensors(tensors)
    check_devices(op, [t._layout for t in tensors])
    return list(tensors)


def _common_dtype(layouts: Sequence[Layout]) -> dtypes.dtype:
    """The dtype of the result: tensors without dims yield to others of their category, as in arithmetic."""
    return dtypes.promote([x.dtype for x in layouts if x.ndim], [x.dtype for x in layouts if not x.ndim], [])


def _cat_shape(layouts: Sequence[Layout], dim: int) -> tuple[int, tuple[int, ...]]:
    """(dim, shape of the result); errors where shapes differ elsewhere."""
    for k, layout in enumerate(layouts):
        if not layout.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated")
    counted = [(k, x.shape) for k, x in enumerate(layouts) if x.shape != (0,)]  # which fits beside anything
    if not counted:
        return 0, (0,)  # whatever ``dim`` says
    first = counted[0][1]
    dim = normalize_dim(dim, len(first))
    for k, shape in counted:
        if len(shape) != len(first):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
        for d, n in enumerate(shape):
            if d != dim and n != first[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {first[d]} but got size "
                    f"{n} for tensor number {k} in the list."
                )
    return dim, (*first[:dim], sum(s[dim] for _, s in counted), *first[dim + 1 :])


class _Place(NamedTuple):
    """Where a tensor goes in the result: the index, layout and, in elements, first place of a view of it."""

    index: Any
    layout: Layout
    offset: int


def _joining(out: Layout, places: Sequence[_Place], layouts: Sequence[Layout]) -> Callable[..., Tensor]:
    """The plan of a result of layout ``out`` that tensors of ``layouts`` are put into; places: one for each."""
    many = out.numel * out.numpy_dtype.itemsize > DIRECT_BYTES  # bytes are copied with the GIL held, on one thread
    mixed = any(x.numpy_dtype != out.numpy_dtype or x.device != "cpu" for x in layouts)
    if many or mixed or out.device != "cpu" or not out.numel:
        return lambda tensors: _joined(out, places, tensors)
    parts = [_part(place, x) for place, x in zip(places, layouts, strict=True)]
    if any(len(p.sizes) > MOST_LOOPS for p in parts):
        return lambda tensors: _joined(out, places, tensors)
    how = Join(parts)
    make = _joiner(len(layouts) if len(layouts) <= _NAMED else None)
    return make(out, allocator(out), how, how.address, how.pack, compiled_join())


def _part(place: _Place, source: Layout) -> Part:
    """How a tensor of layout ``source`` is copied to its place."""
    sizes, steps = collapse(source.shape, [place.layout.strides, source.strides])
    item, run = source.numpy_dtype.itemsize, 1
    if not source.numel:
        sizes, steps = [0], [[0], [0]]
    elif steps[0][-1] == steps[1][-1] == 1:
        run = sizes.pop()
    to, step = [[s * item for s in each[: len(sizes)]] for each in steps]
    return Part(place.offset * item, sizes, to, step, run * item)


_JOINER = """\
def make(out, fresh, how, address, pack, run):
    def compute(tensors):
        data = fresh()
        {unpack}
        if observers or run(pack(address, id(data), {addresses})):
            launch(join, data, how, {arrays})
        result = new(Tensor); result._data = data; result._layout = out
        if tensor_observers: announce_tensor(result)
        return result
    return compute
"""


_NAMED = 8  # So many tensors are named in the text; for more a loop costs less than a text of their own.


@functools.cache
def _joiner(count: int | None) -> Callable[..., Callable[[Sequence[Tensor]], Tensor]]:
    """``make(out, ...)``, which returns the function that joins ``count`` tensors, or any number of them."""
    arrays = [f"x{k}._data" for k in range(count or 0)]
    named = "".join([f"x{k}, " for k in range(count or 0)])
    text = _JOINER.format(
        unpack=f"{named}= tensors" if named else "arrays = [t._data for t in tensors]",
        addresses=", ".join([f"id({a})" for a in arrays]) or "*map(id, arrays)", arrays=", ".join(arrays) or "*arrays",
    )  # fmt: skip
    scope: dict[str, Any] = {
        "join": join, "launch": launch, "observers": observers, "new": object.__new__,
        "Tensor": Tensor, "tensor_observers": tensor_observers, "announce_tensor": announce_tensor,
    }  # fmt: skip
    exec(text, scope)
    return scope["make"]


def _joined(out: Layout, places: Sequence[_Place], tensors: Sequence[Tensor]) -> Tensor:
    """The result that each tensor was copied to its place in, and cast."""
    result = wrap(empty_for(out), out)
    for tensor, place in zip(tensors, places, strict=True):
        if tensor._layout.numel:
            copy_into(result._data[place.index], place.layout, tensor)
    return result


def _cat_batched(call: BatchedCall) -> Tensor:
    """Samples of shape (0,) fit beside any others; as a batch, of shape (n, 0), they would not: they are left out."""
    tensors = call["tensors"]
    if any(t._layout.ndim != 2 for t in tensors):
        call.args["tensors"] = [t for t in tensors if t._layout.shape[1:] != (0,)]
    return over_dims("dim")(call)


class Cat(Structured, public="function"):
    """Tensors one after another along ``dim``, which may be called ``axis``; their other sizes agree.

    dtypes are promoted. ValueError for no tensors, RuntimeError where other sizes differ.
    """

    jointly_linear = ("tensors",)
    half = True
    batch = _cat_batched
    aliases = ("concat", "concatenate")
    reference = np.concatenate
    samples = cases(lambda: ([draw(2, 3), draw(2, 1, seed=1)], 1))

    def check(tensors, dim):
        if not _listed("cat", tensors):
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        int_argument("cat", "dim", 2, dim)

    @staticmethod
    def plan(tensors_layout: list, dim: int = 0):
        d, shape = _cat_shape(tensors_layout, dim)
        check_devices("cat", tensors_layout)
        strides = strides_of_result(tensors_layout, shape)
        out = intern(_common_dtype(tensors_layout).numpy, shape, strides, tensors_layout[0].device)
        at, places = 0, []
        for layout in tensors_layout:
            n = layout.shape[d] if layout.numel else 0
            part = with_size(out, d, n)
            places.append(_Place((*(slice(None),) * d, slice(at, at + n)), part, at * out.strides[d]))
            at += n
        return _joining(out, places, tensors_layout)

    def grad_tensors(g, tensors_layout, dim):
        grads, at = [], 0
        d = normalize_dim(dim, g._layout.ndim)
        for layout in tensors_layout:
            if layout.shape == (0,):
                grads.append(filled(intern(layout.numpy_dtype, (0,), None, layout.device), 0))
                continue
            part = Slice.apply(g, d, at, at + layout.shape[d], 1)
            grads.append(cast_gradient(part, layout.dtype))
            at += layout.shape[d]
        return grads

    def kernel_tensors(g, tensors_layout, dim):
        if any(x.dtype is not g._layout.dtype or x.shape == (0,) for x in tensors_layout):  # more to do than views
            return Cat.grad_tensors(g, tensors_layout, dim)
        d = normalize_dim(dim, g._layout.ndim)
        return _parts(g, tuple([x.shape[d] for x in tensors_layout]), d)


@planned("g")
def _parts(g, sizes, d):
    """Parts of ``g`` of these sizes along ``d``, as views that are neither recorded nor registered with their base."""
    ends, lead = [0, *accumulate(sizes)], (slice(None),) * d
    places = [(*lead, slice(a, b)) for a, b in pairwise(ends)]
    shown = [(place, with_size(g, d, n)) for place, n in zip(places, sizes, strict=True)]
    return lambda g, *_: _shown(g, shown)


class Stack(Structured, public="function"):
    """Tensors of one shape side by side along a new dim ``dim``, which may be called ``axis``."""

    jointly_linear = ("tensors",)
    half = True
    batch = over_dims("dim", extra=1)
    reference = np.stack
    samples = cases(
        lambda: ([draw(2, 3), draw(2, 3, seed=1)], 1),
        lambda: ([draw(2, 3), draw(3, 2).t()], -1),
        lambda: ([draw(), draw(seed=1)], 0),
    )

    def check(tensors, dim):
        if not _listed("stack", tensors):
            raise RuntimeError("stack expects a non-empty TensorList")
        int_argument("stack", "dim", 2, dim)

    @staticmethod
    def plan(tensors_layout: list, dim: int = 0):
        shape = tensors_layout[0].shape
        d = normalize_dim(dim, len(shape) + 1)
        for k, layout in enumerate(tensors_layout):
            if layout.shape != shape:
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                    f"{list(layout.shape)} at entry {k}"
                )
        check_devices("stack", tensors_layout)
        full = (*shape[:d], len(tensors_layout), *shape[d:])
        strides = _stacked_strides(tensors_layout, full, d)
        out = intern(_common_dtype(tensors_layout).numpy, full, strides, tensors_layout[0].device)
        part, step = without_dim(out, d), out.strides[d]
        # The trailing ... keeps what NumPy would else make a number: the place of a tensor without dims.
        places = [_Place((*(slice(None),) * d, k, ...), part, k * step) for k in range(len(tensors_layout))]
        return _joining(out, places, tensors_layout)

    def kernel_tensors(g, tensors_layout, dim):
        if any(x.dtype is not g._layout.dtype for x in tensors_layout):
            return Stack.grad_tensors(g, tensors_layout, dim)
        return _slices(g, dim)

    def grad_tensors(g, tensors_layout, dim):
        parts = Unbind.apply(g, normalize_dim(dim, g._layout.ndim))
        return [cast_gradient(part, layout.dtype) for part, layout in zip(parts, tensors_layout, strict=True)]


def _stacked_strides(tensors: Sequence[Layout], shape: tuple[int, ...], d: int) -> tuple[int, ...] | None:
    """The strides of a stack: those of the tensors joined along ``d``, a dim that is then split in two.

    Tensors stacked along a new last dim have none to be joined along: None, row-major.
    """
    if d == len(shape) - 1 or all(x.contiguous for x in tensors):
        return None
    joined = strides_of_result(tensors, (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :]))
    return joined and (*joined[:d], joined[d] * shape[d + 1], *joined[d:])


@planned("g")
def _slices(g, dim):
    """The slices of ``g`` along a dim, as views that are neither recorded nor registered with their base."""
    d = normalize_dim(dim, g.ndim)
    shown = [((*(slice(None),) * d, k, ...), without_dim(g, d)) for k in range(g.shape[d])]
    return lambda g, _: _shown(g, shown)


def _shown(g: Tensor, places: Sequence[tuple[Any, Layout]]) -> list[Tensor]:
    """Views of ``g`` at (index, layout) pairs, as `_parts` and `_slices` return them."""
    base, counter, data, parts = g if g._base is None else g._base, counter_of(g), g._data, []
    for place, layout in places:
        part = wrap(data[place], layout)
        part._base, part._counter = base, counter
        parts.append(part)
    return parts


class SplitView(View, abstract=True):
    """Base of ops that return views, side by side along ``dim``, of all of a tensor."""

    multiple_results = True
    batch = over_dims("dim")
    owned = True


def parts_at(places: Sequence[tuple[Any, Layout]]) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """The plan of several views; places: index and layout of each."""
    return lambda x: several_views(x, places)


class Unbind(SplitView):
    """The slices along a dim, without that dim."""

    name = "unbind_dim"
    samples = cases(lambda: (draw(2, 3), 1))

    def plan(x_layout, dim):
        places = [(*(slice(None),) * dim, k, ...) for k in range(x_layout.shape[dim])]
        return parts_at([(place, without_dim(x_layout, dim)) for place in places])

    def grad_x(g, x_layout, dim):
        unused = without_dim(x_layout, dim)
        return Stack.apply([zeros_of(unused) if part is None else part for part in g], dim)


cat, stack = Cat.apply, Stack.apply
for _function in (cat, stack):
    vars(_function)["also_takes"] = ("axis",)  # for stubs


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension."""
    return _each(tensors, lambda x: x.reshape(1) if not x._layout.ndim else x)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions; new ones come first."""
    return _each(tensors, lambda x: x.reshape(1, 1) if not x._layout.ndim else x[None] if x._layout.ndim == 1 else x)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions."""
    return _each(tensors, _three_dims)


def _three_dims(x: Tensor) -> Tensor:
    """A vector becomes (1, n, 1), a matrix (n, m, 1), as in NumPy."""
    ndim = x._layout.ndim
    if ndim >= 3:
        return x
    return x.reshape(1, 1, 1) if ndim == 0 else x[None, :, None] if ndim == 1 else x.unsqueeze(-1)


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    check_tensors(given)
    return tuple([function(t) for t in given])


def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors one after another along their second dim (the first of vectors)."""
    given = [t if t._layout.ndim else t.reshape(1) for t in _listed("hstack", tensors)]
    return into_out("cat", cat(given, 0 if given and given[0]._layout.ndim == 1 else 1), out)


def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors one below another; vectors count as rows."""
    given = [t if t._layout.ndim > 1 else atleast_2d(t) for t in _listed("vstack", tensors)]
    return into_out("cat", cat(given, 0), out)


def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Tensors one after another along their third dim."""
    return into_out("cat", cat([atleast_3d(t) for t in _listed("dstack", tensors)], 2), out)


def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Columns side by side: vectors, and matrices as they are."""
    given = _listed("column_stack", tensors)
    return into_out("cat", cat([t.reshape(-1, 1) if t._layout.ndim <= 1 else t for t in given], 1), out)


for _function in (hstack, vstack, dstack, column_stack, atleast_1d, atleast_2d, atleast_3d):
    public(_function, method_too=False)
public(vstack, "row_stack", method_too=False)
