"""CUDA's driver by cuda.core: launches without the provider's dispatcher, and graphs of launches.

The dispatcher works out each argument's type and reads all of an array's fields, 10 us an array. A kernel that it has
compiled once can be launched on words: what its entry takes, of which an array is seven or more.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba.core import config, types

from jitgrad.kernels.device_array import DeviceArray
from jitgrad.kernels.lazy_array import LazyArray, Unresolved

__all__ = ["SIMULATED", "Constant", "DirectLaunch", "device", "graph_of", "kind_of", "provided"]

SIMULATED = bool(config.ENABLE_CUDASIM)


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
    return argument.dtype if isinstance(argument, Constant) else type(argument)


def provided(argument: Any, shaped: bool) -> Any:
    """The argument as the dispatcher takes it: arrays are the provider's."""
    if isinstance(argument, DeviceArray):
        if not shaped:
            return argument.flat
        return argument.exact.reshape(argument.shape) if argument.ndim > 1 else argument.exact
    return argument.array if isinstance(argument, Constant) else argument


def _words_of_array(address: int, shape: Sequence[int], item: int) -> tuple[int, ...]:
    """A contiguous array: two owners, of which a kernel needs none; size, itemsize, address, shape, strides."""
    size, strides = 1, []
    for n in reversed(shape):
        strides.append(size * item)
        size *= n
    return (0, 0, size, item, address, *shape, *reversed(strides))


def _words_of_vector(array: DeviceArray) -> tuple[int, ...]:
    # The size is of no use to kernels that are told how many elements they go through.
    n, item = array.allocation.nbytes - array.offset, array.dtype.itemsize
    return 0, 0, n // item, item, array.address, n // item, item


def _words_of_shaped(array: DeviceArray) -> tuple[int, ...]:
    return _words_of_array(array.address, array.shape, array.dtype.itemsize)


def _words_of_number(kind: types.Type) -> Callable[[Any], tuple[Any, ...]]:
    """What makes the words of a number that a kernel takes as ``kind``; NotImplementedError for another kind."""
    if isinstance(kind, types.Complex):
        part = np.dtype(kind.underlying_float.name).type
        return lambda value: (part(value.real), part(value.imag))
    if isinstance(kind, types.Boolean):
        return lambda value: (bool(value),)
    if kind == types.float16:
        return lambda value: (np.float16(value).view(np.uint16),)
    if isinstance(kind, (types.Integer, types.Float)):
        number = np.dtype(kind.name).type
        return lambda value: (number(value),)
    raise NotImplementedError(kind)


class DirectLaunch:
    """Launches of one compiled kernel on words, for arguments of the kinds that it was compiled for.

    kernel: what the provider's dispatcher has compiled. This rests on its insides: any exception here means that only
    the dispatcher can launch it.
    """

    __slots__ = ("_configurations", "_kernel", "_launch", "_makers", "_stream")

    def __init__(self, kernel: Any, args: Sequence[Any], shaped: bool):
        core = importlib.import_module("cuda.core")
        self._kernel, self._launch = kernel._codelibrary.get_cufunc().kernel, core.launch
        self._stream = device().default_stream
        self._configurations = functools.cache(lambda blocks, threads: core.LaunchConfig(grid=blocks, block=threads))
        array = _words_of_shaped if shaped else _words_of_vector
        self._makers: list[Callable[[Any], tuple[Any, ...]]] = [
            array if isinstance(a, DeviceArray)
            else (lambda constant: constant.words) if isinstance(a, Constant)
            else _words_of_number(kind)
            for a, kind in zip(args, kernel.argument_types, strict=True)
        ]  # fmt: skip

    def words(self, args: Sequence[Any]) -> list[Any]:
        """The words of arguments of the same kinds."""
        words: list[Any] = []
        for make, argument in zip(self._makers, args):
            words += make(argument)
        return words

    def on(self, blocks: int, threads: int, *stream: Any) -> Callable[..., None]:
        """What launches on words, on a stream: by default that on which the provider launches."""
        chosen = stream[0] if stream else self._stream
        return functools.partial(self._launch, chosen, self._configurations(blocks, threads), self._kernel)


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
