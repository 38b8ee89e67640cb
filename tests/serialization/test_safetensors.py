"""safetensors: files that are written and read, in parts, and files that are wrong."""

import os
import random

import pytest

import jitgrad as torch
from jitgrad import safetensors as st


def test_the_bytes_of_a_file():
    blob = st.save({"b": torch.ones(1, dtype=torch.uint8), "a": torch.tensor([1.0, 2.0])}, {"k": "v"})
    header = (b'{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
              b'"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}')  # fmt: skip
    header += b" " * (-len(header) % 8)
    assert blob == len(header).to_bytes(8, "little") + header + b"\0\0\x80?\0\0\0@\1"


def test_a_file_in_parts(tmp_path):
    path = tmp_path / "x.safetensors"
    st.save_file({"w": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}, path, {"k": "v"})
    with st.safe_open(path, framework="pt") as file:
        assert file.keys() == ["b", "w"] and file.offset_keys() == ["w", "b"] and file.metadata() == {"k": "v"}
        part = file.get_slice("w")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "F32" and part[1:, ::2].tolist() == [[3, 5]]
        x = file.get_tensor("w")
    x[0, 0] = 9  # mapped, but not shared with the file
    assert torch.load(path)["w"][0, 0] == 0 and st.load_file(path)["b"].dtype is torch.bfloat16
    with st.safe_open(path, framework="np") as file:
        assert type(file.get_tensor("w")).__name__ == "ndarray"
    with pytest.raises(st.SafetensorError, match="File is closed"):
        file.keys()


def test_a_path_is_replaced_when_all_is_written(tmp_path):
    path = tmp_path / "x.safetensors"
    st.save_file({"w": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="non contiguous"):
        st.save_file({"w": torch.ones(2, 3).t()}, path)
    mapped = st.load_file(path)["w"]
    st.save_file({"w": mapped * 2}, path)
    assert mapped.tolist() == [1, 1] and st.load_file(path)["w"].tolist() == [2, 2]
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_dtypes_that_are_not_here_are_named():
    header = b'{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    with pytest.raises(st.SafetensorError, match="tensor `a` has dtype F8_E4M3, which is not in jitgrad"):
        st.load(len(header).to_bytes(8, "little") + header + b"ab")


def test_damage_is_one_error():
    blob = st.save({"w": torch.arange(6.0).view(2, 3), "t": torch.tensor([True, False])}, {"k": "v"})
    for end in range(len(blob)):
        with pytest.raises(st.SafetensorError, match="Error while deserializing"):
            st.load(blob[:end])
    numbers = random.Random(0)
    for _ in range(500):
        other = bytearray(blob)
        other[numbers.randrange(len(blob))] ^= 1 << numbers.randrange(8)
        try:
            for x in st.load(bytes(other)).values():
                x.tolist()
        except st.SafetensorError:
            pass


def test_an_error_names_the_file(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(st.save({"w": torch.ones(2)})[:-1])
    with pytest.raises(st.SafetensorError) as caught:
        st.load_file(path)
    assert caught.value.__notes__ == [f"while {path} was read"]


def test_bools_are_0_or_1():
    blob = st.save({"t": torch.tensor([True, False])})[:-2] + b"\xff\0"
    assert st.load(blob)["t"].view(torch.uint8).tolist() == [1, 0]


def test_models_whose_parameters_are_shared(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        st.save_file(net.state_dict(), tmp_path / "x")
    st.save_model(net, tmp_path / "x")
    assert sorted(st.load_file(tmp_path / "x")) == ["0.bias", "0.weight", "1.bias"]
    assert st.load_model(net, tmp_path / "x") == (set(), [])
    with pytest.raises(RuntimeError, match='Missing key.* "weight"(?s:.*)Unexpected key.*"0.bias"'):
        st.load_model(torch.nn.Linear(2, 2), tmp_path / "x")
