"""Arrays in a GPU's memory: what NumPy's arrays are on the CPU, as far as ops need it.

A DeviceArray is a shape and strides over an allocation, with the views that NumPy has. It computes
nothing; kernels get ``flat``, the memory from its first element on, and the strides as numbers.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["LOOPS", "Allocation", "DeviceArray", "MetaArray", "NoValues", "Pool", "check_one_device", "missing_kernel",
           "name_op", "run_on_device"]  # fmt: skip

Shape = tuple[int, ...]


_MISSING = (
    "Could not run 'aten::{kernel}' with arguments from the 'CUDA' backend: {kernel} has no CUDA kernel{limits}. Copy "
    "the arguments to the CPU with .cpu(), and the result back with .cuda()"
)


def missing_kernel(kernel: str, limits: str = "") -> NotImplementedError:
    """The error of an op that meets tensors on a device for which it has no kernel, or none for such tensors."""
    error = NotImplementedError(_MISSING.format(kernel=kernel, limits=limits))
    error.kernel = kernel  # type: ignore[attr-defined]
    return error


def name_op(error: NotImplementedError, op: str) -> None:
    """Put the op's name into `missing_kernel`'s text: a kernel does not know which op launched it."""
    kernel = getattr(error, "kernel", None)
    if kernel is not None:
        error.args = (error.args[0].replace(f"'aten::{kernel}'", f"'aten::{op}'", 1),)
        error.kernel = None  # type: ignore[attr-defined]


# What runs a hand-written loop on device arrays, by the name of the loop.
LOOPS: dict[str, Callable[..., None]] = {}


def run_on_device(name: str, args: Sequence[Any]) -> None:
    """Run the device's form of the loop ``name``; `missing_kernel` where there is none. Nothing for a MetaArray."""
    if MetaArray in map(type, args):
        return
    found = LOOPS.get(name)
    if found is None:
        raise missing_kernel(name)
    found(*args)


def check_one_device(args: Sequence[Any]) -> None:
    """RuntimeError, in PyTorch's words, where arrays of both sides meet; those without data may meet any."""
    if MetaArray in map(type, args):
        return
    kinds = {type(a): a for a in args if isinstance(a, (np.ndarray, DeviceArray))}
    if len(kinds) > 1:
        names = " and ".join("cpu" if kind is np.ndarray else "cuda:0" for kind in kinds)
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {names}!")


class Allocation:
    """A piece of device memory, given back to its pool when the last array on it dies."""

    __slots__ = ("__weakref__", "address", "array", "key", "nbytes", "pool")

    def __init__(self, array: Any, address: int, key: Any, pool: Pool):
        self.array, self.key, self.pool = array, key, pool
        # A number for the place of the first byte: the device's address where there is one.
        self.address = address
        self.nbytes = array.size * array.dtype.itemsize

    def __del__(self) -> None:
        self.pool.give_back(self)

    def typed(self, dtype: np.dtype[Any]) -> Any:
        """All of the memory as a flat array of the provider's, of ``dtype``."""
        return self.array if self.array.dtype == dtype else self.array.view(dtype)


def _address(array: Any) -> int:
    pointer = getattr(array, "device_ctypes_pointer", None)
    return (pointer.value if pointer is not None else array.__array_interface__["data"][0]) or 0


