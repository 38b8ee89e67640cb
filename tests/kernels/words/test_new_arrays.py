"""Arrays that emitted text makes: those of NumPy, with NumPy's errors."""

import numpy as np
import pytest

from jitgrad.kernels.compiler import compile_text

TEXT = """\
def made(n, m, k):
    one = np.empty(n, np.int64)
    one[...] = 3
    return (
        one, np.empty((), np.float64), np.zeros(n, np.float64), np.zeros((n, m), np.float32),
        np.zeros((n, m, k), np.bool_), np.zeros((3, n), np.uint8),
    )

def alike(x):
    return np.zeros_like(x)
"""


def compiled(name):
    return compile_text(name, TEXT)


@pytest.mark.parametrize("sizes", [(3, 4, 2), (1, 1, 1), (0, 5, 2), (2, 0, 0)])
def test_shapes_and_dtypes(sizes):
    found = compiled("made")(*sizes)
    n, m, k = sizes
    expected = [
        np.full(n, 3), np.empty(()), np.zeros(n), np.zeros((n, m), np.float32), np.zeros(sizes, bool),
        np.zeros((3, n), np.uint8),
    ]  # fmt: skip
    for array, like in zip(found, expected, strict=True):
        assert array.shape == like.shape and array.dtype == like.dtype and array.flags.c_contiguous
        if like.ndim:
            np.testing.assert_array_equal(array, like)
            assert not array.size or array.strides == like.strides


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.complex128])
def test_alike(dtype):
    x = np.ones((4, 6), dtype)
    fixed = x.copy()
    fixed.flags.writeable = False
    for given in (x, x.T, x[::2, ::-1], x[0], np.ones((), dtype), x[:0], fixed):
        found = compiled("alike")(given)
        assert found.shape == given.shape and found.dtype == dtype and found.flags.writeable
        assert not found.any() and (found.flags.c_contiguous or found.flags.f_contiguous)
        assert not np.shares_memory(found, given)


def test_sizes_that_no_array_has():
    with pytest.raises(ValueError, match="negative dimensions not allowed"):
        compiled("made")(2, -1, 3)
    with pytest.raises(ValueError, match="array is too big"):
        compiled("made")(2, 1 << 62, 1)
    with pytest.raises(MemoryError):
        compiled("made")(2, 1 << 55, 1)


def test_memory_is_freed_with_the_array():
    made = compiled("alike")
    x = np.zeros(1 << 17)
    assert len({made(x).ctypes.data for _ in range(9)}) < 9
