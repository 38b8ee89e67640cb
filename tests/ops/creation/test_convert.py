"""From tensors to Python and NumPy and back, casts, copies, pickles, shared memory."""

import copy
import io
import math
import pickle

import numpy as np
import pytest

import jitgrad as torch

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"]


def dtype_of(name):
    return {"bool": torch.bool}.get(name) or getattr(torch, name)


def test_python_numbers():
    x = torch.tensor(2.5)
    assert (x.item(), float(x), int(x), complex(x), bool(x)) == (2.5, 2.5, 2, 2.5, True)
    assert math.floor(torch.tensor(3.7).item()) == 3
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert list(range(torch.tensor(3))) == [0, 1, 2]
    assert f"{torch.tensor(1.23456):.2f}" == "1.23"
    assert type(torch.tensor(1).item()) is int
    assert type(torch.tensor(True).item()) is bool


def test_sequences():
    x = torch.arange(6).view(2, 3)
    assert (len(x), x.tolist()) == (2, [[0, 1, 2], [3, 4, 5]])
    assert [row.tolist() for row in x] == x.tolist()
    assert 4 in x
    assert 7 not in x
    a, b = torch.tensor([1.0, 2.0], requires_grad=True)
    assert type(a.grad_fn).__name__ == "UnbindBackward0"
    assert [t.item() for t in reversed(torch.arange(3))] == [2, 1, 0]


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("target", DTYPES)
def test_casts(target):
    source = np.array([[0, 1, 2], [3, 100, 7]])
    for name in DTYPES:
        x = torch.from_numpy(source.astype(name)).t()
        y = x.to(dtype_of(target))
        assert y.dtype is dtype_of(target)
        assert y.stride() == x.stride()
        with np.errstate(all="ignore"):
            expected = source.astype(name).T
            if name.startswith("c") and not target.startswith("c"):
                expected = expected.real if target != "bool" else expected != 0
            np.testing.assert_array_equal(y.numpy(), expected.astype(target))


def test_to_returns_the_tensor_itself_where_nothing_changes():
    x = torch.zeros(2)
    assert x.to(torch.float32) is x.to("cpu") is x.float() is x.cpu() is x.type_as(x) is x
    assert x.to(torch.float32, copy=True) is not x
    assert x.to(torch.zeros(1, dtype=torch.int32)).dtype is torch.int32


def test_casts_pass_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x.double() * 3).sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [3, 3]
    assert not x.long().requires_grad


def test_numpy_shares_memory():
    x = torch.zeros(2, 3)
    x.numpy()[0, 1] = 5
    np.asarray(x)[1, 2] = 6
    assert x.sum() == 11
    assert np.asarray(x, np.float64).dtype == np.float64
    assert x.t().numpy().strides == (4, 12)


def test_dlpack():
    x = torch.arange(4.0)
    np.from_dlpack(x)[0] = 9
    assert x[0] == 9
    y = torch.from_dlpack(np.arange(3))
    assert y.tolist() == [0, 1, 2]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        x.requires_grad_().__dlpack__()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.complex64, torch.int16])
def test_dlpack_capsules(dtype):
    x = torch.tensor([0, 1, 0, 1, 1, 0]).view(2, 3).to(dtype)
    for take in (torch.from_dlpack, torch.asarray):
        y = take(torch.to_dlpack(x.t()))
        assert y.dtype is dtype and y.tolist() == x.t().tolist() and y.data_ptr() == x.data_ptr()
    assert torch.from_dlpack(x).dtype is dtype
    assert torch.asarray(torch.to_dlpack(x), copy=True).data_ptr() != x.data_ptr()


def test_a_dlpack_capsule_is_taken_once():
    capsule = torch.to_dlpack(torch.ones(2, requires_grad=True))
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        torch.from_dlpack(capsule)


