"""CUDA: the only file that imports its provider, compiles for it and asks it for memory.

Providers, by preference: ``numba.cuda`` (the numba-cuda package or what Numba itself has), on which these kernels have
run on a GPU; then numba-cuda-mlir, its successor, whose version 0.6 can't yet compile what looks at a number's bits or
compares complex numbers. With ``NUMBA_ENABLE_CUDASIM=1`` Numba's simulator runs kernels in the interpreter, thread
by thread: for tests of small arrays on machines without a GPU.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import linecache
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.kernels.cache_files import cache_directory
from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.codegen.source import LoopSource
from jitgrad.kernels.cuda import simulator
from jitgrad.kernels.cuda.driver import SIMULATED, Constant
from jitgrad.kernels.cuda.grid import THREADS, Grid, keep_while_noted
from jitgrad.kernels.device_array import DeviceArray, Pool, contiguous_strides
from jitgrad.kernels.launch import Kernel, launch, library

__all__ = [
    "SIMULATED", "THREADS", "CudaElementwise", "CudaFused", "CudaLoop", "compile_cuda", "copy_to_device",
    "copy_to_host", "device_count", "elementwise", "empty", "event", "geometry", "is_available", "memory_info", "pool",
    "properties", "provider", "synchronize", "uploaded", "user_kernel",
]  # fmt: skip


# -- the provider ----------------------------------------------------------------------------------


@functools.cache
def provider() -> Any:
    """The module ``cuda`` of the first provider that finds a GPU; None where none does."""
    for package in ("numba",) if SIMULATED else ("numba", "numba_cuda_mlir"):
        try:
            module = importlib.import_module(f"{package}.cuda")
            if module.is_available():
                if SIMULATED:
                    simulator.correct(module)
                return module
        except Exception:  # not installed, or it cannot start the driver: as good as absent
            continue
    return None


def is_available() -> bool:
    """Whether kernels can run: there is a GPU with a driver, or the simulator is on."""
    return provider() is not None


def device_count() -> int:
    """How many GPUs there are; 1 for the simulator."""
    return len(provider().gpus) if is_available() else 0


def synchronize() -> None:
    """Wait for all launches to end."""
    provider().synchronize()


def event(timing: bool) -> Any:
    """A new event of the provider's."""
    return provider().event(*() if SIMULATED else (timing,))


def properties() -> tuple[str, tuple[int, int], int]:
    """The GPU's name, its compute capability, and how many multiprocessors it has."""
    if SIMULATED:
        return "CUDA simulator", tuple(provider().current_context().compute_capability), 1
    found = provider().get_current_device()
    name = found.name.decode() if isinstance(found.name, bytes) else found.name
    return name, tuple(found.compute_capability), found.MULTIPROCESSOR_COUNT


def memory_info() -> tuple[int, int]:
    """Bytes of the GPU's memory that are free, and all it has."""
    if SIMULATED:
        return 1 << 40, 1 << 40
    found = provider().current_context().get_memory_info()
    return int(found.free), int(found.total)


# -- compiling -------------------------------------------------------------------------------------


@functools.cache
def _names() -> dict[str, Any]:
    # What every device text may name; libdevice are CUDA's mathematical functions.
    cuda = provider()
    if SIMULATED:
        return {"cuda": cuda, "np": np, **simulator.names()}
    return {"cuda": cuda, "np": np, "math": math, "libdevice": cuda.libdevice}


def _source_file(stem: str, text: str) -> Path | None:
    """Keep the text in a file: the provider's cache on disk needs one, and finds results beside it."""
    path = cache_directory() / "cuda" / f"{stem}.py"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written aside and renamed, for other processes may be about the same.
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
    except OSError:
        return None
    return path


def compile_cuda(name: str, text: str) -> Any:
    """Return the kernel ``name`` that ``text`` defines, as a lazily compiling dispatcher."""
    stem = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    path = None if SIMULATED else _source_file(stem, text)
    filename = str(path or f"<jitgrad {stem}.py>")
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    scope = {**_names(), "__name__": f"jitgrad_cuda_{stem}"}
    exec(compile(text, filename, "exec"), scope)
    function = scope[name]
    if SIMULATED:
        return provider().jit(simulator.quiet(function))
    if path is not None:
        try:
            return provider().jit(cache=True)(function)
        except (RuntimeError, TypeError, ValueError):  # the provider cannot cache here
            pass
    return provider().jit(function)


