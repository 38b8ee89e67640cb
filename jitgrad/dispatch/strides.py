"""Arrays and layouts by shape, strides and offset, from which all views are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from jitgrad.core.inference import is_inference
from jitgrad.core.layout import Layout, array_shape, contiguous_strides, intern, is_dense
from jitgrad.core.saved_versions import EXCHANGE
from jitgrad.core.storage import array_address, empty_for
from jitgrad.core.tensor import Tensor, address
from jitgrad.kernels.lazy_array import LazyArray, Unresolved, memory_of

__all__ = [
    "Memory", "channels_last_strides", "check_bounds", "copied_strides", "dense_strides", "empty_with_strides",
    "extent", "is_channels_last", "offset_in", "owner_of", "restrided", "result_strides", "shares_memory", "storage_of",
    "view_strides",
]  # fmt: skip


class Memory:
    """Part of an array's memory, passed to NumPy by address (``__array_interface__``); keeps the owner alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any):
        self.owner = owner
        self.__array_interface__ = {
            "data": (pointer, False), "typestr": dtype.str, "shape": shape, "strides": strides, "version": 3,
        }  # fmt: skip


def restrided(array: Any, shape: Sequence[int], strides: Sequence[int], offset: int = 0, dtype: Any = None) -> Any:
    """The memory of ``array`` under another shape; strides and offset in elements of the result's dtype.

    The offset counts from the array's first element and may be negative. Bounds are the caller's to check: the result
    may reach any part of the owner's memory, and beyond.
    """
    if not isinstance(array, np.ndarray):
        if type(array) is LazyArray:
            if array.conjugate and dtype is not None:  # real and imaginary parts differ in what the bit does to them
                raise Unresolved
            return array.on(restrided(array.memory, shape, strides, offset, dtype))
        return array.restrided(shape, strides, offset, dtype)
    dtype = array.dtype if dtype is None else dtype
    item = dtype.itemsize
    if array.size == 0 or 0 in shape:  # NumPy's empty arrays may have no address of their own
        return np.empty(array_shape(tuple(shape), item), dtype)
    # NumPy's constructor checks bounds and takes contiguous buffers only, but is much quicker than the interface below.
    owner, start = array.base, offset * item
    if offset >= 0 and array.flags.c_contiguous:
        owner = array
    elif type(owner) is np.ndarray:
        start += array_address(array) - array_address(owner)
    if type(owner) is np.ndarray:
        try:
            return np.ndarray(shape, dtype, owner, start, [s * item for s in strides])
        except (TypeError, ValueError):  # the view reaches beyond the owner, or that one has gaps itself
            pass
    pointer = array_address(array) + offset * item
    made = np.asarray(Memory(array, pointer, tuple(shape), tuple([s * item for s in strides]), dtype))
    return made if dtype.kind != "V" else made.view(dtype)  # bfloat16, which the interface has no name for


def restriding(source: Layout, view: Layout, offset: int = 0) -> Callable[[Any], Any]:
    """A function from an array of layout ``source`` to the ``view`` of its memory, as ``restrided`` returns it."""
    shape, strides, dtype = view.shape, view.strides, view.numpy_dtype
    start, steps, array_of = offset * dtype.itemsize, tuple([s * dtype.itemsize for s in strides]), np.ndarray
    as_it_is = source.contiguous and offset >= 0

    def restride(array: Any) -> Any:
        return restrided(array, shape, strides, offset, dtype if dtype != source.numpy_dtype else None)

    def take(array: Any) -> Any:
        try:
            return array_of(shape, dtype, array, start, steps)
        except (TypeError, ValueError):  # no array of NumPy's, or a view that reaches beyond it
            return restride(array)

    def take_of_owner(array: Any) -> Any:
        try:
            owner = array.base  # of a view of a view too: NumPy's arrays have one owner
            if type(owner) is array_of:
                return array_of(shape, dtype, owner, start + array_address(array) - array_address(owner), steps)
        except (AttributeError, TypeError, ValueError):
            pass
        return restride(array)

    if not (source.numel and view.numel and source.device == "cpu"):
        return restride
    return take if as_it_is else take_of_owner


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a view spans, from its first to its last, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def offset_in(base: Tensor, view: Tensor) -> int:
    """The distance of the first element of ``view`` from that of ``base``, in elements of ``view``.

    Where they share no memory any more, since the data of one was exchanged, it is that in the view's own memory, as in
    PyTorch.
    """
    if not view._layout.numel or not base._layout.numel:
        return 0
    if not shares_memory(base, view):
        return _offset_in_owner(memory_of(view._data)) if view._layout.device == "cpu" else 0
    return (address(view) - address(base)) // view._layout.dtype.itemsize


