"""Tensors on memory that its owner marked read-only: PyTorch warns, and writes."""

import warnings

import numpy as np
import pytest

import jitgrad as torch


def frozen(*shape):
    array = np.zeros(shape)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("make", [torch.from_numpy, torch.as_tensor, torch.asarray])
@pytest.mark.parametrize("shape", [(3,), (), (0,), (2, 2)])
def test_a_read_only_array_warns_and_works(make, shape):
    array = frozen(*shape)
    with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
        tensor = make(array)
    tensor.add_(1)
    tensor.fill_(2)
    assert tensor.sum().item() == 2 * array.size and (array == 2).all()
    assert tensor.numpy().flags.writeable


def test_a_copy_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.tensor(frozen(2)).tolist() == [0, 0]


def test_strided_read_only_arrays_and_gradients():
    with pytest.warns(UserWarning, match="not writable"):
        x = torch.from_numpy(frozen(4, 3)[::2, 1:])
    assert x.stride() == (6, 1)
    x.requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def test_frombuffer():
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        assert torch.frombuffer(b"1234", dtype=torch.uint8).tolist() == [49, 50, 51, 52]
    memory = bytearray(8)
    torch.frombuffer(memory, dtype=torch.int16, count=2, offset=2).fill_(1)
    assert list(np.frombuffer(memory, np.int16)) == [0, 1, 1, 0]


@pytest.mark.parametrize(("options", "message"), [
    ({"dtype": torch.float64}, r"buffer length \(5 bytes\) after offset \(0 bytes\) must be a multiple of"),
    ({"dtype": torch.uint8, "count": 0}, r"both buffer length \(5\) and count \(0\) must not be 0"),
    ({"dtype": torch.uint8, "offset": 5}, r"offset \(5 bytes\) must be non-negative and no greater than"),
    ({"dtype": torch.uint8, "count": 7}, r"requested buffer length \(7 \* 1 bytes\) after offset \(0 bytes\) must not"),
])  # fmt: skip
def test_a_buffer_of_another_size_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        torch.frombuffer(bytearray(5), **options)


def test_what_is_no_buffer_is_refused():
    with pytest.raises(ValueError, match="object does not implement Python buffer protocol"):
        torch.frombuffer("text", dtype=torch.uint8)
