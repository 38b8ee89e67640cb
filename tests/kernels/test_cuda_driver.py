"""Words of direct launches on CUDA: what a driver reads that stands for CUDA's. Runs without a GPU."""

import ctypes
import struct
import sys
import types

import numpy as np
import pytest
from numba.core import types as numba_types
from numba.core.typing.typeof import typeof

from jitgrad.kernels.cuda.blas import _lies
from jitgrad.kernels.cuda.driver import Constant, DirectLaunch, kind_of
from jitgrad.kernels.device_array import DeviceArray, Pool


class Driver(types.ModuleType):
    """Keeps what it is called with: the words as bytes."""

    status = 0

    def __init__(self, words):
        super().__init__("cuda.bindings.driver")
        self.words, self.calls = words, []

    CUfunction = int

    def cuLaunchKernel(self, *args):
        places = np.ctypeslib.as_array(ctypes.cast(args[9], ctypes.POINTER(ctypes.c_int64)), (self.words,))
        self.calls.append((args[:9], [ctypes.string_at(int(at), 8) for at in places]))
        return (self.status,)


class Compiled:
    """Stands for what numba-cuda has compiled."""

    def __init__(self, kinds):
        self.argument_types = kinds

    @property
    def _codelibrary(self):
        handle = types.SimpleNamespace(handle=77)
        return types.SimpleNamespace(get_cufunc=lambda: types.SimpleNamespace(kernel=handle))


def device_array(shape, dtype, offset=0):
    pool = Pool(lambda count, dtype: np.empty(count, dtype), 1)
    memory = pool.take(np.dtype(dtype), int(np.prod(shape)) + offset)
    made = DeviceArray(memory, np.dtype(dtype), (memory.array.size,), (memory.array.itemsize,))
    return made[offset:].reshape(shape)


def launched(monkeypatch, args, words, shaped):
    driver = Driver(words)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    kinds = [
        numba_types.Array(typeof(a.dtype).dtype, a.ndim if shaped and isinstance(a, DeviceArray) else 1, "C")
        if isinstance(a, (DeviceArray, Constant))
        else typeof(a)
        for a in args
    ]
    direct = DirectLaunch(Compiled(kinds), [kind_of(a, shaped) for a in args], shaped)
    direct.on(5, 256)(*direct.words(args))
    ((call, read),) = driver.calls
    assert call == (77, 5, 1, 1, 256, 1, 1, 0, 0)
    return direct, driver, read


def integers(words):
    return [struct.unpack("=q", w)[0] for w in words]


def test_words_of_vectors_and_numbers(monkeypatch):
    x, mask = device_array((4, 3), "float32", 2), device_array((5,), "bool")
    args = [x, mask, np.float32(1.5), np.complex64(2 - 3j), np.float64(0.1), np.int32(-7), -9, True, np.float16(0.5)]
    _, _, read = launched(monkeypatch, args, 22, False)
    start = x.allocation.array.ctypes.data + 8
    assert integers(read[:14]) == [0, 0, 12, 4, start, 12, 4, 0, 0, 5, 1, mask.allocation.array.ctypes.data, 5, 1]
    kinds = ["f", "f", "f", "d", "i", "q", "?", "e"]
    found = [struct.unpack_from(f"={kind}", word)[0] for kind, word in zip(kinds, read[14:], strict=True)]
    assert found == [1.5, 2.0, -3.0, 0.1, -7, -9, True, 0.5]


def test_words_of_arrays_with_dimensions(monkeypatch):
    x = device_array((2, 3), "float64", 1)
    _, _, read = launched(monkeypatch, [x, x[0]], 16, True)
    start = x.allocation.array.ctypes.data + 8
    assert integers(read) == [0, 0, 6, 8, start, 2, 3, 24, 8, 0, 0, 3, 8, start, 3, 8]


def test_an_error_of_the_drivers(monkeypatch):
    direct, driver, _ = launched(monkeypatch, [3], 1, False)
    driver.status = types.SimpleNamespace(name="CUDA_ERROR_INVALID_CONTEXT")
    with pytest.raises(RuntimeError, match="^CUDA error: CUDA_ERROR_INVALID_CONTEXT$"):
        direct.on(1, 256)(4)


def test_a_number_that_no_word_holds_is_the_dispatchers(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", Driver(1))
    with pytest.raises(KeyError):
        DirectLaunch(Compiled([numba_types.unicode_type]), [str], False)


@pytest.mark.parametrize(
    ("shape", "strides", "lies"),
    [
        ((1, 3, 4), (12, 4, 1), (0, 4)),
        ((1, 3, 4), (12, 6, 1), (0, 6)),
        ((1, 3, 4), (12, 1, 3), (1, 3)),
        ((1, 3, 4), (12, 8, 2), None),
        ((1, 3, 4), (0, 0, 1), None),
        ((1, 1, 4), (4, 9, 1), (0, 4)),
        ((1, 3, 1), (3, 1, 7), (0, 1)),
        ((1, 1, 1), (1, 0, 0), (0, 1)),
    ],
)
def test_how_matrices_lie(shape, strides, lies):
    memory = device_array((30,), "float32")
    assert _lies(memory.restrided(shape, strides)) == lies