# -- elementwise kernels ---------------------------------------------------------------------------


class CudaElementwise(Kernel):
    """An emitted kernel. Arguments: DeviceArrays, scalars, for strided ones the geometry, and n.

    The arrays are those of tensors, so that a launch says what memory it touches; only here they become the provider's.
    ``arrays``: how many there are; ``tail``: how many arguments come after the scalars. The other attributes are the
    arguments of `elementwise`: so programs can make one loop of several such kernels.
    """

    __slots__ = (
        "arguments", "arrays", "conjugate", "dtype", "grid", "out_dtypes", "rules", "scalar", "strided", "tail"
    )  # fmt: skip

    def __init__(
        self, name: str, dispatcher: Any, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument],
        out_dtypes: Sequence[str], dtype: str, strided: bool, conjugate: bool,
    ):  # fmt: skip
        inputs = sum(a.kind == "array" for a in arguments)
        self.arrays = inputs + len(rules)
        super().__init__(name, self._run, tuple(range(inputs, self.arrays)))
        self.rules, self.arguments, self.out_dtypes = tuple(rules), tuple(arguments), tuple(out_dtypes)
        self.dtype, self.strided, self.conjugate = dtype, strided, conjugate
        self.grid, self.scalar, self.tail = Grid(dispatcher), np.dtype(dtype).type, 2 if strided else 1

    def _run(self, *args: Any) -> None:
        n = args[-1]
        # A grid of no blocks is an error.
        if not n:
            return
        count = self.arrays
        given = list(args[:count])
        if len(args) - self.tail > count:  # numbers travel in the compute dtype
            given += map(self.scalar, args[count : -self.tail])
        self.grid.over(n)(*given, *args[-self.tail :])


def _emitter() -> Any:
    """The emitter of CUDA texts, imported when a kernel for a device is first wanted: most programs want none."""
    from jitgrad.kernels.cuda import emit

    return emit


def elementwise(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], out_dtypes: Sequence[str], dtype: str,
    strided: bool, conjugate: bool, wide: bool,
) -> CudaElementwise:  # fmt: skip
    """Return the CUDA kernel that evaluates ``rules``; ``wide``: places need 64 bits."""
    index = "uint64" if wide else "uint32"
    text = _emitter().elementwise_text(name, rules, arguments, out_dtypes, dtype, strided, conjugate, index)
    return CudaElementwise(name, compile_cuda(name, text), rules, arguments, out_dtypes, dtype, strided, conjugate)


class CudaFused:
    """A compiled loop that does several launches, called with DeviceArrays, numbers, and the elements of a row.

    text: of the kernel ``name(arrays..., numbers..., width_, n_)``, where ``n_`` is the size of the first array; words:
    those that it calls.
    """

    def __init__(self, name: str, text: str, words: Iterable[str], dtype: str):
        self.text = _emitter().self_contained(text, words, dtype)
        self.grid, self.scalar = Grid(compile_cuda(name, self.text)), np.dtype(dtype).type

    def __call__(self, *args: Any) -> None:
        n = args[0].size
        given = [a if isinstance(a, DeviceArray) else self.scalar(a) for a in args[:-1]]
        self.grid.over(n)(*given, args[-1], n)


def geometry(sizes: Sequence[int], strides: Sequence[Sequence[int]], wide: bool) -> Constant:
    """The sizes and strides of a strided launch, in device memory."""
    numbers = [len(sizes), *sizes, *(s for steps in strides for s in steps)]
    return Constant(provider().to_device(np.array(numbers, np.uint64 if wide else np.uint32)))


# -- loops -----------------------------------------------------------------------------------------


