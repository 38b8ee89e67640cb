"""Copies of a tensor's elements in another order, or more than once: flip, rot90, roll, repeat and the like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from jitgrad.core.dtypes import int32, int64
from jitgrad.core.errors import invalid_combination, must_be, must_be_tensor, not_implemented_for
from jitgrad.core.layout import Layout, as_int, collapse, intern, normalize_dim
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, over_dims
from jitgrad.dispatch.copying import copy_into, copy_to_layout, preserved_layout
from jitgrad.dispatch.memory_formats import strides_of_result
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Read, Written, row_major
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import check_dims, int_argument, ints_argument, is_int, size_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import indexing as kernels
from jitgrad.kernels.loops import masks
from jitgrad.kernels.loops.rearrange import move
from jitgrad.ops.shape.copy import Clone, Contiguous, contiguous
from jitgrad.ops.shape.expand import Expand
from jitgrad.ops.shape.permute import Transpose
from jitgrad.ops.shape.slicing import Slice
from jitgrad.ops.shape.view import reshaped

__all__ = ["Flip", "Repeat", "Roll"]


def _new(layout: Layout, shape: Sequence[int] | None = None) -> Tensor:
    """An uninitialised row-major tensor like one of ``layout``, or of another shape."""
    made = intern(layout.numpy_dtype, tuple(layout.shape if shape is None else shape), None, layout.device)
    return wrap(empty_for(made), made)


def _distinct(dims: Sequence[int], ndim: int) -> list[int]:
    found = [normalize_dim(d, ndim) for d in dims]
    for d in found:
        if found.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return found


def _plan_flip(x: Layout, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """(layout of the result, its dims by falling stride, sizes, steps and start of ``read_strided``).

    Source and result are read in the order of their memory, in which they have no gaps. The kernel reads the source by
    strides from ``start`` on: a reversed dim is read from its end, by a negative stride.
    """
    layout = preserved_layout(x)
    shape, strides = layout.shape, layout.strides
    order = sorted(range(layout.ndim), key=lambda d: -strides[d])
    signed = tuple([-strides[d] if d in dims else strides[d] for d in order])
    sizes, (steps,) = collapse(tuple([shape[d] for d in order]), [signed])
    start = sum((shape[d] - 1) * strides[d] for d in dims) if shape else 0  # a tensor without dims takes 0 and -1
    return layout, order, np.array(sizes, np.int64), np.array(steps, np.int64), start


class Flip(Structured):
    """The elements in reverse order along dims."""

    linear = ("x",)
    batch = over_dims("dims", empty_is_all=False)
    name = "flip_dims"
    reference = np.flip
    samples = cases(lambda: (draw(2, 3, 4), (0, 2)), lambda: (draw(2, 3).t(), (0,)))

    def plan(x_layout, dims):
        layout, order, *steps = _plan_flip(x_layout, tuple(dims))
        if not layout.numel or not layout.ndim:
            return lambda x: copy_to_layout(x, layout)
        if layout is not x_layout or not layout.contiguous or layout.device != "cpu":
            return lambda x: _flipped(x, layout, order, steps)
        flat = (layout.numel,)
        return Launches([(kernels.read_strided, Read("x", flat), Written(0, flat), *steps)], [layout])

    def grad_x(g, dims):
        return Flip.apply(g, dims)


def _flipped(x: Tensor, layout: Layout, order: Sequence[int], steps: Sequence[Any]) -> Tensor:
    """The elements in the order of their memory, read by strides."""
    source = x if x._layout is layout else copy_to_layout(x, layout)
    out = wrap(empty_for(layout), layout)
    arrays = [(t._data if layout.contiguous else t._data.transpose(order)).reshape(-1) for t in (source, out)]
    launch(kernels.read_strided, *arrays, *steps)
    return out


@method
def flip(self: Tensor, *each: Any, dims: Any = None) -> Tensor:
    """The elements in reverse order along ``dims``, copied."""
    return _flip_along(self, size_argument("flip", each, "dims", dims))


@settled(1)
def _flip_along(input: Tensor, dims: tuple[int, ...]) -> Any:
    return Flip.apply, (tuple(_distinct(dims, input._layout.ndim)),)


def _flip(input: Tensor, dims: Sequence[int]) -> Tensor:
    """The elements in reverse order along ``dims``, copied."""
    return _flip_along(input, ints_argument("flip", "dims", 2, dims))


public(_flip, "flip", method_too=False)


def fliplr(input: Tensor) -> Tensor:
    """The columns in reverse order."""
    if input._layout.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """The rows in reverse order."""
    if input._layout.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


public(fliplr)
public(flipud)


class Rot90(Structured, public=True):
    """Turned by ``k`` quarters in the plane of two dims, from the first towards the second."""

    linear = ("x",)
    batch = over_dims("dims")
    samples = cases(lambda: (draw(2, 3),), lambda: (draw(2, 3, 2), 2, (1, 2)), lambda: (draw(2, 3), -1))
    reference = np.rot90

    def plan(x_layout, k=1, dims=(0, 1)):
        if not isinstance(dims, (tuple, list)):
            raise must_be("rot90", "dims", 3, "tuple of ints", dims)
        if len(dims) != 2:
            raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
        if x_layout.ndim < 2:
            raise RuntimeError(f"expected total dims >= 2, but got total dims = {x_layout.ndim}")
        a, b = (normalize_dim(d, x_layout.ndim) for d in dims)
        if a == b:
            raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
        if not int_argument("rot90", "k", 2, k) % 4:
            return Contiguous.forward
        flips = ((b,), (a, b), (a,))[k % 4 - 1]

        def turn(x: Tensor) -> Tensor:
            flipped = Flip.forward(x, flips)
            turned = Transpose.forward(flipped, a, b) if k % 2 else flipped
            return wrap(turned._data, turned._layout)  # not a view: nobody has seen ``flipped``

        return turn

    def grad_x(g, k, dims):
        return Rot90.apply(g, -k, dims)


# -- roll ---------------------------------------------------------------------------------------------


def _roll_batched(call: BatchedCall) -> Any:
    x, dims = call["x"], call["dims"]
    if not dims:
        return roll(x.reshape(call.size, -1), call["shifts"], 1).reshape(x._layout.shape)
    return over_dims("dims")(call)


class Roll(Structured):
    """The elements moved round along dims."""

    linear = ("x",)
    batch = _roll_batched
    name = "roll_dims"
    reference = np.roll
    samples = cases(lambda: (draw(3, 4), (1, -2), (0, 1)), lambda: (draw(3, 4), (5,), None))

    def plan(x_layout, shifts, dims):
        # As ``cat`` of the two parts has it: in row-major order where one of them is empty.
        whole = dims is None or any(n == 0 or s % n == 0 for s, n in zip(shifts, [x_layout.shape[d] for d in dims]))
        strides = None if whole else strides_of_result([x_layout], x_layout.shape)
        out = intern(x_layout.numpy_dtype, x_layout.shape, strides, x_layout.device)
        if not out.numel:
            return lambda x: copy_to_layout(x, out if dims is None else preserved_layout(x_layout))
        if out.device != "cpu" or not out.ndim:
            return lambda x: _rolled_by_views(x, shifts, dims)
        if dims is None:  # as if there were one dimension
            flat = (out.numel,)
            read, written, moves = row_major("x", x_layout, flat), Written(0, flat), {0: shifts[0]}
        else:
            read, written, moves = Read("x"), Written(0), dict.fromkeys(dims, 0)
            for shift, dim in zip(shifts, dims, strict=True):
                moves[dim] += shift
        return Launches([(move, read, written, _blocks(written.view or out.shape, moves))], [out])

    def grad_x(g, shifts, dims):
        return Roll.apply(g, tuple(-s for s in shifts), dims)


def _blocks(shape: Sequence[int], moves: dict[int, int]) -> tuple[Any, ...]:
    """The blocks of a tensor that is moved round along dims, two a dim: pairs of indices, of the result and of it."""
    ways = []
    for d, n in enumerate(shape):
        cut = n - moves.get(d, 0) % n
        ways.append([(slice(n - cut, n), slice(cut)), (slice(n - cut), slice(cut, n))][: 1 + (cut < n)])
    return tuple(tuple(zip(*block, strict=True)) for block in product(*ways))


def _rolled_by_views(x: Tensor, shifts: Sequence[int], dims: Sequence[int] | None) -> Tensor:
    """The same by copies of views, where a kernel of NumPy's can't be used."""
    result = wrap(x._data, x._layout)
    if dims is None:
        rows = contiguous(result)
        return _unrecorded(_rolled(_unrecorded(rows, (rows._layout.numel,)), shifts[0], 0), x._layout.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        result = _rolled(result, shift, dim)
    return result if dims else Clone.forward(result)


def _unrecorded(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The memory of a row-major tensor in another shape, outside any graph and not as a view."""
    layout = intern(x._layout.numpy_dtype, tuple(shape), None, x._layout.device)
    return wrap(x._data.reshape(layout.shape), layout)


