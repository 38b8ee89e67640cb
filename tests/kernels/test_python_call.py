"""Calls of kernels from Python without wrappers of Numba's: kinds of arguments, errors, kernels that keep a wrapper."""

import threading

import numpy as np
import pytest

from jitgrad.kernels import python_call
from jitgrad.kernels.argument_kinds import numba_types
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.numba_dispatcher import numba_dispatcher

TEXT = """
def kernel(x, out, whole, truth, real, number):
    if whole == 7:
        raise ValueError("seven")
    for i in range(x.shape[0]):
        out[i, 0] = x[i] * number + (real if truth else whole)
"""


@pytest.fixture(scope="module")
def kernel():
    made = compile_text("kernel", TEXT, allocates=False)
    made(np.ones(1), np.ones((1, 1), complex), 1, True, 1.0, 1j)
    return made


def called(kernel, x, *numbers):
    out = np.zeros((x.size, 2), complex)[:, ::-1]
    assert kernel(x, out, *numbers) is None
    return out[:, 0].tolist()


def test_it_has_no_function_of_its_own(kernel):
    (kinds,) = kernel.overloads
    assert kernel.overloads[kinds].called
    dispatcher = numba_dispatcher(kernel.made)
    dispatcher.compile(numba_types(kinds))
    (made,) = dispatcher.overloads.values()
    assert not made.library.get_pointer_to_function(made.fndesc.llvm_cpython_wrapper_name)


def test_numba_calls_it_too(kernel):
    out = np.zeros((2, 1), complex)
    kernel.dispatcher(np.ones(2), out, 3, False, 1.0, 2j)
    assert out[:, 0].tolist() == [3 + 2j, 3 + 2j]
    with pytest.raises(OverflowError, match="too big"):
        kernel.dispatcher(np.ones(2), out, 1 << 70, False, 1.0, 2j)


class Halves(np.ndarray):
    """An array of another class than NumPy's."""


class Whole(int):
    """A number of another class than Python's."""


def test_classes_derived_from_arrays_and_numbers(kernel):
    x, out = np.arange(3.0), np.zeros((3, 1), complex)
    kernel(x.view(Halves), out.view(Halves), Whole(2), np.False_, 0.0, 1 + 0j)
    assert out[:, 0].tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", ["longlong", "ulonglong", "int_", "intc", "uintp"])
def test_dtypes_of_one_kind(name):
    """Two of C's types may have the same bits, and are two dtypes to NumPy."""
    add = compile_text("add_ints", "def add_ints(x, out):\n    for v in x.flat:\n        out[0] += v\n")
    for x in (np.arange(3).astype(name), np.arange(6).astype(name)[::2], np.arange(3).astype(name).reshape(3, 1)):
        for given in (x, x.astype(x.dtype.name)):
            out = np.zeros(1, given.dtype)
            add(given, out)
            assert out[0] == x.sum()


def test_other_kinds_are_compiled_when_they_come(kernel):
    """Another dtype, number of dims, order of memory, and an array that can't be written."""
    add = compile_text("add_all", "def add_all(x, out):\n    for v in x.flat:\n        out[0] += v\n")
    given = [
        np.ones(3), np.ones(3, np.float32), np.ones(3, np.bool_), np.ones(3, np.uint8), np.ones((1, 3)),
        np.ones(6)[::2], np.asfortranarray(np.ones((3, 2))), np.ones((3, 2))[:, 0], np.array(3.0), np.ones(0),
        np.ones((3, 0)),
    ]  # fmt: skip
    fixed = np.ones(3)
    fixed.flags.writeable = False
    wide = np.frombuffer(b"\0" * 3 + np.ones(3).tobytes(), np.uint8)[3:].view(np.float64)
    assert not wide.flags.aligned
    for x in [*given, fixed, wide] * 2:
        out = np.zeros(1)
        add(x, out)
        assert out[0] == x.sum()
    assert len(add.overloads) == 10 and all(found.called for found in add.overloads.values())
    for unknown in (np.ones(3, ">f8"), np.ones(3, "M8[s]"), np.ones(3, np.float16), np.ma.ones(3)):
        with pytest.raises(TypeError, match="add_all"):
            add(unknown, np.zeros(1))


@pytest.mark.parametrize("whole", [0, -1, 1 << 62, -(1 << 63), np.int64(-5)])
@pytest.mark.parametrize("truth", [True, False, np.True_, np.False_])
def test_numbers_arrive(kernel, whole, truth):
    x = np.arange(3.0)
    added = 0.5 if truth else float(whole)
    for real, number in ((0.5, 2j), (np.float64(0.5), np.complex128(2j))):
        assert called(kernel, x, whole, truth, real, number) == [v * 2j + added for v in x.tolist()]


def test_strided_and_empty_arrays(kernel):
    assert called(kernel, np.arange(6.0)[::-2], 0, False, 0.0, 1 + 0j) == [5, 3, 1]
    assert called(kernel, np.zeros(0), 0, False, 0.0, 1 + 0j) == []


def test_errors_of_kernels(kernel):
    for _ in range(3):
        with pytest.raises(ValueError, match="^seven$"):
            called(kernel, np.ones(2), 7, False, 0.0, 1j)
    assert called(kernel, np.ones(2), 6, False, 0.0, 1j) == [6 + 1j, 6 + 1j]


def test_numbers_that_no_word_holds(kernel):
    with pytest.raises(OverflowError, match="too big"):
        called(kernel, np.ones(2), 1 << 70, False, 0.0, 1j)


def test_threads_call_one_kernel_at_once(kernel):
    found = {}

    def call(k):
        found[k] = [called(kernel, np.full(50, float(k)), k * 10, False, 0.0, 1j) for _ in range(200)]

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(row == [10 * k + 1j * k] * 50 for k, rows in found.items() for row in rows)


def test_other_kernels_have_their_own():
    """What returns something, and numbers of other types."""
    double = compile_text("double", "def double(x):\n    return x * 2\n", allocates=False)
    assert double(4) == 8
    add = compile_text("add", "def add(x, y):\n    x[0] += y\n", allocates=False)
    x = np.ones(1, np.float32)
    add(x, np.float32(0.5))
    assert x.tolist() == [1.5]


@pytest.mark.parametrize("on_disk", [False, True])
def test_without_it_numba_makes_them(monkeypatch, tmp_path, on_disk):
    def fail():
        raise NotImplementedError

    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    text = "def halve(x):\n    for i in range(x.size):\n        x[i] *= 0.5\n"
    if on_disk:  # without a wrapper, from a time when there was no need of one
        compile_text("halve", text, allocates=False)(np.ones(3))
    monkeypatch.setattr(python_call, "_call_kernel", fail)
    made = compile_text("halve", text, allocates=False)
    x = np.ones(3)
    made(x)
    assert x.tolist() == [0.5] * 3
    (known,) = made.dispatcher.overloads.values()
    assert known.library.get_pointer_to_function(known.fndesc.llvm_cpython_wrapper_name)