class CudaLoop:
    """A loop written by hand for the device; its text is specialised to a dtype. ``shaped``: see `Grid`."""

    def __init__(self, function: Callable[..., None], shaped: bool = False):
        self.shaped = shaped
        self.source = LoopSource(function, also={"cuda"}, inline=_emitter().DEVICE)
        self.grids: dict[np.dtype[Any], Grid] = {}

    def text(self, dtype: str, accumulator: str) -> str:
        """The self-contained source for compute dtype ``dtype``."""
        body = _emitter().self_contained(self.source.text(), self.source.words, dtype)
        return f"A = np.{accumulator}\n{body}"

    def grid(self, dtype: np.dtype[Any]) -> Grid:
        """Return the compiled loop for ``dtype``, to be launched on blocks."""
        found = self.grids.get(dtype)
        if found is None:
            accumulator = "int64" if dtype.kind in "biu" else "float32" if dtype == np.float16 else dtype.name
            text = self.text(dtype.name, accumulator)
            found = self.grids[dtype] = Grid(compile_cuda(self.source.name, text), self.shaped)
        return found


class UserKernel(Kernel):
    """A user's numba.cuda loop, launched on a grid that has a thread for every element.

    parameters: the names of the arguments in the order in which they come, which need not be the loop's own. writes:
    which of them it writes. dtype: that of the loop's literals and of ``T``.
    """

    __slots__ = ("dtype", "loop", "order")

    def __init__(
        self, function: Callable[..., None], parameters: Sequence[str], writes: tuple[int, ...], dtype: np.dtype[Any]
    ):  # fmt: skip
        self.loop, self.dtype = CudaLoop(function, shaped=True), dtype
        self.order = [parameters.index(p) for p in self.loop.source.parameters]
        super().__init__(self.loop.source.name, self._run, writes)

    def _run(self, *args: Any) -> None:
        n = max(a.size for a in args if isinstance(a, DeviceArray))
        if n:
            given = [_loop_argument(args[k], self.dtype) for k in self.order]
            self.loop.grid(self.dtype).blocks(-(-n // THREADS))(*given)


def _loop_argument(value: Any, dtype: np.dtype[Any]) -> Any:
    """What a user's loop gets: an array, or a number no wider than the loop's dtype."""
    return dtype.type(value) if isinstance(value, float) and dtype.kind in "fc" else value


@functools.cache
def user_kernel(
    function: Callable[..., None], parameters: tuple[str, ...], writes: tuple[int, ...], dtype: np.dtype[Any]
) -> Kernel:
    """Return the kernel that runs a user's loop: ``cuda.grid(1)`` counts the elements of the largest array.

    The loop names its parameters, ``cuda``, ``math``, ``np``, words, ``T`` (``dtype``), numbers and functions. Arrays
    are contiguous. The other arguments are UserKernel's.
    """
    return UserKernel(function, parameters, writes, dtype)


# -- memory ----------------------------------------------------------------------------------------


@functools.cache
def pool() -> Pool:
    """The memory of all arrays on the device."""
    # 128 elements are at least 128 bytes, CUDA's unit of memory access.
    return Pool(lambda count, dtype: provider().device_array(count, dtype), 1 if SIMULATED else 128)


def empty(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None) -> DeviceArray:
    """An uninitialised array; ``strides`` in elements, row-major by default."""
    dtype = np.dtype(dtype)
    steps = contiguous_strides(shape, dtype.itemsize) if strides is None else tuple(s * dtype.itemsize for s in strides)
    allocation = pool().take(dtype, _extent(shape, [s // dtype.itemsize for s in steps]))
    keep_while_noted(allocation)
    return DeviceArray(allocation, dtype, tuple(shape), steps)


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    # Elements from the first to the last that the strides reach.
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


@library("out")
def copy_to_device(x: np.ndarray, out: DeviceArray) -> None:
    """Copy a contiguous array into a contiguous array on the device."""
    if x.size:
        out.exact.copy_to_device(x.reshape(-1))


def uploaded(array: np.ndarray) -> DeviceArray:
    """A small array's copy on the device: tensors without dimensions may meet those on a device."""
    made = empty(array.shape, array.dtype)
    launch(copy_to_device, array, made)
    return made


@library("out")
def copy_to_host(x: DeviceArray, out: np.ndarray) -> None:
    """Copy a contiguous array on the device into a contiguous one here; waits for the device."""
    if x.size:
        x.exact.copy_to_host(out.reshape(-1))