def _rolled(x: Tensor, shift: int, dim: int) -> Tensor:
    """A row-major copy of ``x``, an unrecorded tensor, moved by ``shift`` along one dim."""
    n, out = x._layout.shape[dim] if x._layout.ndim else 1, _new(x._layout)
    if not x._layout.ndim or not x._layout.numel:
        copy_into(out._data, out._layout, x)
        return out
    cut, slice_of = shift % n, Slice.forward  # type: int, Any
    for source, target in (((0, n - cut), (cut, n)), ((n - cut, n), (0, cut))):
        if source[0] < source[1]:
            part = slice_of(out, dim, *target, 1)
            copy_into(part._data, part._layout, slice_of(x, dim, *source, 1))
    return out


@public
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Move elements by ``shifts`` along ``dims``; what leaves at the end comes in at the start.

    Without ``dims`` the tensor is rolled as if it had one dimension.
    """
    return _roll(input, shifts, dims)


@settled(1)
def _roll(input: Tensor, shifts: Any, dims: Any) -> Any:
    moves = ints_argument("roll", "shifts", 2, [as_int(shifts)] if is_int(shifts) else shifts)
    if not moves:
        raise RuntimeError("`shifts` required")
    if dims is None or (not is_int(dims) and len(dims) == 0):
        if len(moves) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:0")
        return Roll.apply, (tuple(moves), None)
    places = [dims] if is_int(dims) else list(dims)
    if len(places) != len(moves):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(places)}")
    ndim = input._layout.ndim
    if not ndim:
        raise IndexError(f"Dimension specified as {places[0]} but tensor has no dimensions")
    return Roll.apply, (tuple(moves), tuple([normalize_dim(d, ndim) for d in places]))


# -- repeat -------------------------------------------------------------------------------------------


def _repeat_batched(call: BatchedCall) -> Any:
    times, shape = call["times"], call["x"]._layout.shape
    missing = max(len(times) + 1 - len(shape), 0)
    return call.run(x=call["x"].view(shape[0], *(1,) * missing, *shape[1:]), times=(1, *times))


class Repeat(Structured):
    """The tensor laid out ``times`` along each dim."""

    linear = ("x",)
    half = True
    batch = _repeat_batched
    name = "repeat_dims"
    reference = np.tile
    samples = cases(lambda: (draw(2, 3), (2, 1, 2)))

    def forward(x, times):
        layout = x._layout
        shape = (1,) * (len(times) - layout.ndim) + layout.shape
        out = _new(layout, [n * k for n, k in zip(shape, times, strict=True)])
        if out._layout.numel:
            paired = _unrecorded(out, _paired(times, shape))
            source = reshaped(wrap(x._data, layout), _paired((1,) * len(times), shape))
            copy_into(paired._data, paired._layout, source)
        return out

    def grad_x(g, x_layout, times):
        if not times:
            return g
        shape = (1,) * (len(times) - x_layout.ndim) + x_layout.shape
        repeated = [2 * d for d, k in enumerate(times) if k != 1]
        total = reshaped(g, _paired(times, shape)).sum(repeated) if repeated else g
        return reshaped(total, x_layout.shape)


def _paired(times: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a repeated tensor with two dims for each of its own: over the repetitions, and within one."""
    return tuple([n for pair in zip(times, shape, strict=True) for n in pair])


