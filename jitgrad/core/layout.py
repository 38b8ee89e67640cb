"""Layouts: the dtype, shape, strides and device of a tensor, and how shapes and strides are computed.

Layouts are interned: there is one object for each combination of properties. So two tensors of one layout are
recognised by the identity of an object, and what an op has planned for a combination of operands is found in a
dictionary by the layouts themselves, whose hash and comparison are those of ``object``: a look-up costs the same for
any number of dimensions, and no shape is compared in steady state.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, SupportsIndex, overload

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.block_pool import MIN_BYTES
from jitgrad.core.called_form import called_name
from jitgrad.core.errors import type_name

__all__ = ["Layout", "Size", "broadcast_shapes", "collapse", "contiguous_strides", "is_dense", "layout_of"]


class Size(tuple[int, ...]):
    """A shape: a tuple of ints, printed as ``torch.Size([2, 3])``. TypeError for items that are none.

    Items may be what has an ``__index__``, as tensors of one integer do.
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """The shape of these sizes."""
        made = tuple.__new__(cls, sizes)
        for size in made:
            if size.__class__ is not int and not isinstance(size, np.integer):
                return tuple.__new__(cls, [_as_size(place, size) for place, size in enumerate(made)])
        return made

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return (math.prod(map(int, self)) + _MOST) % (2 * _MOST) - _MOST  # beyond 64 bits it wraps, as PyTorch's

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__


def _as_size(place: int, size: Any) -> int:
    try:
        return operator.index(size)
    except (TypeError, ValueError, RuntimeError):
        kind = type(size).__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{kind}')") from None


class Layout:
    """dtype, shape, strides (in elements) and device of an array. Made by ``intern`` only: compare with ``is``."""

    __slots__ = (
        "array_shape", "contiguous", "dense", "device", "dtype", "ndim", "numel", "numpy_dtype", "plain", "shape",
        "size", "special", "strides",
    )  # fmt: skip

    def __init__(self, numpy_dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], device: Any):
        self.numpy_dtype, self.shape, self.strides, self.device = numpy_dtype, shape, strides, device
        self.dtype = dtypes.from_numpy_dtype(numpy_dtype)
        self.special = self.dtype.is_half or (device != "cpu" and device.type == "meta")
        if self.special and not halves:
            halves.append(True)
        self.size, self.ndim = Size(shape), len(shape)
        self.numel = math.prod(shape)
        # What ops ask often is worked out once. The stride of a dim of size 1, or of an empty array, is never used.
        self.contiguous = self.numel == 0 or all(
            s == c or n == 1 for n, s, c in zip(shape, strides, contiguous_strides(shape), strict=True)
        )
        self.dense = (self.contiguous and self.numel > 0) or _fills_memory(shape, strides)
        self.array_shape = array_shape(shape, numpy_dtype.itemsize)  # the shape itself but of the widest empty tensors
        # Whether ``np.empty(shape)`` makes its arrays: larger ones are the pool's (block_pool.py).
        small = self.numel * numpy_dtype.itemsize < MIN_BYTES and self.array_shape is shape
        self.plain = self.contiguous and device == "cpu" and small

    def __repr__(self) -> str:
        return f"Layout({self.dtype}, {self.shape}, strides={self.strides}, device={self.device!r})"


# Holds an item once there is a layout that is ``special``: of a 16-bit float, or on the device "meta". While it is
# empty, which is one test, calls of ops need not look at their arguments' dtypes and devices.
halves: list[bool] = []

# How many entries a cache of layouts or plans may have. A program that meets ever new shapes would fill memory
# otherwise; emptying the whole cache at the bound costs nothing at each look-up, as keeping an order of use would.
CAPACITY = 1 << 14