def shares_memory(base: Tensor, view: Tensor) -> bool:
    """Whether a view still shows memory of its base: not if ``.data =`` or ``set_`` gave one of them other memory."""
    counter = base._counter  # ``set_`` gives a tensor its own, and ``.data =`` is counted in that of base and views
    if counter is view._counter and (is_inference(base) or counter[0] < EXCHANGE):
        return True
    if view._layout.device != "cpu":
        return False
    return bool(np.may_share_memory(memory_of(base._data), memory_of(view._data)))


def owner_of(array: np.ndarray) -> np.ndarray:
    """The array whose memory a view shows: the same object for all views of it."""
    base: Any = array.base
    while isinstance(base, (np.ndarray, Memory)):
        array = base.owner if isinstance(base, Memory) else base
        base = array.base
    return array


def storage_of(tensor: Tensor) -> tuple[int, int]:
    """(address, bytes) of the memory that a tensor shows all or a part of: what PyTorch calls its storage.

    It is found by NumPy's links from a part to the array that it was cut from, as a detached view has no base.
    """
    array: Any = memory_of(tensor._data)
    if not isinstance(array, np.ndarray):
        owner = tensor if tensor._base is None else tensor._base
        return address(owner), extent(owner._layout.shape, owner._layout.strides) * owner._layout.dtype.itemsize
    owner = owner_of(array)
    if owner.flags.forc:
        return array_address(owner), owner.nbytes
    start, end = byte_bounds(owner)
    return start, end - start


def check_bounds(shape: Sequence[int], strides: Sequence[int], start: int, item: int, have: int) -> None:
    """RuntimeError unless a view, ``start`` elements of ``item`` bytes into a storage, is in its ``have`` bytes."""
    need = (extent(shape, strides) + start) * item
    if extent(shape, strides) and (need > have or start < 0):
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {start}, and itemsize {item} "
            f"requiring a storage size of {need} are out of bounds for storage of size {have}"
        )


def _offset_in_owner(array: Any) -> int:
    """How many elements into the memory that NumPy allocated an array begins."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    start, own = array_address(owner), array_address(array)
    return int(own - start) // array.itemsize


def empty_with_strides(layout: Layout) -> Any:
    """An uninitialised array with exactly the strides of ``layout``, gaps and overlaps included."""
    if layout.contiguous or is_dense(layout) or layout.device != "cpu":
        return empty_for(layout)
    storage = np.empty(extent(layout.shape, layout.strides), layout.numpy_dtype)
    return restrided(storage, layout.shape, layout.strides)


def dense_layout(numpy_dtype: Any, count: int, device: Any) -> Layout:
    """The layout of a whole storage of ``count`` elements."""
    return intern(np.dtype(numpy_dtype), (count,), None, device)


def result_strides(inputs: Sequence[Layout], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides that PyTorch gives the result of an elementwise op; None if row-major.

    Those of the inputs, if all have the same dense ones; else no gaps, the dims in the order of the inputs' strides.
    """
    if all(x.shape == shape for x in inputs):
        if all(x.contiguous for x in inputs):
            return None
        if len(shape) == 4 and all(is_channels_last(x) for x in inputs):
            return channels_last_strides(shape)
        first = inputs[0]
        if is_dense(first) and all(x.strides == first.strides for x in inputs):
            return first.strides
    return dense_strides(inputs, shape)