def repeat(self: Tensor, *each: Any, repeats: Any = None) -> Tensor:
    """The tensor laid out ``repeats`` times along each dim; more numbers than dims add leading ones."""
    times = size_argument("repeat", each, "repeats", repeats)
    shape = self._layout.shape
    if len(times) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    check_dims([n * k for n, k in zip((1,) * (len(times) - len(shape)) + shape, times, strict=True)])
    return Repeat.apply(self, times)


method(repeat)


@method
def tile(self: Tensor, *each: Any, dims: Any = None) -> Tensor:
    """As ``repeat``; fewer numbers than dims are meant for the last ones."""
    times = size_argument("tile", each, "dims", dims)
    return repeat(self, (1,) * (self._layout.ndim - len(times)) + times)


def _tile(input: Tensor, dims: Sequence[int]) -> Tensor:
    """As ``repeat``; fewer numbers than dims are meant for the last ones."""
    return tile(input, ints_argument("tile", "dims", 2, dims))


public(_tile, "tile", method_too=False)


def _repeat_places(repeats: Tensor, output_size: int | None) -> Tensor:
    """The index k ``repeats[k]`` times in a row, for every k, in the dtype of ``repeats``."""
    dtype = repeats._layout.dtype
    if dtype not in (int32, int64):
        raise not_implemented_for("repeat_interleave_cpu", dtype)
    if repeats._layout.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    counts = contiguous(repeats.detach())
    total = int(counts.sum().item())
    if output_size is not None and output_size != total:
        raise RuntimeError("allocated size does not match required size")
    if counts._layout.numel and int(counts.min().item()) < 0:
        raise RuntimeError("repeats can not be negative")
    layout = intern(dtype.numpy, (total,), None, "cpu")
    out = wrap(empty_for(layout), layout)
    launch(masks.repeat_index, counts._data, out._data)
    return out


_ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "None"})()  # None itself is refused, as in PyTorch


@public
def repeat_interleave(input: Tensor, repeats: Any = _ABSENT, dim: int | None = None, *,
                      output_size: int | None = None) -> Tensor:  # fmt: skip
    """Each element, or slice along ``dim``, ``repeats`` times in a row (a number, or one for each).

    Without ``dim`` the tensor counts as one dimension. With ``repeats`` alone: the places themselves. RuntimeError
    for negative ``repeats`` and where the result's size is not ``output_size``, if that is given.
    """
    if repeats is _ABSENT:
        if not isinstance(input, Tensor):
            raise must_be_tensor("repeat_interleave", "repeats", 1, input)
        return _repeat_places(input, output_size)
    x = input.reshape(-1) if dim is None else input
    d = normalize_dim(0 if dim is None else dim, x._layout.ndim)
    if not isinstance(repeats, Tensor):
        if is_int(repeats):
            return _repeat_each(x, int(repeats), d, output_size)
        raise invalid_combination("repeat_interleave", (input, repeats))
    if repeats._layout.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    size = x._layout.shape[d] if x._layout.ndim else 1
    if repeats._layout.numel == 1:
        repeats = repeats.detach().reshape(1).expand(size)
    elif repeats._layout.numel != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats._layout.numel} and input.size({dim or 0}) = {size}"
        )
    return x.index_select(d, _repeat_places(repeats, output_size))


def _repeat_each(x: Tensor, count: int, d: int, output_size: int | None) -> Tensor:
    """Every slice along dim ``d`` repeated ``count`` times in a row."""
    shape = x._layout.shape
    n = shape[d]
    if count < 0:
        raise RuntimeError("Repeats must be non-negative")
    if output_size is not None and output_size != n * count:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {n * count} but got {output_size}")
    expanded = Expand.apply(x.unsqueeze(d + 1), (*shape[: d + 1], count, *shape[d + 1 :]))
    return reshaped(Contiguous.apply(expanded), (*shape[:d], n * count, *shape[d + 1 :]))
