"""Creation: values against NumPy, inferred dtypes, errors, and that every fill is a launch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as torch
from jitgrad.kernels.launch import observers

DTYPES = ["bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128"]
BY_NAME = {"bool": torch.bool}


def dtype_of(name):
    return BY_NAME.get(name) or getattr(torch, name)


@pytest.mark.parametrize("name", DTYPES)
def test_constants(name):
    dtype = dtype_of(name)
    made = ((torch.zeros(2, 3, dtype=dtype), 0), (torch.ones(4, dtype=dtype), 1), (torch.full((2,), 1, dtype=dtype), 1))
    for tensor, value in made:
        assert tensor.dtype is dtype
        np.testing.assert_array_equal(tensor.numpy(), np.full(tensor.shape, value, name))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (1, "int64"),
        (1.5, "float32"),
        (True, "bool"),
        (1j, "complex64"),
        ([1, 2.5], "float32"),
        ([True, 3], "int64"),
        ([], "float32"),
        (np.float64(2), "float64"),
        (np.arange(3, dtype=np.int32), "int32"),
        ([np.int32(3), 4.0], "float32"),
        (range(4), "int64"),
    ],
    ids=str,
)
def test_inferred_dtypes(data, name):
    assert torch.tensor(data).dtype is dtype_of(name)
    np.testing.assert_array_equal(torch.tensor(data).numpy(), np.asarray(data, name))


def test_the_default_dtype_decides_what_floats_become():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor(1.5).dtype is torch.float64
        assert torch.tensor(1j).dtype is torch.complex128
        assert torch.zeros(2).dtype is torch.arange(2.0).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 7), st.booleans())
@settings(max_examples=40, deadline=None)
def test_arange_of_integers(start, end, step, down):
    low, high = sorted((start, end))
    bounds = (high, low, -step) if down else (low, high, step)
    np.testing.assert_array_equal(torch.arange(*bounds).numpy(), np.arange(*bounds))


@given(st.floats(-10, 10), st.floats(-10, 10), st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_linspace(start, end, steps):
    expected = np.linspace(start, end, steps)
    np.testing.assert_allclose(torch.linspace(start, end, steps).numpy(), expected, rtol=1e-5, atol=1e-5)
    double = torch.linspace(start, end, steps, dtype=torch.float64).numpy()
    np.testing.assert_allclose(double, expected, rtol=1e-13, atol=1e-13)


def test_linspace_is_the_same_from_both_ends():
    values = torch.linspace(-1, 1, 1000).numpy()
    np.testing.assert_array_equal(values, -values[::-1])


@given(st.integers(0, 5), st.integers(0, 5), st.integers(-6, 6))
@settings(max_examples=30, deadline=None)
def test_eye_and_triangles(n, m, k):
    np.testing.assert_array_equal(torch.eye(n, m).numpy(), np.eye(n, m))
    x = np.arange(2 * n * m, dtype=np.float64).reshape(2, n, m)
    np.testing.assert_array_equal(torch.tensor(x).tril(k).numpy(), np.tril(x, k))
    np.testing.assert_array_equal(torch.tensor(x).mT.triu(k).numpy(), np.triu(x.swapaxes(1, 2), k))


def test_like_keeps_the_order_of_memory():
    x = torch.zeros(2, 3, 4).permute(2, 0, 1)
    assert torch.empty_like(x).stride() == x.stride()
    assert torch.ones_like(torch.zeros(4, 3, 5).permute(2, 0, 1)[:, ::2]).stride() == (1, 15, 5)
    assert torch.zeros_like(torch.zeros(1, 3).expand(2, 3)).is_contiguous()
    assert torch.zeros_like(x, dtype=torch.int64).dtype is torch.int64


def test_from_numpy_shares_memory_and_tensor_copies():
    array = np.zeros(3)
    shared, copied = torch.from_numpy(array), torch.tensor(array)
    array[0] = 5
    assert (shared[0], copied[0]) == (5, 0)
    shared[1] = 7
    assert array[1] == 7


def test_a_fill_of_any_strides():
    base = np.zeros((4, 5, 6))
    view = torch.from_numpy(base[1:, ::2, 1:4].transpose(2, 0, 1))
    view.fill_(3)
    expected = np.zeros((4, 5, 6))
    expected[1:, ::2, 1:4] = 3
    np.testing.assert_array_equal(base, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3),
        lambda: torch.full((2,), 2.5),
        lambda: torch.arange(4),
        lambda: torch.linspace(0, 1, 3),
        lambda: torch.eye(3),
        lambda: torch.ones_like(torch.empty(2)),
        lambda: torch.empty(3).fill_(1),
    ],
)
def test_values_come_from_launches(make):
    seen = []
    observers.append(lambda kernel, args, seconds: seen.append(kernel.name))
    try:
        make()
    finally:
        observers.pop()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: torch.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
        (lambda: torch.tensor("a"), TypeError, "new(): invalid data type 'str'"),
        (lambda: torch.tensor(None), RuntimeError, "Could not infer dtype of NoneType"),
        (lambda: torch.tensor([1, 2], requires_grad=True), RuntimeError, "Only Tensors of floating point and complex"),
        (
            lambda: torch.tensor(300, dtype=torch.uint8),
            RuntimeError,
            "cannot be converted to type uint8 without overflow",
        ),
        (lambda: torch.zeros(-1), RuntimeError, "zeros: Dimension size must be non-negative."),
        (lambda: torch.zeros(2.5), TypeError, "zeros(): argument 'size' (position 1) must be tuple of ints, not float"),
        (lambda: torch.zeros(2, dtype="f4"), TypeError, "argument 'dtype' must be torch.dtype, not str"),
        (lambda: torch.ones(2, out=3), TypeError, "ones(): argument 'out' must be Tensor, not int"),
        (lambda: torch.zeros(2, layout=3), TypeError, "zeros(): argument 'layout' must be torch.layout, not int"),
        (lambda: torch.ones(2, memory_format=torch.contiguous_format), TypeError, "keyword argument 'memory_format'"),
        (lambda: torch.arange(1, 2, 3, 4), TypeError, "arange() received an invalid combination of arguments"),
        (lambda: torch.arange(5, 1), RuntimeError, "upper bound and lower bound inconsistent with step sign"),
        (lambda: torch.arange(0, 1, 0), RuntimeError, "step must be nonzero"),
        (lambda: torch.linspace(0, 1, -1), RuntimeError, "number of steps must be non-negative"),
        (lambda: torch.from_numpy(np.ones(3)[::-1]), ValueError, "strides in the given numpy array is negative"),
        (lambda: torch.from_numpy(np.array(["a"])), TypeError, "can't convert np.ndarray of type numpy.str_"),
        (lambda: torch.ones(1, device="tpu"), RuntimeError, "Expected one of cpu, cuda"),
        (lambda: torch.tril(torch.ones(3)), RuntimeError, "tril: input tensor must have at least 2 dimensions"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words.replace("strides in", "stride in") in str(caught.value)


def test_filling_with_an_own_element():
    x = torch.tensor([[1, 2], [3, 4]])
    x[1] = x[1][0]
    assert x.tolist() == [[1, 2], [3, 3]] and x.fill_(x[0, 1]).tolist() == [[2, 2], [2, 2]]