def copied_strides(layout: Layout) -> tuple[int, ...]:
    """The strides of a copy (``torch.preserve_format``): without gaps, the dims in the order of their strides."""
    dense = layout.contiguous or is_dense(layout)  # the first is true of empty ones, too
    return layout.strides if dense else dense_strides([layout], layout.shape)


def is_channels_last(layout: Layout) -> bool:
    """Whether a layout of 4 or 5 dims has the strides of the memory format "channels_last", or of its kin for 5."""
    wanted = zip(layout.shape, layout.strides, channels_last_strides(layout.shape), strict=True)
    return not layout.numel or all(n == 1 or mine == other for n, mine, other in wanted)


def channels_last_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of (n, channels, *places) with the channels of a place side by side."""
    strides = contiguous_strides((shape[0], *shape[2:], shape[1]))
    return (strides[0], strides[-1], *strides[1:-1])


def dense_strides(inputs: Sequence[Layout], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides without gaps for ``shape``, its dims in the order of the strides of ``inputs``, which broadcast to it.

    PyTorch's insertion sort (TensorIterator::reorder_dimensions): strides of 0 and equal ones are no order between two
    dims, and what the sort does then is seen in the strides of results. The first input with an order decides.
    """
    steps = [_aligned_strides(x, shape) for x in inputs]
    order = list(range(len(shape)))[::-1]  # innermost first
    for last in range(1, len(shape)):
        at = last
        for place in range(last - 1, -1, -1):
            verdict = _compare(steps, shape, order[place], order[at])
            if verdict > 0:
                order[place], order[at] = order[at], order[place]
                at = place
            elif verdict < 0:
                break
    if all(a > b for a, b in pairwise(order)):
        return contiguous_strides(shape)
    strides, step = [0] * len(shape), 1
    for d in order:
        strides[d] = step
        step *= shape[d]  # 0 outside of a size 0, as PyTorch shows them, but for row-major ones
    return tuple(strides)


def _aligned_strides(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A stride for each dim of ``shape``, which ``layout`` broadcasts to: 0 where its elements are repeated."""
    lead = len(shape) - layout.ndim
    repeated = zip(layout.shape, shape[lead:], layout.strides, strict=True)
    return (0,) * lead + tuple([0 if n == 1 != wanted else stride for n, wanted, stride in repeated])


def _compare(steps: Sequence[tuple[int, ...]], shape: tuple[int, ...], d: int, e: int) -> int:
    """-1 if dim ``d`` belongs inside of ``e``, 1 if outside, 0 if the strides of no input decide."""
    for strides in steps:
        a, b = strides[d], strides[e]
        if a and b and (a != b or shape[d] > shape[e]):
            return -1 if a < b else 1
    return 0


def view_strides(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides under which a tensor of ``layout`` is a view of ``shape``; None if only a copy can have that shape.

    Neighbouring dims are joined to runs that one stride steps through. The new dims, from the last, have to fill run
    after run: none may reach across the end of one.
    """
    if not layout.numel:
        return layout.strides if shape == layout.shape else contiguous_strides(shape)
    result = [0] * len(shape)
    d = len(shape) - 1
    for count, step in _even_runs(layout):
        filled = 1
        while d >= 0 and (filled < count or shape[d] == 1):
            result[d] = filled * step
            filled *= shape[d]
            d -= 1
        if filled != count:  # a new dim would reach across the end of the run
            return None
    return tuple(result) if d < 0 else None


def _even_runs(layout: Layout) -> list[tuple[int, int]]:
    """(number of elements, stride) of each longest run of dims that one stride steps through, the last run first.

    A dim of size 1 continues any run, but the last dim's stride begins the first one, as PyTorch's results show.
    """
    runs: list[tuple[int, int]] = []
    for n, s in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if runs and (n == 1 or s == runs[-1][0] * runs[-1][1]):
            runs[-1] = (n * runs[-1][0], runs[-1][1])
        else:
            runs.append((n, s))
    return runs or [(1, 1)]
