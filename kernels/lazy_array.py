"""Arrays whose numbers are to be read conjugated or negated: what ``conj()`` of a tensor and ``imag`` of that show.

A LazyArray is an array and two bits. It has the views that NumPy's arrays have, which keep the bits, and computes
nothing: NumPy, Numba and whoever wants the numbers get an `Unresolved`, raised before anything was read or written.
`launch` and the launchers of elementwise ops catch it, run the kernel on resolved copies of the lazy arguments, and
store what it wrote back. So a kernel knows no bits, arrays without bits are tested nowhere (a ``try`` costs nothing as
long as nothing is raised), and what forgets the bits fails with an error instead of reading wrong numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["LazyArray", "Unresolved", "conjugated", "has_bits", "memory_of", "negated", "with_bits_of"]


class Unresolved(TypeError):
    """A LazyArray has met code that reads or writes numbers."""

    def __init__(self, *_: Any):
        super().__init__("this array has its conjugate or negative bit set and has to be resolved first")


class LazyArray(np.lib.mixins.NDArrayOperatorsMixin):
    """``memory``, an array of any device, with a conjugate and a negative bit of which at least one is set.

    The numbers that it stands for are those of ``memory``, conjugated if ``conjugate`` is set (complex dtypes only),
    times -1 if ``negative`` is.
    """

    # An attribute that is missing here, such as ``ravel``, is one by which numbers would be reached: see __getattr__.
    __slots__ = ("conjugate", "memory", "negative")

    def __init__(self, memory: Any, conjugate: bool, negative: bool):
        self.memory, self.conjugate, self.negative = memory, conjugate, negative

    def __repr__(self) -> str:
        return f"LazyArray({self.memory!r}, conjugate={self.conjugate}, negative={self.negative})"

    def on(self, memory: Any) -> LazyArray:
        """The same bits on a view of the memory."""
        return LazyArray(memory, self.conjugate, self.negative)

    # -- attributes ----------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.memory.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return self.memory.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes."""
        return self.memory.strides

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.memory.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.memory.size

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return self.memory.dtype.itemsize

    @property
    def flags(self) -> Any:
        """The memory's flags."""
        return self.memory.flags

    @property
    def base(self) -> Any:
        """What owns the memory: never None, as this array does not."""
        return self.memory

    # -- views ---------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> LazyArray:
        return self.on(self.memory[_with_rest(index if isinstance(index, tuple) else (index,))])

    def __setitem__(self, index: Any, value: Any) -> None:
        raise Unresolved

    def reshape(self, *shape: Any) -> LazyArray:
        """The same elements in another shape."""
        return self.on(self.memory.reshape(*shape))

    def transpose(self, *axes: Any) -> LazyArray:
        """The dimensions in another order, by default reversed."""
        return self.on(self.memory.transpose(*axes))

    def swapaxes(self, first: int, second: int) -> LazyArray:
        """Two dimensions exchanged."""
        return self.on(self.memory.swapaxes(first, second))

    @property
    def T(self) -> LazyArray:
        """The dimensions reversed."""
        return self.on(self.memory.T)

    @property
    def real(self) -> Any:
        """The real parts: those of the memory, negated if the numbers are."""
        return _with_bits(self.memory.real, False, self.negative)

    @property
    def imag(self) -> Any:
        """The imaginary parts, whose sign either bit turns."""
        return _with_bits(self.memory.imag, False, self.negative != self.conjugate)

    # -- whoever wants numbers -----------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Protocols (copying, pickling, NumPy's interfaces) ask whether there is such an attribute.
        raise AttributeError(name) if name.startswith("__") else Unresolved()

    @property
    def __array_interface__(self) -> Any:
        raise Unresolved  # of a routine of LAPACK that asks for the address

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Unresolved

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        raise Unresolved

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise Unresolved


def _with_rest(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index with an Ellipsis, so that NumPy returns a view, and no number, for a single element."""
    return index if any(i is Ellipsis for i in index) else (*index, ...)


def _with_bits(memory: Any, conjugate: bool, negative: bool) -> Any:
    return LazyArray(memory, conjugate, negative) if conjugate or negative else memory


def has_bits(array: Any) -> tuple[bool, bool]:
    """(the conjugate bit, the negative bit) of any array."""
    return (array.conjugate, array.negative) if type(array) is LazyArray else (False, False)


def memory_of(array: Any) -> Any:
    """The array itself, or the memory under a lazy one."""
    return array.memory if type(array) is LazyArray else array


def with_bits_of(array: Any, memory: Any) -> Any:
    """``memory`` under the bits of ``array``: what a tensor's array becomes where other memory is put under it."""
    return _with_bits(memory, *has_bits(array))


def conjugated(array: Any) -> Any:
    """The conjugate of a complex array, on the same memory."""
    conjugate, negative = has_bits(array)
    return _with_bits(memory_of(array), not conjugate, negative)


def negated(array: Any) -> Any:
    """An array times -1, on the same memory."""
    conjugate, negative = has_bits(array)
    return _with_bits(memory_of(array), conjugate, not negative)