class _Cache(dict[Any, Any]):
    """A dictionary that empties itself when full."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= CAPACITY:
            self.clear()
        super().__setitem__(key, value)


def cache() -> dict[Any, Any]:
    """A new dictionary, bounded by CAPACITY, for what is computed from layouts, dtypes and settings alone."""
    new = _Cache()
    _caches.append(new)
    return new


_caches: list[_Cache] = []


def forget_plans() -> None:
    """Empty every cache of plans: a setting that they depend on has changed."""
    for plans in _caches:
        plans.clear()


_interned: dict[Any, Layout] = {}
_MOST = 1 << 63  # sizes, and the bytes of a tensor, are counted in 64 bits, as NumPy and PyTorch count them


def array_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The shape of the array that a tensor of ``shape`` has: ``shape``, unless NumPy has no array of it.

    NumPy refuses sizes whose product without zeros has 2**63 bytes, which PyTorch allows an empty tensor. Its array has
    a size of 1 for each that isn't 0. Nothing reads it: a tensor's shape is that of its layout.
    """
    if 0 not in shape or math.prod([n for n in shape if n]) * itemsize < _MOST:
        return shape
    return tuple([min(n, 1) for n in shape])


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def intern(
    numpy_dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None = None, device: Any = "cpu"
) -> Layout:
    """The one Layout object with these properties; row-major if ``strides`` is None.

    Emptying the table is safe: layouts that are in use stay as they are, and an equal one that is made later only
    makes an op plan anew. Nothing computes another result when two layout objects are equal.
    """
    key = (numpy_dtype, shape, strides, device)
    found = _interned.get(key)
    if found is None:
        if len(_interned) >= CAPACITY:
            _interned.clear()
        _check_countable(numpy_dtype, shape, strides is None)
        full = strides if strides is not None else contiguous_strides(shape)
        # Row-major strides that were given in full are another key of the same object.
        if strides is not None and full == contiguous_strides(shape):
            found = intern(numpy_dtype, shape, None, device)
        else:
            found = Layout(numpy_dtype, shape, full, device)
        _interned[key] = found
    return found


def _check_countable(numpy_dtype: np.dtype[Any], shape: Sequence[int], owned: bool) -> None:
    """RuntimeError if a tensor of this shape had more than 64 dims or 2**63 bytes, TypeError for so large a size.

    A size of 0 hides those that come after it, as in PyTorch. owned: whether the tensor has memory for each of its
    elements; a view may show elements of less memory more than once.
    """
    if len(shape) > 64:  # those of NumPy's arrays, and of most of PyTorch's ops
        raise RuntimeError("only tensors with up to 64 dims are supported")
    if math.prod([n for n in shape if n]) * numpy_dtype.itemsize < _MOST:
        return
    check_sizes(shape)
    if 0 in shape and max(accumulate(shape, operator.mul)) < 2 * _MOST:
        if contiguous_strides(shape)[0] >= _MOST:
            raise RuntimeError("Stride calculation overflowed")
        return
    what = f"Storage size calculation overflowed with sizes={list(shape)}" if owned else ""
    raise RuntimeError(what or "numel: integer multiplication overflow")


def check_sizes(shape: Sequence[int]) -> None:
    """TypeError for a size beyond 64 bits among those that the program has called a function with."""
    for position, n in enumerate(shape, 1):
        if not -_MOST <= n < _MOST:
            name = called_name() or "empty"
            argument = "shape" if name == "reshape" else "size"
            raise TypeError(
                f"{name}(): argument '{argument}' failed to unpack the object at pos {position} with error \"Overflow "
                'when unpacking long long"'
            )


