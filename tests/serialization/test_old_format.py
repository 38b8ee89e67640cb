"""Files that jitgrad wrote before it wrote PyTorch's format."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

import jitgrad as torch


def written(value, arrays=(), pickles=(), version="jitgrad-1"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in dict(arrays).items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(name, content.getvalue())
        for name, content in dict(pickles).items():
            archive.writestr(name, content)
        archive.writestr("structure.json", json.dumps({"format": version, "value": value}))
    return io.BytesIO(file.getvalue())


PLAIN = {"grad": False, "parameter": False}


def test_values_of_such_a_file():
    arrays = {"data/0.npy": np.arange(6.0, dtype=np.float32), "data/1.npy": np.array([0x3F80], np.uint16)}
    view = {"view": "data/0.npy", "dtype": "float32", "shape": [2], "strides": [2], "offset": 1}
    value = {"dict": [
        ["w", {"tensor": "data/0.npy", "grad": True, "parameter": True}], ["v", {**view, **PLAIN}],
        ["b", {"tensor": "data/1.npy", "bfloat16": True, **PLAIN}], ["t", {"tuple": [1, None, {"bytes": "6162"}]}],
        ["s", {"size": [2, 3]}], ["o", {"ordered": [["k", 1.5]], "attributes": {"dict": [["_metadata", 1]]}}],
        ["d", {"dtype": "float64"}], ["c", {"complex": [1, 2]}],
    ]}  # fmt: skip
    read = torch.load(written(value, arrays))
    assert type(read["w"]) is torch.nn.Parameter and read["w"].requires_grad and read["v"].tolist() == [1, 3]
    assert read["b"].dtype is torch.bfloat16 and read["b"].tolist() == [1] and read["t"] == (1, None, b"ab")
    assert read["s"] == torch.Size([2, 3]) and read["o"]._metadata == 1 and read["c"] == 1 + 2j
    with torch.no_grad():
        read["w"][1] = 7
    assert read["v"].tolist() == [7, 3]
    assert torch.load(written(value, arrays), map_location="meta")["v"].device.type == "meta"


def test_pickles_beside_it_are_read_only_if_they_are_trusted():
    value, pickles = {"pickle": "data/0.pickle", "kind": "range"}, {"data/0.pickle": pickle.dumps(range(3))}
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed(?s:.*)object of class range"):
        torch.load(written(value, pickles=pickles))
    assert torch.load(written(value, pickles=pickles), weights_only=False) == range(3)


@pytest.mark.parametrize("value", [
    {"tensor": "nowhere"}, {}, {"list": 3}, {"dict": [[1]]}, {"bytes": "x"},
    {"view": "data/0.npy", "dtype": "float32", "shape": [9], "strides": [1], "offset": 0, **PLAIN},
    {"view": "data/0.npy", "dtype": "float32", "shape": [1], "strides": [1], "offset": -4, **PLAIN},
])  # fmt: skip
def test_a_structure_that_makes_no_sense_is_refused(value):
    with pytest.raises(RuntimeError, match="is damaged, or was not written by"):
        torch.load(written(value, {"data/0.npy": np.ones(3, np.float32)}))


def test_another_version_is_named():
    with pytest.raises(RuntimeError, match="has format 'jitgrad-9'; this version reads 'jitgrad-1'"):
        torch.load(written(1, version="jitgrad-9"))
