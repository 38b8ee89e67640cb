"""Sparse tensors in files."""

import io
import warnings

import pytest

import jitgrad as torch


def kinds():
    dense = torch.tensor([[0.0, 2, 0], [3, 0, 4]])
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 3))
    return {"coo": dense.to_sparse(), "twice": twice, "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc()}


@pytest.mark.parametrize("zipped", [False, True])
def test_they_come_back(zipped):
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(kinds(), file, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        again = torch.load(file)
        for name, tensor in kinds().items():
            assert again[name].layout is tensor.layout and torch.equal(again[name].to_dense(), tensor.to_dense())
    assert again["coo"].is_coalesced() and not again["twice"].is_coalesced()


def test_indices_outside_are_refused():
    file, tensor = io.BytesIO(), kinds()["coo"]
    tensor._pattern.indices[0].view(-1)[0] = 7  # what a damaged file may say
    torch.save(tensor, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="(?i)inconsistent|out of bounds|index"):
        torch.load(file)
    file = io.BytesIO()
    torch.save(kinds()["coo"], file)
    file.seek(0)
    assert torch.load(file)._nnz() == 3