def layout_of(array: Any, device: Any = "cpu") -> Layout:
    """The Layout of a NumPy or device array, whose strides are in bytes."""
    shape = array.shape
    if array.flags.c_contiguous if type(array) is np.ndarray else _in_order(array):
        # The stride of a size of 1 may be any, and is shown. Those of NumPy's empty arrays are not PyTorch's.
        if 1 not in shape or 0 in shape:
            return intern(array.dtype, shape, None, device)
    item = array.dtype.itemsize
    return intern(array.dtype, shape, tuple([s // item for s in array.strides]), device)


def _in_order(array: Any) -> bool:
    """Whether another array than one of NumPy's own lies row by row."""
    return getattr(array.flags, "c_contiguous", False) if hasattr(array, "flags") else array.is_c_contiguous()


def as_float32(layout: Layout) -> Layout:
    """The layout of a tensor of float16 or bfloat16 widened to float32; any other as it is."""
    if not layout.dtype.is_half:
        return layout
    return intern(dtypes.float32.numpy, layout.shape, layout.strides, layout.device)


def is_dense(layout: Layout) -> bool:
    """Whether the elements fill their memory without gaps or overlaps, in some order of dims."""
    return layout.dense


def _fills_memory(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1  # the stride of the next dim outwards, if there is no gap
    for stride, n in sorted(zip(strides, shape, strict=True)):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def broadcast_shapes(*shapes: Sequence[int]) -> Size:
    """The shape that tensors of ``shapes`` broadcast to; RuntimeError if they don't."""
    ndim = max((len(s) for s in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for d, n in zip(range(ndim - 1, -1, -1), reversed(shape)):  # as PyTorch: the last misfit is named
            if n != 1 and result[d] != n:
                if result[d] != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({result[d]}) must match the size of tensor b ({n}) "
                        f"at non-singleton dimension {d}"
                    )
                result[d] = n
    return Size(result)


def broadcast_strides(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides under which a tensor of ``layout`` is read as one of ``shape``, which it broadcasts to.

    A dim along which it is repeated has stride 0, so that every step reads the same element.
    """
    lead = len(shape) - layout.ndim
    return (0,) * lead + tuple(
        0 if n == 1 else s for n, s in zip(layout.shape, layout.strides, strict=True)
    )  # fmt: skip


def collapse(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """The same elements in the same order with fewer dims: (sizes, strides for each array), at least one dim.

    Dims of size 1 are dropped. Two neighbours become one if, in every array, a step of the outer is as long as all
    steps of the inner: then one loop with the inner stride visits the same elements. Strided kernels loop over what is
    left, so a broadcast of whole rows costs two loops whatever the rank.
    """
    dims = [d for d, n in enumerate(shape) if n != 1]
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d in dims:
        if sizes and all(st[-1] == s[d] * shape[d] for st, s in zip(steps, strides, strict=True)):
            sizes[-1] *= shape[d]
            for st, s in zip(steps, strides, strict=True):
                st[-1] = s[d]
        else:
            sizes.append(shape[d])
            for st, s in zip(steps, strides, strict=True):
                st.append(s[d])
    return sizes or [1], [st or [0] for st in steps]


def as_int(value: Any) -> int:
    """A dim, size or count as an int, of Python, NumPy or an integer tensor of one element.

    TypeError for anything else, also bools and floats; ValueError for an int beyond 64 bits.
    """
    if type(value) is not int:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"must be int, not {type_name(value)}")
        try:
            value = operator.index(value)
        except TypeError:
            raise TypeError(f"must be int, not {type_name(value)}") from None
    if not -_MOST <= value < _MOST:
        raise ValueError("Overflow when unpacking long long")
    return value


def normalize_dim(dim: int, ndim: int) -> int:
    """``dim`` counted from the front; IndexError, in PyTorch's words, if it is out of range."""
    if type(dim) is not int:
        dim = as_int(dim)
    bound = max(ndim, 1)  # a tensor without dims takes 0 and -1, as if it had one
    if not -bound <= dim < bound:
        as_int(dim)
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim % bound


def normalize_dims(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Dims counted from the front, sorted; None and () mean all of them. RuntimeError for one that is named twice."""
    several = isinstance(dim, (tuple, list))
    if dim is None or (several and not dim):
        return tuple(range(ndim))
    dims = [normalize_dim(d, ndim) for d in (dim if several else [dim])]  # type: ignore
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return tuple(sorted(dims)) if ndim else ()