def test_pickles_and_copies():
    x = torch.arange(6.0).view(2, 3).clone().requires_grad_()
    x.grad = torch.ones(2, 3)
    x.label = "weights"
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.tolist() == x.tolist()
        assert y.requires_grad and y.label == "weights"
        with torch.no_grad():
            y.add_(1)
        assert x[0, 0] == 0
    assert copy.deepcopy(x).grad.tolist() == x.grad.tolist()
    shared = copy.copy(x)
    with torch.no_grad():
        shared[0, 0] = 5
    assert x[0, 0] == 5
    twice = [x, x]
    first, second = copy.deepcopy(twice)
    assert first is second
    strided = pickle.load(io.BytesIO(pickle.dumps(torch.arange(6).view(2, 3).t()[::2])))
    assert strided.tolist() == [[0, 3], [2, 5]]


def test_what_a_tensor_says_of_itself():
    x = torch.zeros(2, 3, dtype=torch.float64)
    assert (x.size(), x.size(1), x.stride(), x.stride(0)) == (torch.Size([2, 3]), 3, (3, 1), 3)
    assert (x.dim(), x.numel(), x.nelement(), x.element_size(), x.nbytes) == (2, 6, 6, 8, 48)
    assert (x[1, 1:].storage_offset(), x.t().is_contiguous(), x.t().t().is_contiguous()) == (4, False, True)
    assert x[1].data_ptr() == x.data_ptr() + 24
    assert (x.type(), x.int().type(), str(x.device)) == ("torch.DoubleTensor", "torch.IntTensor", "cpu")
    assert x.is_floating_point()
    assert not x.is_complex()
    assert isinstance(x, torch.DoubleTensor)
    assert not isinstance(x, torch.FloatTensor)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: torch.zeros(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
        (lambda: float(torch.zeros(2)), ValueError, "only one element tensors can be converted to Python scalars"),
        (lambda: bool(torch.zeros(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (lambda: bool(torch.zeros(0)), RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
        (
            lambda: [1][torch.tensor(0.0)],
            TypeError,
            "only integer tensors of a single element can be converted to an index",
        ),
        (lambda: len(torch.tensor(1)), TypeError, "len() of a 0-d tensor"),
        (lambda: list(torch.tensor(1)), TypeError, "iteration over a 0-d tensor"),
        (lambda: "a" in torch.zeros(2), RuntimeError, "Tensor.__contains__ only supports Tensor or scalar"),
        (
            lambda: torch.zeros(2, requires_grad=True).numpy(),
            RuntimeError,
            "Can't call numpy() on Tensor that requires grad.",
        ),
        (
            lambda: np.asarray(torch.zeros(2, requires_grad=True)),
            RuntimeError,
            "Can't call numpy() on Tensor that requires",
        ),
        (
            lambda: copy.deepcopy(torch.zeros(2, requires_grad=True) * 1),
            RuntimeError,
            "Only Tensors created explicitly by",
        ),
        (
            lambda: torch.zeros(2).size(2),
            IndexError,
            "Dimension out of range (expected to be in range of [-1, 0], but got 2)",
        ),
        (lambda: torch.zeros(2).type("foo"), ValueError, "invalid type: 'foo'"),
        (lambda: format(torch.zeros(2), ".2f"), TypeError, "unsupported format string passed to Tensor.__format__"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_a_scalar_that_requires_grad_warns_when_converted():
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
        float(torch.tensor(1.0, requires_grad=True))


def test_an_imaginary_number_is_true():
    assert torch.tensor([1j, 0j]).bool().tolist() == [True, False]


def test_casting_complex_to_real_warns():
    with pytest.warns(UserWarning, match="Casting complex values to real discards the imaginary part"):
        torch.tensor([1j]).float()


def _assigned(x, value):
    x[:] = value


@pytest.mark.parametrize("write", [lambda x, value: x.copy_(value), _assigned])
def test_writing_complex_numbers_into_real_ones_warns(write):
    x, flags = torch.zeros(2), torch.zeros(2, dtype=torch.bool)
    with pytest.warns(UserWarning, match="Casting complex values to real discards the imaginary part"):
        write(x, torch.tensor([1 + 1j, 2j]))
    write(flags, torch.tensor([1j, 0j]))  # without a warning, which is an error here
    assert (x.tolist(), flags.tolist()) == ([1, 0], [True, False])
