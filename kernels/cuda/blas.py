"""Products of matrices by cuBLAS, NVIDIA's library, where it is installed: several times as fast as our own kernel."""

from __future__ import annotations

import ctypes
import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.cuda.driver import SIMULATED
from jitgrad.kernels.cuda.grid import note
from jitgrad.kernels.device_array import DeviceArray

__all__ = ["product"]


class _Kind(NamedTuple):
    """cudaDataType and cublasComputeType_t of a dtype, and the dtype of the factors ``alpha`` and ``beta``."""

    data: int
    compute: int
    factor: str


# From library_types.h and cublas_api.h. Half precision is summed in float32. No TF32: PyTorch's default is exact too.
_KINDS = {
    np.dtype("float16"): _Kind(2, 68, "float32"),
    np.dtype("float32"): _Kind(0, 68, "float32"),
    np.dtype("float64"): _Kind(1, 70, "float64"),
    np.dtype("complex64"): _Kind(4, 68, "complex64"),
    np.dtype("complex128"): _Kind(5, 70, "complex128"),
}
_DEFAULT_ALGORITHM = -1


class _Library:
    """The library and its state on the device."""

    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        self.handle = ctypes.c_void_p()
        _check(library.cublasCreate_v2(ctypes.byref(self.handle)))
        self.set_stream = library.cublasSetStream_v2
        self.set_stream.argtypes = ctypes.c_void_p, ctypes.c_void_p
        self.multiply = library.cublasGemmStridedBatchedEx
        matrix = ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_longlong  # address, type, row, step to the next
        self.multiply.argtypes = (
            ctypes.c_void_p, *[ctypes.c_int] * 5, ctypes.c_void_p, *matrix, *matrix, ctypes.c_void_p, *matrix,
            *[ctypes.c_int] * 3,
        )  # fmt: skip
        self.lock = threading.Lock()  # the stream is the handle's

    def on(self, *stream: Any) -> Callable[..., None]:
        """What multiplies on a stream, by default on that on which the provider launches."""
        return functools.partial(self._multiply, int(stream[0].handle) if stream else 0)

    def _multiply(self, stream: int, *args: Any) -> None:
        with self.lock:
            _check(self.set_stream(self.handle, stream))
            _check(self.multiply(self.handle, *args))


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA error: cuBLAS ended with status {status}")


@functools.cache
def _library() -> _Library | None:
    if SIMULATED:
        return None
    try:
        return _Library(importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublas").abs_path)
    except Exception:  # not installed, or another version's entries
        return None


@functools.cache
def _factors(dtype: str) -> tuple[np.ndarray[Any, Any], int, int]:
    """(an array of 1 and 0, their addresses)."""
    numbers = np.array([1, 0], dtype)
    return numbers, numbers.ctypes.data, numbers.ctypes.data + numbers.itemsize


def _lies(stack: DeviceArray) -> tuple[int, int] | None:
    """(whether cuBLAS has to transpose each matrix of a stack, the distance of its rows or columns in elements).

    cuBLAS counts along columns, so it takes the rows of ours for columns. None where neither rows nor columns lie one
    element behind another.
    """
    item = stack.itemsize
    (_, rows, columns), (_, row, column) = stack.shape, [s // item for s in stack.strides]
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return 0, max(row if rows > 1 else 1, columns, 1)
    if (row == 1 or rows == 1) and (column >= rows or columns == 1):
        return 1, max(column if columns > 1 else 1, rows, 1)
    return None


def product(x: DeviceArray, y: DeviceArray, out: DeviceArray) -> bool:
    """Multiply stacks of matrices, (b, n, k) and (b, k, m) to a contiguous (b, n, m); False where cuBLAS can't."""
    kind, library = _KINDS.get(out.dtype), _library()
    (stack, n, k), m = x.shape, y.shape[2]
    if library is None or kind is None or not k or not x.dtype == y.dtype == out.dtype:
        return False
    left, right = _lies(x), _lies(y)
    if left is None or right is None or max(stack, n, k, m, left[1], right[1]) >= 1 << 31:
        return False
    _, one, zero = _factors(kind.factor)
    # By columns out is its own transposed, and that is the transposed y times the transposed x.
    steps = [a.strides[0] // a.itemsize for a in (y, x)]
    note(library.on)(
        right[0], left[0], m, n, k, one, y.address, kind.data, right[1], steps[0], x.address, kind.data, left[1],
        steps[1], zero, out.address, kind.data, m, n * m, stack, kind.compute, _DEFAULT_ALGORITHM,
    )  # fmt: skip
    return True
