"""CUDA's driver: launches without the provider's dispatcher, and graphs of launches.

The dispatcher works out each argument's type and reads all of an array's fields, 10 us an array. A kernel that it has
compiled once can be launched on words: what its entry takes, of which an array is seven or more.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels.device_array import DeviceArray
from jitgrad.kernels.lazy_array import LazyArray, Unresolved
from jitgrad.kernels.numba_flags import numba_flag

__all__ = ["SIMULATED", "Constant", "DirectLaunch", "device", "graph_of", "kind_of", "provided"]

SIMULATED = numba_flag("ENABLE_CUDASIM")


@functools.cache
def device() -> Any:
    """The device of cuda.core; None in the simulator, and where cuda.core is not installed."""
    if SIMULATED:
        return None
    try:
        found = importlib.import_module("cuda.core").Device()
        found.set_current()
        return found
    except Exception:  # absent, or too old for the driver
        return None


class Constant:
    """A vector of the provider's that stays as it is, such as the sizes and strides of a strided launch."""

    def __init__(self, array: Any):
        self.array, self.dtype = array, array.dtype

    @functools.cached_property
    def words(self) -> tuple[int, ...]:
        """What a kernel takes for it; see `DirectLaunch`."""
        return _words_of_array(self.array.device_ctypes_pointer.value, self.array.shape, self.dtype.itemsize)


def kind_of(argument: Any, shaped: bool) -> Any:
    """What decides which of a dispatcher's kernels an argument fits; `Unresolved` if that is none."""
    if isinstance(argument, DeviceArray):
        return (argument.dtype, argument.ndim) if shaped else argument.dtype
    if isinstance(argument, LazyArray):
        raise Unresolved
    return (Constant, argument.dtype) if isinstance(argument, Constant) else type(argument)


def provided(argument: Any, shaped: bool) -> Any:
    """The argument as the dispatcher takes it: arrays are the provider's."""
    if isinstance(argument, DeviceArray):
        if not shaped:
            return argument.flat
        return argument.exact.reshape(argument.shape) if argument.ndim > 1 else argument.exact
    return argument.array if isinstance(argument, Constant) else argument


def _words_of_array(address: int, shape: Sequence[int], item: int) -> tuple[int, ...]:
    """What Numba's kernels take for a contiguous array.

    Pointers to two owners (null: only reference counts need them), size, itemsize, address, shape, strides in bytes.
    """
    size, strides = 1, []
    for n in reversed(shape):
        strides.append(size * item)
        size *= n
    return (0, 0, size, item, address, *shape, *reversed(strides))


def _words_of_vector(array: DeviceArray) -> tuple[int, ...]:
    # The size is that of all memory from the first element on, as the dispatcher gets it: the elements of a strided
    # array may lie beyond its first ``size``.
    memory, item, offset = array.allocation, array.dtype.itemsize, array.offset
    n = (memory.nbytes - offset) // item
    return 0, 0, n, item, memory.address + offset, n, item


def _words_of_shaped(array: DeviceArray) -> tuple[int, ...]:
    return _words_of_array(array.address, array.shape, array.dtype.itemsize)


def _words_of_constant(constant: Constant) -> tuple[int, ...]:
    return constant.words


def _words_of_number(number: Any) -> tuple[Any, ...]:
    return (number,)


def _words_of_complex(number: Any) -> tuple[Any, ...]:
    return number.real, number.imag


# How the module struct calls each kind of number, and what fills its word.
_NUMBERS = {
    "bool": "?7x", "int8": "b7x", "uint8": "B7x", "int16": "h6x", "uint16": "H6x", "int32": "i4x", "uint32": "I4x",
    "int64": "q", "uint64": "Q", "float16": "e6x", "float32": "f4x", "float64": "d", "complex64": "f4xf4x",
    "complex128": "dd",
}  # fmt: skip


def _form(given: Any, kind: Any, shaped: bool) -> tuple[Callable[[Any], tuple[Any, ...]], str]:
    """(what makes the words of an argument of kind ``given``, their format). KeyError for a number of another type."""
    from numba.core import types  # here, as whoever has no device needs no Numba

    if isinstance(kind, types.Array):
        if isinstance(given, tuple) and given[0] is Constant:
            return _words_of_constant, "7q"
        return (_words_of_shaped, f"{5 + 2 * kind.ndim}q") if shaped else (_words_of_vector, "7q")
    return (_words_of_complex if isinstance(kind, types.Complex) else _words_of_number), _NUMBERS[kind.name]


class DirectLaunch:
    """Launches of one compiled kernel on words, for arguments of the kinds that it was compiled for; see `kind_of`.

    kernel: what the provider's dispatcher has compiled. This rests on its insides: any exception here means that only
    the dispatcher can launch it.
    """

    __slots__ = ("_at", "_driver", "_kernel", "_lock", "_makers", "_pack", "_places", "_words")

    def __init__(self, kernel: Any, kinds: Sequence[Any], shaped: bool):
        self._driver = importlib.import_module("cuda.bindings.driver")
        self._kernel = self._driver.CUfunction(int(kernel._codelibrary.get_cufunc().kernel.handle))
        forms = [_form(given, kind, shaped) for given, kind in zip(kinds, kernel.argument_types, strict=True)]
        self._makers = [make for make, _ in forms]
        packed = struct.Struct("=" + "".join(form for _, form in forms))
        # The driver reads each word where a list of addresses says. It has read all when a launch returns.
        self._words = ctypes.create_string_buffer(packed.size)
        start = ctypes.addressof(self._words)
        self._places = np.arange(start, start + packed.size, 8)
        self._at, self._pack, self._lock = self._places.ctypes.data, packed.pack_into, threading.Lock()

    def words(self, args: Sequence[Any]) -> list[Any]:
        """The words of arguments of the same kinds."""
        words: list[Any] = []
        for make, argument in zip(self._makers, args):
            words += make(argument)
        return words

    def on(self, blocks: int, threads: int, *stream: Any) -> Callable[..., None]:
        """What launches on words, on a stream of cuda.core's: by default on that on which the provider launches."""
        return functools.partial(self._launch, blocks, threads, int(stream[0].handle) if stream else 0)

    def _launch(self, blocks: int, threads: int, stream: int, *words: Any) -> None:
        with self._lock:
            self._pack(self._words, 0, *words)
            (status,) = self._driver.cuLaunchKernel(
                self._kernel, blocks, 1, 1, threads, 1, 1, 0, stream, self._at, 0
            )  # fmt: skip
        if status:
            raise RuntimeError(f"CUDA error: {status.name}")


def graph_of(noted: Callable[[Any], None]) -> Callable[[], None] | None:
    """What does all that ``noted`` launches on a stream, at one call of the driver's; None where it can't be had.

    Their kernels must have run before: loading one is nothing that a graph can hold.
    """
    at = device()
    if at is None:
        return None
    builder = at.create_graph_builder()
    try:
        builder.begin_building()
        noted(builder.stream)
        graph = builder.end_building().complete()
    except Exception:  # something that was noted can't be captured
        return None
    finally:
        builder.close()
    return functools.partial(graph.launch, at.default_stream)
