"""Sparse tensors in files that the other library reads."""

import io
import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")


def tensors(library):
    dense = library.tensor([[0.0, 2, 0], [3, 0, 4]])
    twice = library.sparse_coo_tensor(library.tensor([[0, 0], [1, 1]]), library.tensor([1.0, 2.0]), (2, 3))
    return {"coo": dense.to_sparse(), "twice": twice, "csr": dense.to_sparse_csr()}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("writer", "reader"), [(torch, jitgrad), (jitgrad, torch)], ids=["ours", "theirs"])
def test_read_by_the_other(writer, reader, zipped):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.save(tensors(writer), file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        found = reader.load(file)
        for name, tensor in tensors(reader).items():
            assert found[name].layout == tensor.layout and reader.equal(found[name].to_dense(), tensor.to_dense())
            assert name == "csr" or found[name].is_coalesced() is tensor.is_coalesced()