class Pool:
    """Keeps freed memory for arrays of the same dtype and size.

    Asking the driver for memory costs more than a small kernel, and freeing waits for the device.
    Kernels run in order on one stream, so memory may be used again at once.
    """

    def __init__(self, allocate: Callable[[int, np.dtype[Any]], Any], granularity: int):
        self.allocate, self.granularity = allocate, granularity
        self.idle: dict[Any, list[tuple[Any, int]]] = defaultdict(list)  # arrays and their addresses
        self.used = self.peak = self.reserved = 0
        # Every array of the allocator's, by its id. Of a cycle of garbage Python runs the finalizers of weak references
        # before ``__del__``, by which an Allocation gives its array back. Were the array held by the Allocation alone,
        # the provider's finalizer would have freed its memory by then.
        self.arrays: dict[int, Any] = {}
        # What keeps arrays of the allocator's for later use has a method ``forget``, to let go of them.
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()

    def take(self, dtype: np.dtype[Any], count: int) -> Allocation:
        """Return uninitialised memory for ``count`` elements."""
        # Sizes are rounded up, so that arrays of nearly one size share memory.
        key = dtype, -(-count // self.granularity) * self.granularity
        try:
            array, address = self.idle[key].pop()
        except IndexError:
            array, address = self._new(key)
        made = Allocation(array, address, key, self)
        self.used += made.nbytes
        self.peak = max(self.peak, self.used)
        return made

    def _new(self, key: Any) -> tuple[Any, int]:
        dtype, count = key
        try:
            made = self.allocate(count, dtype)
        except Exception:  # out of memory, in the provider's words: once more without what lies idle
            self.clear()
            made = self.allocate(count, dtype)
        self.arrays[id(made)] = made
        self.reserved += made.size * made.dtype.itemsize
        return made, _address(made)

    def give_back(self, allocation: Allocation) -> None:
        """Keep the memory of an allocation that nobody uses any more."""
        self.used -= allocation.nbytes
        self.idle[allocation.key].append((allocation.array, allocation.address))

    def clear(self) -> None:
        """Return idle memory to the driver."""
        for holder in tuple(self.holders):
            holder.forget()
        for arrays in self.idle.values():
            for array, _ in arrays:
                del self.arrays[id(array)]
        self.idle.clear()
        self.reserved = self.used


def contiguous_strides(shape: Shape, item: int) -> Shape:
    """Row-major strides in bytes."""
    strides, step = [], item
    for n in reversed(shape):
        strides.append(step)
        # max: a dimension of size 0 counts as 1, as in NumPy and PyTorch.
        step *= max(n, 1)
    return tuple(reversed(strides))


def _expanded(index: tuple[Any, ...], ndim: int) -> list[Any]:
    """The index with full slices for what it does not mention."""
    missing = [slice(None)] * (ndim - sum(i is not None and i is not Ellipsis for i in index))
    if Ellipsis not in index:
        return [*index, *missing]
    at = index.index(Ellipsis)
    return [*index[:at], *missing, *index[at + 1 :]]


class DeviceArray:
    """Shape, strides (in bytes, as NumPy's) and dtype over device memory."""

    # As NumPy's arrays are to the CPU's ops: the same names, as far as those use them.
    __slots__ = ("_flat", "allocation", "dtype", "offset", "shape", "strides")

    def __init__(self, allocation: Allocation, dtype: np.dtype[Any], shape: Shape, strides: Shape, offset: int = 0):
        self.allocation, self.dtype, self.shape, self.strides = allocation, dtype, shape, strides
        self.offset = offset  # of the first element, in bytes
        self._flat: Any = None

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, strides={self.strides}, dtype={self.dtype.name})"

    # -- attributes ----------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        """Has ``c_contiguous``, as NumPy's flags."""
        return SimpleNamespace(c_contiguous=self.is_c_contiguous())

    @property
    def base(self) -> Allocation:
        """The memory, shared by all views of it."""
        return self.allocation

    @property
    def address(self) -> int:
        """A number for the place of the first element: the device's address where there is one."""
        return self.allocation.address + self.offset

    def is_c_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        rows = contiguous_strides(self.shape, self.itemsize)
        return self.size == 0 or all(n == 1 or s == r for n, s, r in zip(self.shape, self.strides, rows, strict=True))

    @property
    def flat(self) -> Any:
        """The memory from the first element on, as a flat array of the provider's: what kernels take."""
        # Kept: to slice a provider's array takes Python work each time.
        if self._flat is None:
            memory = self.allocation.typed(self.dtype)
            self._flat = memory[self.offset // self.itemsize :] if self.offset else memory
        return self._flat

    @property
    def exact(self) -> Any:
        """The elements of a contiguous array, and nothing after them, as a flat array of the provider's."""
        return self.flat[: self.size]

    # -- views ----------------------------------------------------------------------------------

    def _view(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> DeviceArray:
        return type(self)(self.allocation, self.dtype, tuple(shape), tuple(strides), self.offset + offset)

    def on(self, allocation: Allocation, offset: int) -> DeviceArray:
        """An array of this shape and dtype on other memory, from ``offset`` bytes on."""
        return type(self)(allocation, self.dtype, self.shape, self.strides, offset)

    def restrided(
        self, shape: Sequence[int], strides: Sequence[int], offset: int = 0, dtype: Any = None
    ) -> DeviceArray:
        """The same memory under another shape; strides and offset in elements of the result's dtype."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        item = dtype.itemsize
        steps = tuple([s * item for s in strides])
        return type(self)(self.allocation, dtype, tuple(shape), steps, self.offset + offset * item)

    def reshape(self, *shape: Any) -> DeviceArray:
        """The same elements in another shape; ValueError where they are not contiguous."""
        sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
        if -1 in sizes:
            rest = math.prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = self.size // rest if rest else 0
        if not self.is_c_contiguous() or math.prod(sizes) != self.size:
            raise ValueError(f"cannot reshape device memory of shape {self.shape}, strides {self.strides} into {sizes}")
        return self._view(sizes, contiguous_strides(tuple(sizes), self.itemsize))

    def ravel(self, order: str = "C") -> DeviceArray:
        """The elements in one dimension: in order, or with "K" as they lie in memory without gaps."""
        return self._view((self.size,), (self.itemsize,)) if order == "K" else self.reshape(-1)

    def transpose(self, *axes: Any) -> DeviceArray:
        """The dimensions in another order, by default reversed."""
        order = tuple(axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)
        order = order or tuple(range(self.ndim))[::-1]
        return self._view([self.shape[d] for d in order], [self.strides[d] for d in order])

    @property
    def T(self) -> DeviceArray:
        """The dimensions reversed."""
        return self.transpose()

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        """Two dimensions exchanged."""
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.transpose(order)

    @property
    def real(self) -> DeviceArray:
        """The real parts of complex numbers."""
        return self._part(0)

    @property
    def imag(self) -> DeviceArray:
        """The imaginary parts of complex numbers."""
        return self._part(1)

    def _part(self, which: int) -> DeviceArray:
        # itemsize bytes hold two floats of 4 * itemsize bits each.
        half = np.dtype(f"float{4 * self.itemsize}")
        return type(self)(self.allocation, half, self.shape, self.strides, self.offset + which * half.itemsize)

    def __getitem__(self, index: Any) -> DeviceArray:
        """A view by integers, slices with positive steps, None and one Ellipsis."""
        shape: list[int] = []
        strides: list[int] = []
        offset, dims = 0, iter(zip(self.shape, self.strides, strict=True))
        for which in _expanded(index if isinstance(index, tuple) else (index,), self.ndim):
            if which is None:
                shape.append(1)
                strides.append(0)
                continue
            n, step = next(dims)
            if isinstance(which, slice):
                chosen = range(*which.indices(n))
                shape.append(len(chosen))
                strides.append(step * chosen.step)
                offset += step * (chosen.start if len(chosen) else 0)
            else:
                offset += step * range(n)[which]
        return self._view(shape, strides, offset)

    # -- NumPy's protocols ------------------------------------------------------------------------

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        """Refused: writing to elements would take a kernel."""
        raise missing_kernel("an assignment to elements")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, out: Any = (), **kwargs: Any) -> Any:
        """Kernels that call NumPy's BLAS run here instead, where there is a device's form of them."""
        check_one_device(args)
        run_on_device(ufunc.__name__, (*args, *out))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        check_one_device(args[:2])
        run_on_device(function.__name__, args)


class _NoMemory:
    """The allocation of arrays without data, which is as large as they like."""

    nbytes = address = 0

    def typed(self, dtype: np.dtype[Any]) -> Any:
        return self

    def __getitem__(self, index: Any) -> Any:
        return self


class NoValues(AttributeError, TypeError):
    """A MetaArray has met code that reads or writes numbers. ``launch`` catches it: there is nothing to compute."""

    def __init__(self, *_: Any, **__: Any):
        super().__init__("this array has no memory: it has a shape and a dtype only")


class MetaArray(DeviceArray, np.lib.mixins.NDArrayOperatorsMixin):
    """Shape, strides and dtype without any memory: kernels that get one are not run, or end where they look at it."""

    __slots__ = ()

    @classmethod
    def new(cls, dtype: np.dtype[Any], shape: Shape, strides: Shape) -> MetaArray:
        """An array of such a shape, with strides in bytes."""
        return cls(_NO_MEMORY, dtype, shape, strides)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        """An attribute that is missing here, such as ``astype``, is one by which numbers would be reached."""
        raise NoValues

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NoValues

    __hash__ = object.__hash__
    __setitem__ = __array__ = __array_ufunc__ = __array_function__ = _refuse


_NO_MEMORY = _NoMemory()
