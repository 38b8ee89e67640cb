"""Damaged files that a program trusts (``weights_only=False``) and damaged pickles: an error, and the process lives."""

import copy
import io
import pickle

import pytest

import jitgrad as torch


def row(value):
    """A file of before PyTorch 1.6."""
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


@pytest.mark.parametrize("put", [b"r\0\0\0\4", b"p67108864\n"])
def test_a_number_that_would_need_a_table_of_a_gigabyte(put):
    blob = row({"a": 1, "b": torch.ones(2)})
    first = blob.index(b"}q\0")
    changed = blob[: first + 1] + put + blob[first + 3 :]
    with pytest.raises(pickle.UnpicklingError, match="numbers something 67108864"):
        torch.load(io.BytesIO(changed), weights_only=False)


@pytest.mark.parametrize("put", [b"\x96" + b"\0\0\0\0\0\0\0\x40", b"\x8d" + b"\0\0\0\0\x10\0\0\0", b"B\0\0\0\x7f",
                                 b"\x95" + b"\0\0\0\0\x10\0\0\0", b"T\0\0\0\x7f"])  # fmt: skip
def test_bytes_that_the_file_does_not_have(put, tmp_path):
    """Python's unpickler has memory for all of them, and freed a bytearray that was still in use."""
    blob = row({"a": 1, "b": torch.ones(2)})
    first = blob.index(b"}q\0")
    (tmp_path / "file.pt").write_bytes(blob[:first] + put + blob[first:])
    with pytest.raises(pickle.UnpicklingError, match=r"claims \d+ bytes, of which the file has \d+ left"):
        torch.load(tmp_path / "file.pt", weights_only=False)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_numbers_of_sound_files_are_let_through(protocol):
    value = {
        "many": [(k, f"name {k}", 1 << k) for k in range(400)], "bytes": b"r\xff\xff\xff\x7f" * 60,
        "text": "p9999\n" * 60, "x": torch.ones(2), "f": 1.5, "big": bytearray(b"p7\n" * 100), "c": torch.Size((1, 2)),
    }  # fmt: skip
    file = io.BytesIO()
    torch.save(value, file, pickle_protocol=protocol, _use_new_zipfile_serialization=False)
    read = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert read["x"].tolist() == [1, 1] and {**read, "x": 0} == {**value, "x": 0}


@pytest.mark.parametrize("change", [
    (b"float32", b"float64"), (b"float32", b"float3x"), (b"K\2K\3\x86", b"K\2K\4\x86"), (b"K\2K\3\x86", b"K\2N\x86"),
    (b"K\2K\3\x86", b"K\2\x86"), (b"Tensor", b"Module"), (b"Tensor", b"Size\n"),
])  # fmt: skip
def test_changed_pickles_of_tensors(change):
    for protocol in (2, 4, 5):
        blob = pickle.dumps(torch.ones(2, 3), protocol)
        assert change[0] in blob or change[0] == b"Tensor"
        with pytest.raises((RuntimeError, KeyError, TypeError, AttributeError, ValueError, pickle.UnpicklingError)):
            pickle.loads(blob.replace(*change))


def test_pickles_hold_no_arrays_of_numpy():  # whose dtypes end the process where they are damaged
    values = torch.ones(2, 3).t(), torch.ones(2).untyped_storage(), torch.nn.Linear(2, 2), torch.eye(2).to_sparse()
    for value in (*values, torch.Generator().manual_seed(3)):
        for protocol in (2, 4, 5):
            assert b"numpy" not in pickle.dumps(value, protocol)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_tensors_in_pickles(protocol):
    for x in (
        torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3).t(), torch.tensor(2), torch.ones(0, 3),
        torch.tensor([True, False]), torch.tensor([1.5, -2], dtype=torch.bfloat16), torch.arange(8.0)[::2],
        torch.tensor([1 + 2j]).conj(), torch.tensor([3], dtype=torch.uint16), torch.ones(2, requires_grad=True),
    ):  # fmt: skip
        read = pickle.loads(pickle.dumps(x, protocol))
        assert (read.dtype, read.shape, read.requires_grad) == (x.dtype, x.shape, x.requires_grad)
        assert read.tolist() == x.tolist() and read.is_conj() == x.is_conj()
        if not x.requires_grad:
            read[...] = x  # in memory that may be written to
    assert pickle.loads(pickle.dumps(torch.ones(2, 3).t(), protocol)).stride() == (1, 3)


def test_a_buffer_outside_of_the_pickle_is_shared():
    x, buffers = torch.arange(4.0), []
    blob = pickle.dumps(x, 5, buffer_callback=buffers.append)
    read = pickle.loads(blob, buffers=buffers)
    read[0] = 7
    assert x[0] == 7
    odd = memoryview(bytearray(17))[1:]  # at no place for floats
    assert pickle.loads(blob, buffers=[odd]).tolist() == [0, 0, 0, 0]


def test_a_shallow_copy_shares_the_memory():
    x = torch.ones(3)
    copy.copy(x)[0] = 5
    assert x.tolist() == [5, 1, 1]
